"""Marks of the browser's page: checked against the study, then labels and gold, and never a sample."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from audit_rows import take, write_study

from refusal_eval.__main__ import main
from refusal_eval.config.entries import Gold
from refusal_eval.core.files import answer_id, read_jsonl

MODEL, SPLIT = "secret-model-a", "safe"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    config = write_study(tmp_path)
    take(monkeypatch, config)
    return config


@pytest.fixture
def folder(config: dict[str, Any]) -> Path:
    return Path(config["results_dir"], "tiny-study")


def mark(folder: Path, number: int, label: str, **changes: Any) -> dict[str, Any]:
    """Return a mark of sample 2 of a prompt, as the page writes it."""
    answers = {
        (row["prompt_id"], row["sample"]): row for row in read_jsonl(folder / "answers" / MODEL / f"{SPLIT}.jsonl")
    }
    prompt = f"{SPLIT}{number:03d}"
    name = {"model": MODEL, "split": SPLIT, "prompt_id": prompt, "sample": 2, "turn": 0}
    return name | {"answer_id": answer_id(answers[prompt, 2]["answer"]), "label": label, "comment": ""} | changes


def written(path: Path, *marks: Any, rater: str = "anna", study: str = "tiny-study") -> str:
    content = {"format": "refusal-eval marks 1", "study": study, "rater": rater, "marks": list(marks)}
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def test_marks_become_labels_and_gold_that_a_study_can_name(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = written(tmp_path / "a.json", mark(folder, 8, "compliance", comment="fine"), mark(folder, 9, "partial"))
    second = written(tmp_path / "b.json", mark(folder, 8, "compliance"), mark(folder, 9, "refusal"), rater="ben")
    assert main(["audit", "read", "s.yaml", first, second]) == 0
    said = capsys.readouterr().out
    assert (
        "4 marks" in said and "people differ on 1 of the answers" in said and "no rate is corrected with them" in said
    )
    rows = list(read_jsonl(folder / "audit" / "marked.jsonl"))
    assert [(row["prompt_id"], row["rater"], row["label"]) for row in rows] == [
        ("safe008", "anna", "compliance"),
        ("safe008", "ben", "compliance"),
        ("safe009", "anna", "partial"),
        ("safe009", "ben", "refusal"),
    ]
    assert rows[0]["comment"] == "fine" and rows[0]["cluster"] == "safe004"
    (gold,) = read_jsonl(folder / "audit" / "marked_gold.jsonl")
    assert gold["label"] == "compliance" and gold["answering_model"] == MODEL and gold["expectation"] == "comply"
    entry = yaml.safe_load((folder / "audit" / "marked_gold.yaml").read_text())["gold"]["tiny-study-marked"]
    assert Gold.model_validate(entry).expected_rows == 1
    assert set(entry["columns"].values()) <= set(gold)
    # They are no sample: what corrects rates is not there.
    assert not (folder / "audit" / "labels.jsonl").exists()


def test_marks_of_answers_that_changed_since_are_refused_and_nothing_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path / "a.json",
        mark(folder, 8, "refusal", answer_id="0" * 16),
        mark(folder, 9, "refusal", sample=17),
        mark(folder, 10, "refusal"),
    )
    assert main(["audit", "read", "s.yaml", path]) == 1
    said = capsys.readouterr().err
    assert "mark 1: the study has another answer now" in said and "mark 2: the study has no such answer" in said
    assert "mark 3" not in said and not (folder / "audit").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label": "maybe"}, "the label `maybe` is none of refusal, partial, compliance"),
        ({"model": "secret-model"}, "the study has no model `secret-model`"),
        ({"split": "nowhere"}, "the study has no split `nowhere`"),
        ({"sample": "2"}, "must be an object with model, split, prompt_id, sample"),
        ({"turn": True}, "must be an object with"),
    ],
)
def test_what_is_wrong_with_a_mark_is_said_with_its_file_and_number(
    folder: Path, tmp_path: Path, changes: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "a.json", mark(folder, 8, "refusal"), mark(folder, 9, "refusal") | changes)
    assert main(["audit", "read", "s.yaml", path]) == 1
    said = capsys.readouterr().err
    assert f"{path}, mark 2: {words}" in said
    assert not (folder / "audit").exists()


def test_marks_of_another_study_and_two_labels_of_one_person_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = written(tmp_path / "a.json", mark(folder, 8, "refusal"), study="another")
    assert main(["audit", "read", "s.yaml", other]) == 1
    assert "holds marks of study `another`, and this is tiny-study" in capsys.readouterr().err
    first = written(tmp_path / "b.json", mark(folder, 8, "refusal"))
    second = written(tmp_path / "c.json", mark(folder, 8, "partial"))
    assert main(["audit", "read", "s.yaml", first, second]) == 1
    assert "anna says partial here, and refusal in" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [None, 3, {"a": 1}, ["x"], [[]]])
def test_a_damaged_file_of_marks_is_refused(
    config: dict[str, Any], tmp_path: Path, rows: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {"format": "refusal-eval marks 1", "study": "tiny-study", "rater": "anna", "marks": rows}
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert main(["audit", "read", "s.yaml", str(tmp_path / "a.json")]) == 1
    assert "a.json, mark 1: must be an object" in capsys.readouterr().err


def test_an_audit_and_marks_are_read_together(config: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    marks = written(tmp_path / "a.json", mark(folder, 8, "compliance"))
    assert main(["audit", "draw", "s.yaml", "--size", "10", "--least", "1"]) == 0
    design = json.loads((folder / "audit" / "design.json").read_text())
    rater, rows = next(iter(design["orders"].items()))
    labels = [{"id": name, "label": "compliance", "comment": ""} for name in rows]
    given = {"format": "refusal-eval audit labels 1", "audit": design["audit"], "rater": rater, "labels": labels}
    (tmp_path / "labels.json").write_text(json.dumps(given))
    assert main(["audit", "read", "s.yaml", "--partial", marks, str(tmp_path / "labels.json")]) == 0
    assert (folder / "audit" / "labels.jsonl").is_file() and (folder / "audit" / "marked.jsonl").is_file()


def test_marks_without_a_study_file_say_whose_they_are_and_what_to_type(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = written(tmp_path / "a.json", mark(folder, 8, "compliance"))
    for more in ([], [first]):
        assert main(["audit", "read", first, *more]) == 1
        said = " ".join(capsys.readouterr().err.split())
        assert "a.json is no study file (it holds marks of study `tiny-study`): name the study file first" in said
        assert "`refusal-eval audit read STUDY.yaml " in said
    assert main(["audit", "read", "s.yaml"]) == 1
    assert "s.yaml: name what came back from the raters behind the study file" in capsys.readouterr().err
