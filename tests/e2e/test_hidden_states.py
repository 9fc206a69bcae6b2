"""Captured activations are the hidden states of the engine that answers: vLLM's own, in float32."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from project import ROOT, change_yaml
from real import real_project
from safetensors.numpy import load_file

from refusal_eval.activations.tensor_files import read_states, widened
from refusal_eval.ask.requests import read_requests
from refusal_eval.core.files import read_json

pytestmark = pytest.mark.full

STATES = "results/small/activations/last_prompt_token/plain/decline.safetensors"
DIRECTION = {"model": "plain", "positive": {"split": "decline"}, "negative": {"split": "safe"}}


def test_captured_activations_are_the_engines_own_hidden_states(tmp_path: Path) -> None:
    project = real_project(
        tmp_path / "project", models=["plain"], splits=["sensitive4"], judges=["keyword"], directions=["refusal"]
    )
    added = {"directions": {"refusal": DIRECTION}, "engines": {"exact": {"like": "smollm2-135m", "dtype": "float32"}}}
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | added)
    project.catalogue("models", "plain", engine="exact")
    project.snakemake(STATES)
    file = read_states(project.folder / STATES)
    requests = read_requests(project.results / "requests" / "plain" / "decline.jsonl").requests()
    prompts = {request.prompt_id: request.token_ids for request in requests}
    assert file.metadata["layers"] == list(range(30)) and len(prompts) == 4

    (tmp_path / "prompts.json").write_text(json.dumps([list(prompts[name]) for name in file.metadata["prompts"]]))
    folder = str(ROOT / read_json(project.results / "engines" / "exact.json")["folder"])
    script = str(Path(__file__).with_name("engine_states.py"))
    command = [str(ROOT / ".venv" / "engine" / "bin" / "python"), script, folder, "prompts.json", "out.safetensors"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]

    ours, theirs = widened(file.bits, file.kind), load_file(tmp_path / "out.safetensors")["states"]
    apart = np.linalg.norm(ours - theirs, axis=2) / np.linalg.norm(theirs, axis=2)
    print(f"largest difference from vLLM's own states, relative to their norm: {apart.max():.1e}")
    assert ours.shape == theirs.shape == (4, 30, 576) and apart.max() < 1e-5
