"""`refusal-eval check --model` on the machine at hand, with the demo's model."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from project import ROOT
from real import STUDY

from refusal_eval.config.kinds import LOAD_CHECKS, MODEL_CHECKS
from refusal_eval.tools.check.model_checks import AFTER_IT_STOPPED, WHILE_IT_RUNS

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Return the finished check of a steered model, and its folder for temporary files."""
    temporary = tmp_path_factory.mktemp("t")
    folder = tmp_path_factory.mktemp("study")
    intervention = {"direction": "of-a-study", "mode": "add", "layers": [15], "scale": -0.5}
    models = {"steered": {"like": "smollm2-plain", "intervention": intervention}}
    (folder / "catalogue.yaml").write_text(yaml.safe_dump({"models": models}))
    study = {**STUDY, "models": ["smollm2-plain"], "splits": ["alarming_but_safe"], "judges": ["keyword"]}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    command = [sys.executable, "-m", "refusal_eval", "check", "--model", "steered", str(folder / "study.yaml")]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "scripts"),
        "TMPDIR": str(temporary),
        "HF_TOKEN": "hf_PLANTEDTOKEN",
    }
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False), temporary


def test_the_small_model_passes_every_check(run: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, _ = run
    assert done.returncode == 0, done.stdout + done.stderr
    checks = len(WHILE_IT_RUNS) + len(AFTER_IT_STOPPED) + len(MODEL_CHECKS.names()) + len(LOAD_CHECKS.names())
    assert len(re.findall(r"^(ok|WARN|-) +\S", done.stdout, re.MULTILINE)) == checks
    assert re.search(r"^passed: 1[5-9] ok", done.stdout, re.MULTILINE)
    assert re.search(r"^ok +steering of every token +\d+ answers", done.stdout, re.MULTILINE)


def test_the_block_can_be_pasted(run: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, temporary = run
    lines = done.stdout.splitlines()
    assert lines[0] == "```text" and lines[-1] == "```"
    assert "vllm" in done.stdout and "tokens/s" in done.stdout
    for secret in ("PLANTEDTOKEN", str(temporary), str(ROOT), str(Path.home()), "dandelions"):
        assert secret not in done.stdout


def test_nothing_is_left_behind(run: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, temporary = run
    records = temporary / f"refusal-eval-{os.getuid()}"  # of the servers that run; the folder stays
    left = [path for path in temporary.iterdir() if path.name.startswith("refusal-eval-") and path != records]
    assert left == [] and not list(records.glob("*"))
