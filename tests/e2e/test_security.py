"""Closed doors, looked at from outside: as another user, over the network, in every file that a run leaves."""

import base64
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import HubServer
from other_user import as_other_user
from project import Project, make_project
from real import real_project

from refusal_eval.core.files import read_json

TOKEN = "hf_PLANTEDTOKENqwertyuiopasdfghjkl"
TOKENS = {"HF_TOKEN": TOKEN, "HUGGING_FACE_HUB_TOKEN": TOKEN, "OPENAI_API_KEY": TOKEN, "AWS_SECRET_ACCESS_KEY": TOKEN}
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """Return a folder that every user may enter: what is closed in it is closed by itself."""
    with tempfile.TemporaryDirectory(prefix="open-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


# ---------------------------------------------------------------- no secret in any file

FAKE_ENGINE = """#!{python}
# Answers as vLLM does, and prints all that it was given: command line and environment.
import importlib.metadata, json, os, socketserver, sys
from http.server import BaseHTTPRequestHandler

if sys.argv[1] == "-c":
    print(json.dumps({{"vllm": "0.0"}}))
    sys.exit()
print(sys.argv, dict(os.environ), flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "client"

    def do_GET(self):
        self.answer(b"vllm:request_success_total 1.0\\n")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(self.headers, flush=True)
        ids = [73, 39, 109, 32, body["seed"] % 26 + 97, 258]
        choice = {{"text": "I'm " + chr(ids[4]), "token_ids": ids, "logprobs": {{"token_logprobs": [-0.5] * 6}}}}
        choice |= {{"finish_reason": "stop", "stop_reason": 258}}
        self.answer(json.dumps({{"choices": [choice], "usage": {{"prompt_tokens": len(body["prompt"])}}}}).encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


Server(next(word[6:] for word in sys.argv if word.startswith("--uds=")), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def planted(open_folder: Path) -> Iterator[tuple[Project, str]]:
    """Return a study with prompts and weights from the hub and an engine that prints all it knows, and what it said."""
    project = make_project(open_folder / "planted")
    fake = project.folder / "fake-python"
    fake.write_text(FAKE_ENGINE.format(python=sys.executable))
    fake.chmod(0o755)
    folder = project.folder / "model"
    with HubServer() as hub, pytest.MonkeyPatch.context() as patch:
        weights = hub.add("model", "org/model", {path.name: path.read_bytes() for path in folder.iterdir()})
        rows = hub.add("dataset", "org/rows", {"data/test.jsonl": b'{"prompt": "one?"}\n{"prompt": "two?"}\n'})
        source = {"kind": "hub", "repo": "org/rows", "revision": rows, "split": "test"}
        project.catalogue("engines", "tiny", weights={"kind": "hub", "repo": "org/model", "revision": weights})
        project.catalogue("engines", "tiny", python=str(fake), memory_share=0.01)
        project.catalogue("datasets", "own", splits={"one": {"source": source, "expectation": "comply"}})
        project.study(splits=["one"], judges=["words"], gold=[], cache_dir="cache")
        patch.setenv("HF_ENDPOINT", hub.address)
        patch.setenv("HF_HOME", str(project.folder / "hf-home"))
        patch.setenv("TMPDIR", str(open_folder))
        for name, value in TOKENS.items():
            patch.setenv(name, value)
        run = project.snakemake("--printshellcmds", "--verbose")
    yield project, run.stdout + run.stderr


def forms(secret: str) -> list[bytes]:
    """Return how a secret may be written: as it is, and in base64 wherever it begins."""
    found = [secret.encode()]
    for shift in range(3):
        encoded = base64.b64encode(b"x" * shift + secret.encode())
        found.append(encoded[4 if shift else 0 : -4])
    return found


def files_with(folder: Path, secret: str) -> list[str]:
    """Return the files below a folder, hidden ones too, that hold a secret in their text or name."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.name)
        text = path.read_bytes() if path.is_file() else b""
        if any(form in text or form in name for form in forms(secret)):
            found.append(str(path.relative_to(folder)))
    return found


def test_the_study_ran_to_its_end_on_the_engine(planted: tuple[Project, str]) -> None:
    project, _ = planted
    (receipt,) = (project.results / "receipts" / "generate").rglob("*.json")
    assert read_json(receipt)["executed"] == 2 * 2 * 3  # models, prompts, K
    (log,) = project.results.rglob("*.server.log")
    assert "'HF_HUB_OFFLINE': '1'" in log.read_text()  # it did print its environment


def test_the_search_finds_a_secret_wherever_it_is(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "plain").write_text(f"a{TOKEN}b")
    for shift in range(3):
        (tmp_path / f"encoded{shift}").write_bytes(base64.b64encode(b"z" * shift + TOKEN.encode() + b"zz"))
    assert len(files_with(tmp_path, TOKEN)) == 4


def test_no_secret_is_in_any_file_nor_on_the_console(planted: tuple[Project, str]) -> None:
    project, said = planted
    assert (project.folder / ".snakemake" / "metadata").is_dir()
    assert files_with(project.folder, TOKEN) == []
    assert TOKEN not in said


def test_no_secret_is_reported_when_the_hub_refuses(open_folder: Path) -> None:
    project = make_project(open_folder / "gated")
    with HubServer() as hub, pytest.MonkeyPatch.context() as patch:
        rows = hub.add("dataset", "org/rows", {"data/test.jsonl": b"{}\n"}, gated=True)
        source = {"kind": "hub", "repo": "org/rows", "revision": rows, "split": "test"}
        project.catalogue("datasets", "own", splits={"one": {"source": source, "expectation": "comply"}})
        project.study(splits=["one"], judges=["words"], gold=[], cache_dir="cache")
        patch.setenv("HF_ENDPOINT", hub.address)
        patch.setenv("HF_HOME", str(project.folder / "hf-home"))
        for name, value in TOKENS.items():
            patch.setenv(name, value)
        run = project.snakemake("--verbose", "--until", "prompts", check=False)
    said = run.stdout + run.stderr
    assert run.returncode != 0 and "is gated" in said
    assert TOKEN not in said and files_with(project.folder, TOKEN) == []


@as_root
def test_another_user_reads_neither_results_nor_responses(planted: tuple[Project, str]) -> None:
    project, _ = planted
    (response,) = project.store.rglob("*.jsonl")
    (log,) = project.results.rglob("*.server.log")
    (answers, *_) = (project.results / "answers").rglob("*.jsonl")
    for path in (response, log, answers, project.results / "manifest.json"):
        assert as_other_user(path.read_bytes) == "PermissionError", path
    assert as_other_user(lambda: os.listdir(project.folder / "results" / "small")) == "PermissionError"
    # What is not private is readable: so the folder above is not what keeps them out.
    assert as_other_user((project.folder / "study.yaml").read_bytes) == "done"


# ---------------------------------------------------------------- the real engine

HOSTS = "127.0.0.1 localhost\n{address} refusal-eval-host\n"
PICKLES = ("pytorch_model.bin", "model.bin", "training_args.bin", "optimizer.pt", "consolidated.00.pth", "a.pkl")


class Malicious:
    """What runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


@pytest.fixture(scope="module")
def real(open_folder: Path) -> dict[str, Any]:
    """Return what was seen of the real engine on a folder with malicious pickles; `marker` tells whether one ran."""
    project = real_project(open_folder / "weights")
    project.snakemake("--until", "identify_engine")
    source = Path(read_json(project.results / "engines" / "smollm2-135m.json")["folder"])
    model, marker = open_folder / "model", open_folder / "unpickled"
    shutil.copytree(source, model)
    for name in PICKLES:
        (model / name).write_bytes(pickle.dumps(Malicious(marker)))
    probe = str(Path(__file__).with_name("security_probe.py"))
    command = [sys.executable, probe, str(model), str(open_folder)]
    library = Path(__file__).parents[2] / "scripts"
    paths = f"{library}:{Path(__file__).parents[1]}:{Path(__file__).parent}"
    environment = {**os.environ, **TOKENS, "PYTHONPATH": paths, "TMPDIR": str(open_folder)}
    # The first request compiles; on a busy machine that takes longer than the five minutes vLLM gives a step.
    environment["VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"] = "3600"
    if in_namespace():
        (open_folder / "hosts").write_text(HOSTS.format(address=network_address()))
        shell = f'hostname refusal-eval-host && mount --bind {open_folder}/hosts /etc/hosts && exec "$@"'
        command = ["unshare", "--uts", "--mount", "sh", "-c", shell, "sh", *command]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    seen: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return seen | {"marker": marker.exists(), "namespace": in_namespace()}


def in_namespace() -> bool:
    """Tell whether this machine lets us give it another name, and has a network address to give that name."""
    if os.getuid() != 0 or not network_address():
        return False
    trial = ["unshare", "--uts", "--mount", "true"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def network_address() -> str:
    """Return an address of this machine that others reach; empty if there is none."""
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return next((address for address in found if ":" not in address and not address.startswith("127.")), "")


@pytest.mark.full
def test_the_engine_answers_from_safetensors_and_runs_no_pickle(real: dict[str, Any]) -> None:
    assert real["tokens"] > 0
    assert not real["marker"]


def test_the_pickles_would_run_if_they_were_loaded(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Malicious(tmp_path / "unpickled")))
    assert (tmp_path / "unpickled").exists()


@pytest.mark.full
def test_the_servers_sockets_lie_in_a_private_folder_that_goes(real: dict[str, Any]) -> None:
    assert real["mode"] == 0o700
    assert "engine.sock" in real["sockets"] and len(real["sockets"]) > 1  # vLLM's own are there too
    assert not real["left"]


@pytest.mark.full
def test_none_of_the_servers_processes_listens_to_the_network(real: dict[str, Any]) -> None:
    assert real["processes"] >= 2 and real["listeners"]  # torch's; or this would look at nothing
    assert [address for address, on_loopback in real["listeners"] if not on_loopback] == []


@pytest.mark.full
def test_the_server_is_given_no_secret(real: dict[str, Any]) -> None:
    assert not real["secret_in_environment"] and not real["secret_in_command"]


@pytest.mark.full
@as_root
def test_another_user_cannot_reach_the_server(real: dict[str, Any]) -> None:
    refused = {"connect", "list", "look", "environment"}
    assert {what: real["other_user"][what] for what in refused} == dict.fromkeys(refused, "PermissionError")
    assert real["other_user"]["itself"] == "done"
