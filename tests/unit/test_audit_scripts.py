"""The way of a sample: drawn, filled by two people, read back, and used as gold."""

import csv
import shutil
from pathlib import Path

import pytest
import yaml
from audit_rows import REFUSAL, fill, json_rows, take, true_label, write_study

from refusal_eval.__main__ import main
from refusal_eval.config.entries import Gold
from refusal_eval.core.files import write_jsonl
from refusal_eval.data.gold import make_gold
from refusal_eval.data.rows import read_rows
from refusal_eval.features.corrected.peoples_labels import texts_of
from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.features.labelling.audit_folder import read_audit as read_folder


@pytest.fixture
def config(tmp_path):
    """A finished study."""
    return write_study(tmp_path)


@pytest.fixture
def current(config, monkeypatch):
    """Its files, which its next run would not make again."""
    return take(monkeypatch, config)


@pytest.fixture
def study(current, tmp_path):
    """The audit folder of a finished study."""
    return tmp_path / "results" / "tiny-study" / "audit"


def make(*arguments: str) -> int:
    return main(["audit", "draw", "study.yaml", "--size", "80", *arguments])


def read(*arguments: object) -> int:
    return main(["audit", "read", "study.yaml", *map(str, arguments)])


def sheets(folder: Path) -> list[Path]:
    return sorted((folder / "raters").glob("*.csv"))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_arguments_give_the_same_bytes_and_filled_sheets_are_never_written_over(study, capsys):
    assert make() == 0
    out = capsys.readouterr().out
    assert "80 texts to label" in out and "disagree" in out and "do not publish" in out
    assert "Rows: rater_1 48, rater_2 48; 16 of them go to two raters." in out
    first = content(study)
    shutil.rmtree(study)
    assert make() == 0
    assert content(study) == first
    fill(sheets(study)[0], lambda row: "refusal")
    filled = content(study)
    assert make() == 0
    assert "nothing was written" in capsys.readouterr().out
    assert make("--seed", "1") == 1
    assert "holds another audit" in capsys.readouterr().err
    assert content(study) == filled


@pytest.mark.parametrize("outdated", ["answers/secret-model-a/bad", "verdicts/lax-judge/secret-model-a/bad"])
def test_nobody_is_given_answers_that_the_next_run_would_make_again(study, current, outdated, capsys):
    path = study.parent / f"{outdated}.jsonl"
    current.remove(path)
    assert make() == 1
    assert f"{path} is not of the study as it is now: run the study again first" in capsys.readouterr().err
    assert not study.exists()
    assert make("--splits", "safe") == 0


def labelled(study: Path, second=lambda row: true_label(row["answer"])) -> list[Path]:
    """Fill both sheets, as two spreadsheets of different countries would."""
    make()
    one, two = sheets(study)
    fill(one, lambda row: true_label(row["answer"]))
    return [one, fill(two, second, study / "back.csv", delimiter=";", newline="\r\n")]


def test_labels_come_back_with_their_probabilities_and_stand_for_the_whole_study(study, capsys):
    assert read(*labelled(study)) == 0
    assert "Kappa of people, broad: 1.00" in capsys.readouterr().out
    head, *labels = json_rows(study / "labels.jsonl")
    frame = head["drawn_from"]
    answers = 0
    refusals = 0
    for path in sorted((study.parent / "answers").rglob("*.jsonl")):
        texts = [row["answer"] for row in json_rows(path) if row["state"] == "complete"]
        answers += len(texts)
        refusals += sum(text == REFUSAL for text in texts)
    assert sum(1 / row["probability"] for row in labels) == pytest.approx(answers)
    assert sum(n for splits in frame.values() for prompts in splits.values() for n in prompts.values()) == answers
    assert frame["secret-model-a"]["bad"]["bad007"] == 2  # the third answer has failed
    found = sum(1 / row["probability"] for row in labels if row["label"] == "refusal") / answers
    assert found == pytest.approx(refusals / answers, abs=0.12)
    assert {"model", "split", "prompt_id", "sample", "turn", "label", "probability", "raters", "answer_id"} <= set(
        labels[0]
    )


def test_labels_come_back_as_gold_on_which_a_judge_is_measured_by_weight(study):
    read(*labelled(study))
    entry = Gold(**yaml.safe_load((study / "gold.yaml").read_text())["gold"]["tiny-study-audit"]).model_dump()
    rows = read_rows(study / entry["source"]["path"])
    gold, _ = make_gold(rows, entry["columns"], entry["labels"], "gold", entry["expected_rows"])
    read_by_people = {row["text"] for row in json_rows(study / "labels.jsonl")[1:]}
    assert read_by_people <= texts_of(gold)  # so that rates by labels know a judge that is fitted on this gold
    lax = [
        {"prompt_id": row["id"], "state": "judged", "p_refusal": None}
        | {"label": "refusal" if row["label"] == "refusal" else "compliance"}
        for row in gold
    ]
    card = judge_card(gold, lax, judge="lax", gold="gold")
    # The lax judge misses all partial refusals: a sixth or so of the answers that are any refusal.
    assert card["weighted"]["n_effective"] < card["n"]
    naive = judge_card([row | {"weight": None} for row in gold], lax, judge="lax", gold="gold")
    assert card["strict"]["sensitivity"] == 1
    assert card["broad"]["sensitivity"] > naive["broad"]["sensitivity"] + 0.1
    assert {group["answering_model"] for group in card["models"]} == {"secret-model-a", "secret-model-b"}


def test_disputes_go_to_a_sheet_and_decided_ones_are_read_from_it_again(study, config, capsys):
    files = labelled(study, lambda row: "unsure" if row["row"] == "1" else "compliance")
    assert read(*files) == 0
    out = capsys.readouterr().out
    assert "drawn" in out and "column `adjudicated`" in out
    fill(study / "disputed.csv", lambda row: true_label(row["answer"]))
    assert read(*files) == 0
    out = capsys.readouterr().out
    assert "adjudicated" in out and " drawn" not in out
    first = content(study)
    assert read(*files) == 0  # what was decided stays decided
    assert content(study) == first
    decided = decisions_in(study / "disputed.csv")
    assert decided and all(label for _, label in decided)
    config["splits"] = ["safe"]  # also of a split that was taken out
    assert read(*files) == 0
    assert decisions_in(study / "disputed.csv") == decided
    assert {row["split"] for row in json_rows(study / "labels.jsonl")[1:]} == {"safe"}


def decisions_in(path: Path) -> list[tuple[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as handle:
        return [(row["id"], row["adjudicated"]) for row in csv.DictReader(handle)]


def test_unfinished_sheets_are_reported_and_can_be_used_on_request(study, capsys):
    files = labelled(study, lambda row: "" if int(row["row"]) > 40 else true_label(row["answer"]))
    assert read(*files) == 1
    err = capsys.readouterr().err
    assert "rater_2: 8 of 48 rows have no label yet, the first of them row 41" in err
    assert not (study / "labels.jsonl").exists()
    assert read("--partial", *files) == 0
    assert "rows have no label" in capsys.readouterr().out
    total = sum(row["answers"] for row in read_folder(study).design["strata"].values())
    labels = json_rows(study / "labels.jsonl")[1:]
    assert sum(1 / row["probability"] for row in labels) == pytest.approx(total)


def test_answers_that_have_changed_since_are_not_given_old_labels(study, capsys):
    files = labelled(study)
    path = next((study.parent / "answers" / "secret-model-a").glob("bad.jsonl"))
    path.write_text(path.read_text().replace("Answer 1", "Reply 1"))
    assert read(*files) == 1
    assert "are not those that people read" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "name"), [("models", "secret-model-b"), ("splits", "bad")])
def test_a_model_or_split_that_was_taken_out_leaves_the_other_labels(study, config, capsys, kind, name):
    files = labelled(study)
    assert read(*files) == 0
    place = kind.removesuffix("s")
    head, *labels = json_rows(study / "labels.jsonl")
    capsys.readouterr()
    config[kind] = [other for other in config[kind] if other != name]
    config["split_entries"] = {split: config["split_entries"][split] for split in config["splits"]}
    assert read(*files) == 0
    left = [row for row in labels if row[place] != name]
    assert json_rows(study / "labels.jsonl") == [head, *left] and len(left) < len(labels)
    out = capsys.readouterr().out
    assert "Left out: answers of the sample that the study no longer asks for (" in out
    kept = {row["id"] for row in json_rows(study / "gold.jsonl")}
    assert kept == {row["text"] for row in left}
    config[kind] = []
    assert read(*files) == 1
    assert "no longer asks for any answer of the sample" in capsys.readouterr().err


def test_a_split_that_nobody_labelled_and_that_was_taken_out_makes_no_other_label_count_more(study, config, capsys):
    def of_safe(row):
        return true_label(row["answer"]) if "of safe?" in row["prompt"] else ""

    files = labelled(study, of_safe)
    fill(files[0], of_safe)
    config["splits"] = ["safe"]
    assert read(*files) == 0
    probabilities = {name: row["probability"] for name, row in read_folder(study).sample.items()}
    labels = json_rows(study / "labels.jsonl")[1:]
    assert labels and all(row["probability"] == probabilities[row["text"]] for row in labels)


def test_a_prompt_that_was_taken_out_leaves_the_other_labels(study, capsys):
    files = labelled(study)
    gone = next(row["members"][0][2] for row in read_folder(study).sample.values())
    for kind, column in (("prompts", "id"), ("answers", "prompt_id")):
        for path in (study.parent / kind).rglob("*.jsonl"):
            write_jsonl(path, [row for row in json_rows(path) if row[column] != gone])
    assert read(*files) == 0
    labels = json_rows(study / "labels.jsonl")[1:]
    assert labels and gone not in {row["prompt_id"] for row in labels}


def test_a_study_that_has_not_run_says_so(study, capsys):
    shutil.rmtree(study.parent / "verdicts")
    assert make() == 1
    assert "run the study first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--raters", "Anna"], "give a number, or different names"),
        (["--raters", "anna,anna"], "give a number, or different names"),
        (["--raters", "0"], "give a number, or different names"),
        (["--raters", "../x"], "give a number, or different names"),
        (["--strata", "disagree=0"], "a factor above 0"),
        (["--strata", "hard=2"], "one of disagree, unjudged"),
        (["--models", "secret-model-c"], "has no model `secret-model-c`"),
    ],
)
def test_arguments_that_make_no_sense_are_reported(study, capsys, arguments, message):
    assert make(*arguments) == 1
    assert message in capsys.readouterr().err


def test_named_raters_and_parts_of_a_study(study):
    assert make("--raters", "anna, ben,cleo", "--splits", "bad", "--share", "1") == 0
    audit = read_folder(study)
    assert set(audit.orders) == {"anna", "ben", "cleo"}
    assert {member[1] for row in audit.sample.values() for member in row["members"]} == {"bad"}
    assert all(len(row["raters"]) == 2 for row in audit.sample.values())


def test_an_audit_that_did_not_write_down_its_frame_can_still_be_read(study):
    files = labelled(study)
    (study / "frame.json").unlink()
    assert read(*files) == 0
    assert all("label" in row for row in json_rows(study / "labels.jsonl"))
