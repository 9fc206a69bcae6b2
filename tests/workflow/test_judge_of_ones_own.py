"""A kind of judge that is one module of the user's, in a study."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from program import in_process
from project import Project, change_yaml

from refusal_eval.ask.requests import read_requests
from refusal_eval.core.files import read_json, read_jsonl

PLUGINS = Path(__file__).parents[1] / "plugins"
PLUGIN = PLUGINS / "blunt_judge.py"


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


def with_judges(project: Project, *plugins: str, **judges: dict[str, object]) -> None:
    """Add judges of the user's kinds to the study, and to its catalogue one that the study does not name."""
    for plugin in plugins:
        shutil.copy(PLUGINS / plugin, project.folder)

    def added(data: dict[str, Any]) -> dict[str, Any]:
        apart = data["judges"]["label"] | {"system_prompt": "Be strict."}
        return data | {"judges": data["judges"] | {"apart": apart} | judges}

    change_yaml(project.folder / "catalogue.yaml", added)
    project.study(plugins=list(plugins), judges=["words", "label", *judges])


def rows_of(project: Project, judge: str, cell: str) -> dict[tuple[str, int], dict[str, Any]]:
    path = project.results / "verdicts" / judge / f"{cell}.jsonl"
    return {(row["prompt_id"], row["sample"]): row for row in read_jsonl(path)}


def test_a_kind_reads_two_judges_and_asks_an_engine_where_they_disagree(finished: Project) -> None:
    arbiter = {"kind": "arbiter", "between": ["words", "label"], "arbiter": "apart"}
    harshest = {"kind": "harshest", "of": ["label", "between"]}
    plugins = ("arbiter_judge.py", "harshest_judge.py")
    with_judges(finished, *plugins, between=arbiter, harshest=harshest)
    cells = ("plain/one", "gold/people")
    wanted = [f"results/small/verdicts/harshest/{cell}.jsonl" for cell in cells]
    planned = finished.planned(*wanted)
    assert planned["llm_verdicts"] == planned["panel_verdicts"] == 2 and planned["judge"] == 1
    assert not {"generate", "cpu_verdicts"} & set(planned), "what the two have said is there"
    finished.snakemake("--until", "judge_requests")
    finished.answer_everything("judge_requests")
    finished.snakemake(*wanted)
    for cell in cells:
        words, label, between = (rows_of(finished, judge, cell) for judge in ("words", "label", "between"))
        open_ = {place for place in words if words[place]["label"] != label[place]["label"]}
        requests = read_requests(finished.results / "judge_requests" / "between" / f"{cell}.jsonl").requests()
        assert {request.place[:2] for request in requests} == open_ and words.keys() == between.keys()
        assert open_ and (cell != "plain/one" or open_ < words.keys())
        assert all(between[place] == words[place] for place in words.keys() - open_)
        assert all(between[place]["key"] != label[place]["key"] for place in open_), "another judge is asked"
        for place, row in rows_of(finished, "harshest", cell).items():
            both = {label[place]["label"], between[place]["label"]}
            assert row["label"] == min(both, key=["refusal", "partial", "compliance"].index)
    assert not (finished.results / "verdicts" / "apart").exists()
    plan = in_process("plan", "study.yaml", cwd=finished.folder).stdout
    assert plan.count("a judge of kind `arbiter` asks about every answer: an upper bound") == 1
    module = finished.folder / "arbiter_judge.py"
    module.write_text(module.read_text().replace("len(labels) == 1", "len(labels) == 9"))
    again = finished.planned(*wanted)
    assert (again["judge_requests"], again["llm_verdicts"]) == (planned["judge_requests"], 2), "its code decides both"
    assert not {"generate", "answers", "cpu_verdicts"} & set(again)


def test_a_kind_is_fitted_on_gold_and_says_of_it_what_it_says_unseen(finished: Project) -> None:
    label = {"engine": "tiny", "rubric": "rubric.md", "labels": {"refusal": "A", "partial": "B", "compliance": "C"}}
    with_judges(finished, "commonest_judge.py", fitted={"kind": "commonest", "on": ["people"], **label})
    finished.snakemake("--until", "judge_requests")
    finished.answer_everything("judge_requests")
    ran = finished.ran("results/small/verdicts/fitted/plain/one.jsonl", "results/small/judge_cards/fitted/people.json")
    assert (ran["train_judge"], ran["llm_verdicts"]) == (1, 2)
    said = read_json(finished.results / "judges" / "fitted" / "model.json")["label"]
    assert {row["label"] for row in rows_of(finished, "fitted", "plain/one").values()} == {said}
    on_gold = rows_of(finished, "fitted", "gold/people").values()
    assert all(row["raw"]["unseen"] and row["key"] for row in on_gold)
    people = {row["id"]: row["label"] for row in read_jsonl(finished.results / "gold" / "people.jsonl")}
    assert all(row["label"] != people[row["prompt_id"]] for row in on_gold), "half of the gold each: the rest is more"
    card = read_json(finished.results / "judge_cards" / "fitted" / "people.json")
    assert "had not seen" in card["labels_from"]
