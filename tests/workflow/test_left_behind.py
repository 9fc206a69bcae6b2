"""A run up to answers says which steered models it leaves out."""

import os
from pathlib import Path

import pytest
from forked_snakemake import run_snakemake
from project import ROOT

STUDY = ROOT / "config" / "studies" / "steering_paper.yaml"


@pytest.mark.parametrize(
    ("until", "said"), [(["--until", "answers"], True), (["--until", "fetch_rows"], False), ([], False)]
)
def test_models_made_of_verdicts_are_named_where_a_run_ends_before_them(
    tmp_path: Path, until: list[str], said: bool
) -> None:
    command = ["-s", str(ROOT / "Snakefile"), "--directory", str(tmp_path), "--configfile", str(STUDY), "--cores", "2"]
    run = run_snakemake([*command, "-n", *until], tmp_path, {**os.environ, "NO_COLOR": "1"})
    assert run.returncode == 0, run.stderr[-3000:]
    words = (
        "--until answers leaves out 9 models that are made from verdicts or answers of another: qwen3-4b-instruct-wrmd"
    )
    assert (words in run.stdout + run.stderr) == said
