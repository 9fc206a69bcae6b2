"""A vLLM of one's own, spoken to as a hosted model: the same answers and log-probabilities as of the local engine.

The server is started as its user would, on loopback, with a generation_config.json that would change every answer: the
entry of the engine names all parameters that it has, so that each of them is sent.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from project import ROOT, Project
from real import real_project

from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.study.engine_environment import ENGINE_FOLDER

pytestmark = [pytest.mark.full, pytest.mark.feature("hosted")]

KEY, KEY_VARIABLE = "sk-own-vllm", "OWN_VLLM_KEY"
HIDDEN = {"top_k": 1, "temperature": 0.01, "repetition_penalty": 1.9, "max_new_tokens": 3, "eos_token_id": 2}
SENT = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
SENT = (*SENT, "presence_penalty", "frequency_penalty")
MODELS = {"greedy": {"max_tokens": 12, "temperature": 0}, "drawn": {"max_tokens": 12, "temperature": 0.7}}
# As the local engine is started with `determinism: strict`: what is computed together would change rounding.
OPTIONS = "--dtype bfloat16 --max-model-len 2048 --gpu-memory-utilization 0.2 --enforce-eager --max-num-seqs 1"
OPTIONS += " --no-enable-prefix-caching --no-enable-chunked-prefill --max-num-batched-tokens 4096 --block-size 32"


def whole_splits(project: Project) -> None:
    """Let the study ask both models all of two bundled splits: 64 prompts."""
    data = yaml.safe_load((project.folder / "catalogue.yaml").read_text())
    for split in data["datasets"]["four-each"]["splits"].values():
        del split["sample"]
    for name, sampling in MODELS.items():
        data["models"][name] = {"like": "smollm2-plain", "label": name, "sampling": sampling}
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(data))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return the study on the local engine, with its answers."""
    folder = tmp_path_factory.mktemp("local") / "project"
    project = real_project(folder, models=list(MODELS), judges=["keyword"], samples=1)
    whole_splits(project)
    project.snakemake("--until", "answers")
    return project


@pytest.fixture(scope="module")
def address(local: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the same weights; yield the address."""
    folder = tmp_path_factory.mktemp("served") / "model"
    shutil.copytree(ROOT / read_json(local.results / "engines" / "smollm2-135m.json")["folder"], folder)
    (folder / "generation_config.json").write_text(json.dumps(HIDDEN))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    python, program = ROOT / ENGINE_FOLDER / "bin" / "python", ROOT / "scripts/refusal_eval/engines/vllm_server.py"
    command = [str(python), "-P", str(program), "--model", str(folder), "--served-model-name", "smol"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--api-key", KEY, *OPTIONS.split()]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    log = folder.parent / "server.log"
    with open(log, "w") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said, env=environment, start_new_session=True)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def wait_until_healthy(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + 300
    while True:
        assert server.poll() is None and time.monotonic() < end, log.read_text()[-3000:]
        try:
            urllib.request.urlopen(url, timeout=5)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)


def on_the_server(project: Project, address: str) -> None:
    """Let the models' engine be the server."""
    file = project.folder / "catalogue.yaml"
    data = yaml.safe_load(file.read_text())
    names = {name: name for name in SENT}
    entry = {"kind": "openai", "address": address, "served": "smol", "key_variable": KEY_VARIABLE, "parameters": names}
    data["engines"] = {"own": {**entry, "as_of": "2026-11-01", "logprobs": True}}
    for name, sampling in MODELS.items():
        data["models"][name] = {"engine": "own", "label": name, "sampling": sampling}
    file.write_text(yaml.safe_dump(data))


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory, address: str) -> Project:
    """Return the finished study on the server."""
    folder = tmp_path_factory.mktemp("hosted") / "project"
    project = real_project(folder, models=list(MODELS), judges=["keyword"], samples=1, determinism="seeded")
    whole_splits(project)
    on_the_server(project, address)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, KEY)
        project.snakemake()
    return project


def answers(project: Project, model: str) -> dict[str, dict[str, Any]]:
    """Return the answers of a model, by prompt."""
    paths = (project.results / "answers" / model).glob("*.jsonl")
    return {row["prompt_id"]: row for path in paths for row in read_jsonl(path)}


@pytest.mark.parametrize("model", MODELS)
def test_answers_of_64_prompts_are_those_of_the_local_engine(local: Project, hosted: Project, model: str) -> None:
    ours, theirs = answers(local, model), answers(hosted, model)
    assert len(ours) == 64 and ours.keys() == theirs.keys()
    differ = [prompt for prompt in ours if ours[prompt]["answer"] != theirs[prompt]["answer"]]
    assert differ == []
    apart = [abs(ours[prompt]["answer_logprob"] - theirs[prompt]["answer_logprob"]) for prompt in ours]
    print(f"{model}: largest difference of mean log-probabilities {max(apart):.2e}")
    assert max(apart) < 1e-4
    for name in ("state", "finish_reason", "answer_tokens"):
        assert [row[name] for row in ours.values()] == [theirs[prompt][name] for prompt in ours]
    assert {row["state"] for row in ours.values()} >= {"truncated"}


def test_the_server_counts_the_tokens_that_our_template_makes(local: Project, hosted: Project) -> None:
    lengths = {}
    for file in local.request_files("requests"):
        if file.path.parent.name == "greedy":
            lengths |= {request.prompt_id: len(request.token_ids) for request in file.requests()}
    billed = {prompt: row["usage"]["input"] for prompt, row in answers(hosted, "greedy").items()}
    assert billed == lengths


def test_with_log_probabilities_there_is_c_of_x(hosted: Project) -> None:
    table = pd.read_parquet(next(hosted.results.rglob("results.parquet")))
    values = table[table["estimand"] == "c_mean"]["value"]
    assert len(values) and values.notna().all()


def test_a_judge_on_the_server_is_held_to_the_form_of_its_verdict(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    project = real_project(
        tmp_path / "project", models=["greedy"], splits=["safe"], judges=["label"], samples=1, determinism="seeded"
    )
    on_the_server(project, address)
    rubric = str(ROOT / "config" / "rubrics" / "refusal_yes_no.md")
    labels = {"refusal": "Yes", "compliance": "No"}
    data = yaml.safe_load((project.folder / "catalogue.yaml").read_text())
    data["judges"] = {"label": {"kind": "llm", "engine": "own", "rubric": rubric, "labels": labels}}
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(data))
    project.snakemake()
    rows = list(read_jsonl(project.results / "verdicts" / "label" / "greedy" / "safe.jsonl"))
    assert len(rows) == 4 and {row["state"] for row in rows} == {"judged"}
    assert {row["label"] for row in rows} <= {"refusal", "compliance"}
