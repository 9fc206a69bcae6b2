"""A verb of the user's own, in a plug-in that the command line names."""

import shutil
from pathlib import Path

import pandas as pd
from program import refusal_eval
from project import Project

PLUGIN = Path(__file__).parents[1] / "plugins" / "rates_verb.py"


def test_a_plugins_verb_is_listed_and_works_on_a_study_that_may_name_the_plugin_too(finished: Project) -> None:
    own = shutil.copy(PLUGIN, finished.folder / "own.py")
    finished.study(plugins=["own.py"])
    shown = refusal_eval("--plugin", own, "--help", cwd=finished.folder)
    assert "  rates         print the refusal rates" in shown.stdout and "  plan  " in shown.stdout
    ran = refusal_eval(f"--plugin={own}", "rates", "study.yaml", cwd=finished.folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = pd.read_csv(finished.results / "results_table" / "results.csv")
    rates = rows[(rows["estimand"] == "refusal_rate") & (rows["reading"] == "strict") & (rows["judge"] == "words")]
    values = {(row.model, row.split): row.value for row in rates.itertuples()}
    cells = [(model, split) for model in ("plain", "terse") for split in ("one", "two")]
    assert ran.stdout.splitlines() == [f"{model} on {split}: {values[model, split]:.3f}" for model, split in cells]
    (finished.results / "results_table" / "results.csv").unlink()
    failed = refusal_eval("--plugin", own, "rates", "study.yaml", cwd=finished.folder)
    assert (
        failed.returncode == 1 and failed.stderr.startswith("there is no ") and "run the study first" in failed.stderr
    )
