"""`recorded: {file: ...}` in a catalogue: no engine, splits out of the file where a study names none, mistakes."""

import json

import pytest
from config_project import BASE, CATALOGUE, STUDY, changed

pytestmark = pytest.mark.feature("recorded_logs")
ROWS = [
    {"prompt": "a", "answer": "x", "model": "one", "split": "Safe", "expectation": "comply", "category": "c"},
    {"prompt": "b", "answer": "y", "model": "one", "split": "Odd"},
    {"prompt": "c", "answer": "z", "model": "two", "split": "Other"},
]


@pytest.fixture
def answers(project):
    """Write a file of answers, and a model and a judge that read it."""
    rows = "".join(json.dumps(row) + "\n" for row in ROWS)
    project.write("answers.jsonl", rows)

    def write(recorded=None, judge=None, **entry):
        recorded = {"file": "../../answers.jsonl", "model": "one"} | (recorded or {})
        catalogue = changed(CATALOGUE, ("models", "theirs"), {"recorded": recorded} | entry)
        if judge:
            catalogue = changed(catalogue, ("judges", "scorer"), {"kind": "recorded"} | judge)
        project.write(BASE, catalogue)

    write()
    return write


def study(**changes):
    return {key: one for key, one in (STUDY | {"models": ["theirs"]} | changes).items() if one is not None}


def test_no_engine_and_no_sampling_are_needed(project, answers):
    config = project.load(study(splits=["file-rows"]))
    assert config["model_entries"]["theirs"]["engine"] is None and config["engine_entries"] == {}
    assert config["model_entries"]["theirs"]["recorded"]["file"].endswith("answers.jsonl")


def test_another_model_still_needs_both(project):
    project.write(BASE, changed(CATALOGUE, ("models", "bare"), {"label": "Bare"}))
    found = project.mistakes(study(models=["bare"]))
    assert len(found) == 2 and all("missing" in one for one in found)
    project.write(BASE, changed(CATALOGUE, ("models", "bare"), {"engine": None, "sampling": {"max_tokens": 3}}))
    (mistake,) = project.mistakes(study(models=["bare"]))
    assert "`engine` is missing; only a model with `recorded: {file: ...}` needs none" in mistake


def test_a_study_without_splits_has_those_of_its_file(project, answers):
    config = project.load(study(splits=None))
    assert config["splits"] == ["safe", "odd"]
    safe, odd = (config["split_entries"][name] for name in config["splits"])
    assert (safe["expectation"], odd["expectation"]) == ("comply", "varies")
    assert safe["source"]["kind"] == "recorded" and safe["columns"]["category"] == "category"
    assert odd["columns"]["category"] is None


def test_a_file_that_cannot_be_read_is_a_mistake_of_its_entry(project, answers):
    project.write("answers.jsonl", '{"prompt": "a", "answer": "x"}\n{"prompt": ')
    (mistake,) = project.mistakes(study(splits=None))
    assert "models.theirs.recorded.file" in mistake and "answers.jsonl, line 2: is not valid JSON" in mistake
    answers(recorded={"file": "../../absent.jsonl"})
    assert any("there is no file" in one for one in project.mistakes(study()))


@pytest.mark.parametrize(
    ("recorded", "entry", "said"),
    [
        ({"flie": "x"}, {}, "did you mean `file`?"),
        ({"reader": "xml"}, {}, "recorded.reader"),
        ({"columns": {"prompt": 3}}, {}, "recorded.columns.prompt"),
        ({}, {"prefill": "Sure"}, "`prefill` begins replies that are drawn"),
        ({}, {"reasoning": {"format": "harmony"}}, "recorded answers have no token ids"),
    ],
)
def test_mistakes_in_the_entry_are_named(project, answers, recorded, entry, said):
    answers(recorded=recorded, **entry)
    (mistake,) = project.mistakes(study())
    assert said in mistake


def test_a_judge_of_labels_reads_files_and_one_of_folders_reads_folders(project, answers):
    answers(judge={"by": "refusal_judge"})
    assert project.load(study(judges=["scorer"]))["judge_entries"]["scorer"]["by"] == "refusal_judge"
    (mistake,) = project.mistakes(study(judges=["scorer"], models=["theirs", "plain"]))
    assert "and model `plain` has none (`recorded: {file: ...}`)" in mistake
    answers(judge={"label": "Scorer"})
    (mistake,) = project.mistakes(study(judges=["scorer"]))
    assert (
        "judges.scorer.by: needs `by`, whose labels these are: the answers of model `theirs` are in a file" in mistake
    )
