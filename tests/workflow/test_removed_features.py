"""A feature goes with its folder and its name in `FEATURES`: what is left is whole."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project, planned_jobs

from refusal_eval.features import FEATURES
from refusal_eval.program.verb import VERBS

ROOT = Path(__file__).parents[2]
OF_EVERY_STUDY = ("judge_cards", "rates")  # what others are made of and shown with
IMPORTED = """
import importlib, pkgutil, refusal_eval
for module in pkgutil.walk_packages(refusal_eval.__path__, "refusal_eval."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:  # of the engine's environment
        if error.name.split(".")[0] not in ("torch", "vllm", "transformers", "steered_worker"):
            raise
"""


def copy_without(feature: str, folder: Path) -> Path:
    """Return a copy of the workflow without a feature."""
    for name in ("scripts", "workflow", "config", "envs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(ROOT / "Snakefile", folder)
    shutil.rmtree(folder / "scripts" / "refusal_eval" / "features" / feature)
    names = folder / "scripts" / "refusal_eval" / "features" / "__init__.py"
    text = names.read_text()
    left = re.sub(rf'"{feature}", |, "{feature}"(?=[,)])', "", text)
    assert left != text
    names.write_text(left)
    return folder


@pytest.mark.parametrize("feature", [name for name in FEATURES if name not in OF_EVERY_STUDY])
def test_without_a_feature_all_modules_load_and_a_study_is_planned(
    finished: Project, tmp_path: Path, feature: str
) -> None:
    copy = copy_without(feature, tmp_path)
    subprocess.run([sys.executable, "-c", IMPORTED], check=True, env={"PYTHONPATH": str(copy / "scripts")})
    study = ["--directory", str(finished.folder), "--configfile", str(finished.folder / "study.yaml")]
    command = [sys.executable, "-m", "snakemake", "-s", str(copy / "Snakefile"), *study, "-n"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=finished.folder)
    assert run.returncode == 0, run.stdout + run.stderr
    # What it brought is gone from what is shown of the study; nothing is asked, judged or scored again.
    planned = planned_jobs(run.stdout + run.stderr)
    brought = importlib.import_module(f"refusal_eval.features.{feature}")
    if hasattr(brought, "ANALYSES"):
        assert planned["results_table"] == 1
    assert set(planned) <= {"table", "listing", "figure", "results_table", "methods", "manifest"}
    shown = subprocess.run(
        [sys.executable, "-m", "refusal_eval", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(copy / "scripts")},
    ).stdout
    left = [verb for verb in VERBS.names() if verb not in getattr(brought, "VERBS", ())]
    assert re.findall(r"^  ([a-z-]+) ", shown, re.MULTILINE) == left
