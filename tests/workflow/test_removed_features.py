"""A feature goes with its folder and its name in `FEATURES`: what is left is whole."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import without_feature
from project import Project, planned_jobs
from without_feature import copy_without

from refusal_eval.features import FEATURES
from refusal_eval.program.verb import VERBS

TESTS = Path(__file__).parents[1]
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


REMOVABLE = [name for name in FEATURES if name not in OF_EVERY_STUDY]


@pytest.mark.parametrize("feature", REMOVABLE)
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


def test_features_that_tests_need_are_features() -> None:
    marked = (re.findall(r"mark\.feature\((.+?)\)", file.read_text()) for file in TESTS.rglob("test_*.py"))
    names = {name for found in marked for marks in found for name in re.findall(r'"(\w+)"', marks)}
    assert names <= set(FEATURES)


@pytest.mark.full
@pytest.mark.parametrize("feature", REMOVABLE)
def test_without_a_feature_the_rest_is_clean_and_can_be_tested(tmp_path: Path, feature: str) -> None:
    copy = copy_without(feature, tmp_path)
    for step in without_feature.STEPS:
        step(copy)
