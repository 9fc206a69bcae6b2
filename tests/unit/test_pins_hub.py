"""`refusal-eval pin` through the real hub library: what is asked, written and refused, on loopback."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from adapter_folders import random_adapter
from forked_snakemake import run_refusal_eval
from hub_server import HubServer
from safetensors.numpy import save
from tokenizer_folders import byte_tokenizer

from refusal_eval.config.lock_file import LockFile

ROOT = Path(__file__).parents[2]
TOKEN = "hf_" + "SecretSecret" * 3
PASSWORD = "mirror-password"
ROWS = b"".join(json.dumps({"prompt": f"question {i}?"}).encode() + b"\n" for i in range(3))
SHAPE = {"layers": 1, "width": 8, "q_proj": 8, "v_proj": 4}
STUDY = {
    "study": "pinned",
    "models": ["plain", "tuned"],
    "splits": ["rows", "single", "address"],
    "samples": 2,
    "judges": ["words"],
    "gold": ["people"],
    "catalogue": ["catalogue.yaml"],
}


def catalogue(hub):
    def split(source, **keys):
        return {"source": source, "expectation": "comply", "unverified": ["the pin"], "licence": "MIT"} | keys

    rows = {"kind": "hub", "repo": "org/rows", "revision": None}
    model = {"engine": "tiny", "sampling": {"max_tokens": 30}}
    splits = {
        "rows": split(rows | {"split": "test"}),
        "single": split(rows | {"repo": "org/single", "file": "a.csv"}, licence="CC-BY-4.0"),
        "address": split({"kind": "url", "url": f"{hub.address}/0123/rows.jsonl", "sha256": None}),
        "closed": split(rows | {"repo": "org/gated", "split": "test"}, gated=True, terms="https://example.org/terms"),
    }
    return {
        "engines": {
            "tiny": {"weights": {"kind": "hub", "repo": "org/tiny", "revision": None}, "max_model_len": 512},
        },
        "models": {
            "plain": model,
            "tuned": model | {"lora": {"kind": "hub", "repo": "org/adapter", "revision": None}},
        },
        "datasets": {"own": {"splits": splits}},
        "judges": {"words": {"kind": "keyword", "lists": ["words.yaml"]}},
        "gold": {
            "people": {
                "source": {"kind": "hub", "repo": "org/gold", "revision": None, "file": "gold.jsonl"},
                "labels": {"yes": "refusal"},
                "raters": 1,
            }
        },
    }


@pytest.fixture(scope="module")
def model_files(tmp_path_factory):
    folder = byte_tokenizer(tmp_path_factory.mktemp("model"))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files |= {"config.json": b'{"eos_token_id": 258}', "README.md": b"# tiny", "pytorch_model.bin": b"x" * 2000}
    return files | {"model.safetensors": save({"weight": np.zeros(4000, dtype=np.float32)})}


@pytest.fixture
def hub(model_files, tmp_path):
    adapter = random_adapter(tmp_path / "adapter", shape=SHAPE)
    with HubServer() as server:
        server.add("model", "org/tiny", model_files, licence="apache-2.0")
        server.add("model", "org/adapter", {path.name: path.read_bytes() for path in adapter.iterdir()})
        server.add("dataset", "org/rows", {"README.md": b"# x", "test.jsonl": ROWS}, licence="mit")
        server.add("dataset", "org/single", {"a.csv": b"prompt\nx\n", "b.csv": b"prompt\ny\n"}, licence="mit")
        server.add("dataset", "org/gold", {"gold.jsonl": b'{"prompt": "a", "answer": "b", "label": "yes"}\n'})
        server.add("dataset", "org/gated", {"test.jsonl": ROWS}, gated=True)
        server.files["/0123/rows.jsonl"] = ROWS
        yield server


@pytest.fixture
def project(hub, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "words.yaml").write_text("refusal_openings: ['no']\n")
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue(hub)))
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY))
    return folder


def in_a_process(arguments, cwd, env):
    """Run the program as a user does."""
    command = [sys.executable, "-m", "refusal_eval", *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def pin(folder, hub, *arguments, run_program=run_refusal_eval, **environment):
    """Run the command; return its exit code and all that it said."""
    own = {"HF_ENDPOINT": hub.address, "HF_HOME": str(folder / "home"), "PATH": os.environ["PATH"]}
    own |= {"HOME": str(folder), "PYTHONPATH": str(ROOT / "scripts"), **environment}
    run = run_program(["pin", "study.yaml", *arguments], folder, own)
    assert "Traceback" not in run.stderr, run.stderr
    return run.returncode, run.stdout + run.stderr


def change(folder, file, *path, to):
    data = yaml.safe_load((folder / file).read_text())
    holder = data
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = to
    (folder / file).write_text(yaml.safe_dump(data))


def lock_of(folder):
    return LockFile.model_validate(yaml.safe_load((folder / "study.lock.yaml").read_text()))


def test_every_pin_is_asked_for_and_written_down(hub, project, model_files):
    code, reported = pin(project, hub, run_program=in_a_process)
    assert code == 0, reported
    lock = lock_of(project)
    tiny = next(one for one in lock.models if one.repo == "org/tiny")
    assert tiny.commit == hub.repos["models", "org/tiny"].newest and str(tiny.date) == "2026-01-01"
    assert tiny.pinned_by == "lock" and tiny.licence.hub == "apache-2.0" and tiny.licence.agrees is None
    weights = model_files["model.safetensors"]
    assert tiny.files["model.safetensors"] == f"{len(weights)} sha256:{hashlib.sha256(weights).hexdigest()}"
    assert tiny.files["config.json"].startswith("21 git:")
    assert not {"README.md", "pytorch_model.bin"} & set(tiny.files), "only what is fetched is locked"
    assert [one.repo for one in lock.models] == ["org/adapter", "org/tiny"]
    rows, single = lock.datasets[1], lock.datasets[2]
    assert set(rows.files) == {"README.md", "test.jsonl"} and rows.licence.agrees is True
    assert set(single.files) == {"a.csv"} and single.licence.agrees is False
    assert rows.whole and not single.whole and not tiny.whole
    assert [(one.sha256, one.size) for one in lock.urls] == [(hashlib.sha256(ROWS).hexdigest(), len(ROWS))]
    assert "note: org/single: the hub says mit, the entry says CC-BY-4.0" in reported
    assert "To fetch: " in reported and " are free in .cache" in reported
    assert "Wrote study.lock.yaml (model repositories: 2, data sets: 3, addresses: 1)." in reported
    assert not [asked for asked in hub.requests if "resolve" in asked], "weights are not downloaded for it"
    # A second time nothing changes, and a third tells that nothing differs.
    before = (project / "study.lock.yaml").read_bytes()
    assert "study.lock.yaml is as it was" in pin(project, hub)[1]
    assert (project / "study.lock.yaml").read_bytes() == before
    code, reported = pin(project, hub, "--check")
    assert code == 0 and "study.lock.yaml is what the hub says" in reported


def test_a_moved_head_is_taken_when_asked_for_only(hub, project):
    pin(project, hub)
    old = hub.repos["datasets", "org/rows"].newest
    new = hub.add("dataset", "org/rows", {"README.md": b"# y", "test.jsonl": ROWS}, licence="mit")
    for arguments in ([], ["--check"]):
        code, reported = pin(project, hub, *arguments)
        assert code == 0 and f"`main` is at {new[:12]} now; --upgrade takes it" in reported
        assert lock_of(project).datasets[1].commit == old
    before = (project / "study.lock.yaml").read_bytes()
    code, reported = pin(project, hub, "--check", "--upgrade")
    assert code == 1 and f"data set org/rows was {old[:12]}, is {new[:12]} (2026-01-02)" in reported
    assert (project / "study.lock.yaml").read_bytes() == before, "a check writes nothing"
    code, reported = pin(project, hub, "--upgrade")
    assert code == 0 and f"changed: data set org/rows was {old[:12]}" in reported
    assert (lock_of(project).datasets[1].commit, str(lock_of(project).datasets[1].date)) == (new, "2026-01-02")


def test_a_pin_of_an_entry_is_checked_and_comes_before_the_lock(hub, project):
    pin(project, hub)
    old = hub.repos["datasets", "org/rows"].newest
    hub.add("dataset", "org/rows", {"README.md": b"# y", "test.jsonl": ROWS})
    path = ("datasets", "own", "splits", "rows", "source", "revision")
    change(project, "catalogue.yaml", *path, to=old)
    assert pin(project, hub)[0] == 0
    assert (lock_of(project).datasets[1].commit, lock_of(project).datasets[1].pinned_by) == (old, "entry")
    change(project, "catalogue.yaml", *path, to="9" * 40)
    code, reported = pin(project, hub)
    assert code == 1 and "data set org/rows at 999999999999: the repository has no commit" in reported
    assert "(for splits.rows)" in reported
    # What is no longer used goes.
    change(project, "catalogue.yaml", *path, to=old)
    change(project, "study.yaml", "splits", to=["rows", "address"])
    code, reported = pin(project, hub, "--check")
    assert code == 0 and "note: org/single is in study.lock.yaml, but no longer used" in reported
    assert "removed: org/single, which is no longer used" in pin(project, hub)[1]


def test_all_that_fails_is_reported_together_and_nothing_is_written(hub, project):
    change(project, "study.yaml", "splits", to=["rows", "single", "address", "closed"])
    del hub.repos["models", "org/tiny"]
    hub.add("dataset", "org/single", {"b.csv": b"x"})
    del hub.files["/0123/rows.jsonl"]
    code, reported = pin(project, hub)
    assert code == 1 and "4 of the pins failed. study.lock.yaml was not written" in reported
    assert "model org/tiny at main: there is no such repository, or it is private" in reported
    assert "data set org/single: has no file `a.csv`; did you mean `b.csv`?" in reported
    assert f"is gated: ask for access at {hub.address}/datasets/org/gated while signed in" in reported
    assert "no token is set now" in reported
    assert "/0123/rows.jsonl: there is no such file (status 404)" in reported
    assert not (project / "study.lock.yaml").exists()


def test_a_gated_repository_opens_to_the_token_which_is_written_nowhere(hub, project):
    change(project, "study.yaml", "splits", to=["closed"])
    code, reported = pin(project, hub, HF_TOKEN=TOKEN)
    assert code == 1 and "the token in use (HF_TOKEN, or the hub's token file) has no access yet" in reported
    hub.tokens.add(TOKEN)
    code, said = pin(project, hub, HF_TOKEN=TOKEN)
    assert code == 0 and "org/gated" in said and "gated" in said
    assert next(one for one in lock_of(project).datasets if one.repo == "org/gated").gated
    # The token file of the hub's own `hf auth login` counts too.
    (project / "study.lock.yaml").unlink()
    (project / "home").mkdir(exist_ok=True)
    (project / "home" / "token").write_text(TOKEN)
    assert pin(project, hub)[0] == 0
    shutil.rmtree(project / "home")
    written = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    assert TOKEN.encode() not in written and TOKEN not in reported + said


def test_a_rewritten_history_is_reported(hub, project):
    pin(project, hub)
    before = (project / "study.lock.yaml").read_bytes()
    sha = hub.repos["datasets", "org/rows"].newest
    hub.rewrite("dataset", "org/rows", sha, {"README.md": b"# x", "test.jsonl": ROWS + ROWS})
    for arguments in ([], ["--check"], ["--upgrade"]):
        code, reported = pin(project, hub, *arguments)
        assert code == 1 and "the repository was rewritten under the same commit hash" in reported
    hub.add("dataset", "org/rows", {"README.md": b"# x", "test.jsonl": ROWS})
    hub.rewrite("dataset", "org/rows", sha)
    code, reported = pin(project, hub)
    assert code == 1 and "the lock file names it: --upgrade takes what is there today" in reported
    assert (project / "study.lock.yaml").read_bytes() == before
    assert pin(project, hub, "--upgrade")[0] == 0


def test_a_file_at_an_address_that_changed_is_reported(hub, project):
    pin(project, hub)
    hub.files["/0123/rows.jsonl"] = ROWS + ROWS
    code, reported = pin(project, hub)
    assert code == 1 and "holds another file: its SHA-256 is" in reported and "the lock file says" in reported
    assert pin(project, hub, "--upgrade")[0] == 0


def test_without_a_hub_it_is_reported_once_without_passwords(hub, project):
    code, reported = pin(project, hub, HF_HUB_OFFLINE="1")
    assert code == 1 and "HF_HUB_OFFLINE is set, so nothing can be asked" in reported
    endpoint = f"http://me:{PASSWORD}@127.0.0.1:9"
    code, reported = pin(project, hub, HF_ENDPOINT=endpoint, HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert code == 1 and reported.count("cannot reach http://127.0.0.1:9/") == 1
    assert "(4 more repositories were not asked for)" in reported
    assert PASSWORD not in reported
