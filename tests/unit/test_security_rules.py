"""Closed doors: what the server is given, where it may be reached, and names that cannot leave their folder."""

import errno
import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time

import pytest
from config_project import CATALOGUE, COMMIT, SHA256, STUDY
from engine_entries import server_command

from refusal_eval.core.errors import UserError
from refusal_eval.data import hub
from refusal_eval.engines import private_folder
from refusal_eval.engines.listeners import Listener, listeners_of
from refusal_eval.engines.private_folder import make_private_folder, socket_folders, why_no_socket
from refusal_eval.engines.server import server_environment
from refusal_eval.engines.vllm_arguments import identity_args
from refusal_eval.engines.vllm_engine import VllmEngine
from refusal_eval.study.study_folder import record_study
from refusal_eval.weights.weight_fetching import weights_names

# ---------------------------------------------------------------- the server's environment


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
        *("PASSWORD", "GITHUB_PAT", "OPENAI_KEY", "SSH_PRIVATE_KEY", "AZURE_CREDENTIALS", "DB_PASSWD", "DATABASE_URL"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "SLACK_WEBHOOK_URL", "SENTRY_DSN", "MYSQL_PWD"),
        *("SOME_PASSPHRASE", "PASSPHRASE", "GPG_PASSPHRASE_2", "DB_PASS", "SMTPPASS", "PASS", "DBPWD", "ROOT_PASSWD"),
        *("AWS_CREDS", "HTTP_AUTHORIZATION", "OAUTH_CLIENT", "PROXY_AUTH", "BEARER", "SESSION_COOKIE", "COOKIES"),
        *("SESSION_ID", "MY_SESSION", "PHPSESSIONID", "APP_PRIVATE_PEM", "URL_SIGNATURE", "DSN", "SLURM_JWT"),
        *(
            "TAILSCALE_AUTHKEY",
            "ENCRYPTION_KEY_BASE64",
            "STORAGE_CONNECTION_STRING",
            "AZURE_SAS",
            "api_keys",
            "MFA_OTP",
            "DB_PW",
            "SEED_PHRASE",
            "WALLET_KEYPHRASE",
        ),
    ],
)
def test_the_server_gets_no_secrets(monkeypatch, name):
    monkeypatch.setenv(name, "hf_PLANTEDTOKEN")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    environment = server_environment("seeded", "cpu")
    assert "hf_PLANTEDTOKEN" not in environment.values()
    assert environment["TOKENIZERS_PARALLELISM"] == "false"


@pytest.mark.parametrize("user", ["me:hf_PLANTEDTOKEN", ":hf_PLANTEDTOKEN", "hf_PLANTEDTOKEN"])
def test_the_server_gets_no_address_with_a_password_in_it(monkeypatch, user):
    monkeypatch.setenv("MIRROR", f"https://{user}@mirror.example/simple")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    environment = server_environment("seeded", "cpu")
    assert "MIRROR" not in environment and environment["HTTP_PROXY"] == "http://proxy.example:3128"


@pytest.mark.parametrize(
    "name",
    [
        *("HF_HOME", "HF_HUB_CACHE", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "LD_LIBRARY_PATH", "PATH", "NCCL_DEBUG"),
        *(
            "VLLM_CACHE_ROOT",
            "VLLM_ATTENTION_BACKEND",
            "TRITON_CACHE_DIR",
            "FLASHINFER_WORKSPACE_BASE",
            "S3_ENDPOINT_URL",
        ),
        *("SLURM_JOB_ID", "SLURM_TMPDIR", "HOME", "PWD", "OLDPWD", "XDG_CACHE_HOME", "VLLM_PP_LAYER_PARTITION", "TERM"),
        *("XAUTHORITY", "XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS", "SESSION_MANAGER", "SSL_CERT_FILE", "COMPASS"),
        *("VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE", "VLLM_MULTI_STREAM_GEMM_TOKEN_THRESHOLD", "VLLM_USE_FASTOKENS"),
        *("VLLM_MAX_BAD_WORDS_TOTAL_TOKENS", "I_MPI_PIN_DOMAIN", "NCCL_SOCKET_IFNAME_PATTERN", "AUTHOR", "MONKEY"),
    ],
)
def test_the_server_keeps_what_it_needs_of_the_environment(monkeypatch, name):
    monkeypatch.setenv(name, "/kept")
    assert server_environment("seeded", "cuda")[name] == "/kept"


def test_a_key_for_another_vllm_server_does_not_lock_us_out(monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "key")
    assert "VLLM_API_KEY" not in server_environment("seeded", "cpu")


def test_the_servers_processes_talk_over_loopback_whatever_the_clusters_settings_say(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    environment = server_environment("seeded", "cuda")
    assert environment["VLLM_HOST_IP"] == "127.0.0.1"
    assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == "lo"


def test_an_engine_on_several_machines_keeps_the_clusters_network(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    environment = server_environment("seeded", "cuda", nodes=2)
    assert environment["GLOO_SOCKET_IFNAME"] == "ib0" and "VLLM_HOST_IP" not in environment


# ---------------------------------------------------------------- who may read results, store and fetched rows


@pytest.mark.parametrize(("private", "mode"), [(True, 0o700), (False, 0o755)])
def test_prompts_and_answers_of_a_study_are_for_its_user_only(tmp_path, monkeypatch, private, mode):
    """Fetched rows are prompts and gold too, some of them gated."""
    monkeypatch.chdir(tmp_path)
    folders = {"results_dir": "results", "store_dir": "results/store", "cache_dir": "cache"}
    config = {name: str(tmp_path / folder) for name, folder in folders.items()}
    before = os.umask(0o022)
    try:
        record_study(config | {"study": "mine", "private_folders": private}, "mine.yaml")
        made = [tmp_path / name for name in ("results", "results/store", "results/mine", "cache/rows")]
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in made} == {path.name: mode for path in made}
        assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o755, "weights are shared"
        made[-1].chmod(0o750)
        record_study(config | {"study": "mine", "private_folders": private}, "mine.yaml")
        assert stat.S_IMODE(made[-1].stat().st_mode) == 0o750, "what its owner opened stays open"
    finally:
        os.umask(before)


def test_a_run_removes_what_an_earlier_one_was_killed_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {"results_dir": "results", "store_dir": "store", "cache_dir": "cache", "study": "mine"}
    config["private_folders"] = True
    places = ["results/mine/figures/.c.png.3juuu5ji.tmp", "store/engine/.job.index.npz.0i1srr66.tmp"]
    places += ["cache/rows/.own.jsonl.0i1srr66.tmp", "results/other/.c.png.3juuu5ji.tmp"]
    for place in places:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        open(place, "w").close()
        os.utime(place, (time.time() - 90_000,) * 2)
    record_study(config, "mine.yaml")
    assert [os.path.exists(place) for place in places] == [False, False, False, True]


def test_a_host_whose_clock_is_ahead_removes_nothing_that_is_being_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {"results_dir": "results", "store_dir": "store", "cache_dir": "cache", "study": "mine"}
    being_written = tmp_path / "store" / "engine" / ".job.index.npz.0i1srr66.tmp"
    being_written.parent.mkdir(parents=True)
    being_written.touch()
    ahead = time.time() + 10 * 86_400
    monkeypatch.setattr(time, "time", lambda: ahead)
    record_study(config | {"private_folders": True}, "mine.yaml")
    assert being_written.exists()


FOLDERS = {
    "results_dir": "results",
    "store_dir": "store",
    "cache_dir": "cache",
    "study": "mine",
    "private_folders": True,
}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["mkdir", "replace"])
def test_a_folder_that_takes_no_files_is_told_in_a_sentence(tmp_path, monkeypatch, number, call):
    def refuse(path, *_, **__):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(UserError, match=rf"{os.strerror(number)}; make it .* run again. It is one of `results_dir`"):
        record_study(FOLDERS, "mine.yaml")


@pytest.mark.parametrize("place", ["cache", "results", "results/mine", "results/mine/study.json/"])
def test_a_file_where_a_folder_should_be_is_told_in_a_sentence(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    if place.endswith("/"):
        os.makedirs(place)
    else:
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        open(place, "w").close()
    with pytest.raises(UserError, match=r"should be: move it away and run again. It is one of `results_dir`"):
        record_study(FOLDERS, "mine.yaml")


# ---------------------------------------------------------------- where its sockets lie


@pytest.fixture
def short():
    """Return a folder whose path leaves room for a socket's."""
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as folder:
        yield folder


def test_the_private_folder_is_closed_to_others_whatever_the_umask(short):
    before = os.umask(0)
    try:
        folder = make_private_folder([short])
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert os.listdir(folder) == []


def test_a_temporary_folder_too_long_for_a_socket_is_passed_over(tmp_path, short):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    folder = make_private_folder([str(long), short])
    assert os.path.dirname(folder) == short
    assert os.listdir(long) == []


def test_no_folder_for_sockets_is_reported_with_every_reason(tmp_path):
    long, missing = tmp_path / ("x" * 90), tmp_path / "missing"
    long.mkdir()
    with pytest.raises(UserError, match=r"bytes, 107 are possible.*missing: No such file.*Set TMPDIR"):
        make_private_folder([str(long), str(missing)])


def test_a_file_system_without_sockets_is_noticed(tmp_path, monkeypatch):
    class Refuses(socket.socket):
        def bind(self, address):
            raise OSError(95, "Operation not supported")

    monkeypatch.setattr(private_folder.socket, "socket", Refuses)
    assert why_no_socket("/tmp") == "sockets do not work there (Operation not supported)"


def test_the_first_choice_is_the_temporary_folder(monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    monkeypatch.setattr(private_folder.tempfile, "gettempdir", lambda: "/scratch/me")
    assert socket_folders() == ["/scratch/me", "/tmp", "/var/tmp", "/dev/shm"]


# ---------------------------------------------------------------- who listens where


@pytest.mark.parametrize(
    ("address", "closed"),
    [
        *((address, True) for address in ("127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1")),
        *((address, False) for address in ("0.0.0.0", "::", "192.0.2.2", "::ffff:192.0.2.2")),
    ],
)
def test_only_loopback_is_closed(address, closed):
    assert Listener(1, address, 80).on_loopback is closed


def test_a_process_that_listens_to_the_network_is_found():
    code = "import socket; s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen(); print(s.getsockname()[1]); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        port = int(process.stdout.readline())
        assert listeners_of([process.pid]) == [Listener(process.pid, "0.0.0.0", port)]
        process.kill()
    assert listeners_of([process.pid]) == []


# ---------------------------------------------------------------- names from the config


NAMES = ["../x", "/etc/x", "a/b", "..", ".", "", ".hidden", "a\nb", "a\n", "a\\b", "-x", "a b", "$(id)", "{model}", "é"]
SPLIT = {"source": {"kind": "file", "path": "rows.csv"}, "columns": {"prompt": "question"}, "expectation": "comply"}
OWN = {
    "models": {"engine": "hub-engine", "sampling": {"max_tokens": 64}},
    "engines": CATALOGUE["engines"]["hub-engine"],
    "datasets": {"splits": {"own": SPLIT}},
    "judges": {"kind": "keyword", "lists": ["words.yaml"]},
    "gold": CATALOGUE["gold"]["people"] | {"source": SPLIT["source"]},
}


def none_is_a_name(mistakes):
    """Tell whether each of the bad names is refused."""
    return all(any(f"{name!r} is not a name" in mistake for mistake in mistakes) for name in NAMES)


def test_a_studys_name_cannot_leave_the_results(project):
    for name in NAMES:
        assert any(": study: " in mistake for mistake in project.mistakes(STUDY | {"study": name}))


@pytest.mark.parametrize("section", OWN)
def test_a_catalogue_entrys_name_cannot_leave_the_results_and_a_plain_one_is_fine(project, section):
    project.write("own.yaml", {section: {name: OWN[section] for name in NAMES}})
    assert none_is_a_name(project.mistakes(STUDY | {"catalogue": ["own.yaml"]}))
    project.write("own.yaml", {section: {"plain-name.2": OWN[section]}})
    assert project.mistakes(STUDY | {"catalogue": ["own.yaml"]}) == []


def test_a_splits_name_cannot_leave_the_results(project):
    project.write("own.yaml", {"datasets": {"mine": {"splits": {name: SPLIT for name in NAMES}}}})
    reported = project.mistakes(STUDY | {"catalogue": ["own.yaml"]})
    assert none_is_a_name([mistake for mistake in reported if "own.yaml" in mistake])


@pytest.mark.parametrize("section", ["models", "splits", "judges", "gold"])
def test_a_study_cannot_name_what_leaves_the_results(project, section):
    assert none_is_a_name(project.mistakes(STUDY | {section: NAMES}))


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "bundled", "file": "../../rows.jsonl"},
        {"kind": "hub", "repo": "../x", "revision": COMMIT, "split": "test"},
        {"kind": "hub", "repo": "a/..", "revision": COMMIT, "split": "test"},
        {"kind": "hub", "repo": "a/b/c", "revision": COMMIT, "split": "test"},
        {"kind": "hub", "repo": "owner/data", "revision": "../../x", "split": "test"},
        {"kind": "wheel", "package": "../p", "version": "1.0", "file": "p/d.csv", "sha256": SHA256},
        {"kind": "wheel", "package": "p", "version": "1.0/../..", "file": "p/d.csv", "sha256": SHA256},
        {"kind": "wheel", "package": "--index-url", "version": "1.0", "file": "p/d.csv", "sha256": SHA256},
    ],
)
def test_a_source_cannot_leave_the_cache(project, source):
    project.write("own.yaml", {"datasets": {"mine": {"splits": {"mine": SPLIT | {"source": source}}}}})
    assert project.mistakes(STUDY | {"catalogue": ["own.yaml"], "splits": ["mine"]})


# ---------------------------------------------------------------- pickles


def test_a_folder_with_pickled_weights_only_is_refused(project):
    os.rename("weights/model.safetensors", "weights/pytorch_model.bin")
    reported = project.mistakes(STUDY | {"models": ["thinker"]})
    assert any("no *.safetensors file" in mistake for mistake in reported)


def test_a_repositorys_pickles_are_not_fetched():
    names = ["config.json", "model.safetensors", "pytorch_model.bin", "training_args.bin", "optimizer.pt", "x.pkl"]
    assert weights_names(names) == ["config.json", "model.safetensors"]
    with pytest.raises(UserError, match="pickles run code"):
        weights_names(["config.json", "pytorch_model.bin"])


# ---------------------------------------------------------------- remote code


def test_code_of_a_repository_runs_only_where_the_entry_says_so():
    entry = {"args": {}, "quantization": None, "trust_remote_code": False, "dtype": "bfloat16", "memory_share": 0.9}
    entry |= {"max_model_len": 64, "tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1, "device": "cuda"}
    for trusted in (False, True):
        command = server_command("python", "folder", entry | {"trust_remote_code": trusted}, "cuda", "seeded", "sock")
        assert ("--trust-remote-code" in command) is trusted
    assert VllmEngine.model_fields["trust_remote_code"].default is False


@pytest.mark.parametrize(
    ("argument", "value", "reported"),
    [
        ("hf-token", "hf_x", "would be written into logs"),
        ("config", "other.yaml", "no key and no record would show"),
        ("trust-remote-code", True, "has a key of its own"),
        ("no-trust-remote-code", False, "has a key of its own"),
        ("trust-remote", True, "is short for `trust-remote-code`"),
        ("no-trust", False, "is short for `trust-remote-code`"),
        ("hf-tok", "hf_x", "is short for `hf-token`"),
        ("hos", "0.0.0.0", "is short for `host`"),
        ("enforce-eager", "--model=/tmp/other", "begins with `-`, as another argument does"),
        ("hf-overrides", " -x", "begins with `-`, as another argument does"),
        ("kv-cache-dtype", "fp8\0", "holds a NUL character"),
        ("distributed-executor-backend", "my_code.Executor", "must be one of mp, ray, uni, external_launcher"),
        ("distributed-executor-backend", "MP", "must be one of mp, ray, uni, external_launcher"),
        ("compilation-config", '{"backend": "my_code.compiler"}', "must be one of eager, inductor, openxla"),
        ("compilation-config.backend", "my_code.compiler", "must be one of eager, inductor, openxla"),
        ("compilation-config", '{"inductor_passes": {"a": "my_code.change"}}', "names code"),
        ("compilation-config.inductor-passes.a", "my_code.change", "names code"),
        ("compilation-config", "{mode: 3}", "is no JSON"),
        ("log-config-file", "log.json", "names a file that may name code"),
        ("logging-config", '{"pylogging_config_file": "log.json"}', "names code"),
        ("logging-config.pylogging-config-file", "log.json", "names code"),
        ("disable-log-stats", True, "the counters that tell a server that hangs"),
        ("no-disable-log-stats", False, "the counters that tell a server that hangs"),
    ],
)
def test_an_engines_free_arguments_open_no_door(argument, value, reported):
    entry = CATALOGUE["engines"]["hub-engine"]
    with pytest.raises(ValueError, match=reported):
        VllmEngine.model_validate(entry | {"args": {argument: value}})


@pytest.mark.parametrize("value", ["--trust-remote-code", "-q=x"])
def test_a_quantization_that_reads_as_an_argument_is_no_quantization(value):
    with pytest.raises(ValueError, match="begins with `-`, as another argument does"):
        VllmEngine.model_validate(CATALOGUE["engines"]["hub-engine"] | {"quantization": value})


@pytest.mark.parametrize(
    "argument", ["worker-extension-cls", "scheduler-cls", "logits-processors", "middleware", "tool-parser-plugin"]
)
def test_code_that_an_engine_is_given_is_in_its_key(argument):
    assert identity_args({argument: "my_code.Thing"}) == {argument: "my_code.Thing"}


def test_other_free_arguments_are_taken():
    entry = CATALOGUE["engines"]["hub-engine"]
    args = {"enforce-eager": True, "max-num-seqs": 64, "no-enable-prefix-caching": True, "hf-overrides.x": 1}
    args |= {"distributed-executor-backend": "mp", "compilation-config": '{"mode": 3, "backend": "eager"}'}
    args |= {"disable-log-stats": False, "logging-config.formatter": "json"}
    assert VllmEngine.model_validate(entry | {"args": args}).args == args


def test_a_mirrors_password_is_not_reported(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://me:PLANTED@mirror.example:8443/hf/")
    place = hub.Repository("dataset", "org/rows", COMMIT, "cache", logging.getLogger())
    assert place.page == "https://mirror.example:8443/hf/datasets/org/rows"
