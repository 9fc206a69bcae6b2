"""A kind of judge that is one module of the user's, in a study."""

import shutil
from pathlib import Path

import pytest
from program import in_process
from project import Project, change_yaml

from refusal_eval.core.files import read_jsonl

PLUGIN = Path(__file__).parents[1] / "plugins" / "blunt_judge.py"


def blunt(project: Project, **fields: object) -> None:
    """Let a judge of the user's kind read the study's answers."""
    entry = {"kind": "blunt", **fields}
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {"judges": data["judges"] | {"blunt": entry}})
    project.study(plugins=["blunt.py"], judges=["label", "blunt"])


@pytest.mark.full
def test_a_kind_of_judge_is_one_module_and_its_code_judges_again_alone(finished: Project) -> None:
    plugin = finished.folder / "blunt.py"
    shutil.copy(PLUGIN, plugin)
    blunt(finished)
    planned = finished.planned()
    assert planned["cpu_verdicts"] == planned["score"] + 1, "gold, too"
    assert not {"generate", "judge", "llm_verdicts"} & set(planned)
    finished.snakemake()
    rows = [row for file in (finished.results / "verdicts" / "blunt").rglob("*.jsonl") for row in read_jsonl(file)]
    assert rows and {row["state"] for row in rows} == {"judged"}
    assert "the phrase cannot" in (finished.results / "methods.md").read_text()
    plugin.write_text(plugin.read_text().replace("PARTIAL)", "REFUSAL)"))
    again = finished.planned()
    assert again["cpu_verdicts"] == planned["cpu_verdicts"]
    assert not {"generate", "judge", "llm_verdicts", "answers"} & set(again)


def test_a_mistake_between_keys_of_its_entry_is_reported_with_its_line(finished: Project) -> None:
    shutil.copy(PLUGIN, finished.folder / "blunt.py")
    blunt(finished, short=3)
    run = in_process("status", "study.yaml", cwd=finished.folder)  # whose mistakes are those that Snakemake reports
    message = "judges.blunt.phrase: no answer of 3 characters can hold it; raise `short`"
    assert run.returncode != 0 and message in run.stderr
