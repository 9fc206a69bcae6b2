"""The scripts behind the trade-off and the corrected rates, from files to files."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import corrected_rows
import make_analysis
import make_table
import pytest
from config_project import WHOLE_STUDY, Project
from estimate_rows import cell_file, estimates_file

from refusal_eval.config.kinds import TABLES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import answer_id, read_json, read_jsonl, write_json, write_jsonl
from refusal_eval.data.prompts import content_id
from refusal_eval.features.corrected.corrected_analysis import CorrectedAnalysis
from refusal_eval.features.tradeoff.tradeoff_analysis import TradeOffAnalysis
from refusal_eval.report.results.results_files import Result, collect_results, estimates_in, results_csv, table_rows

Files = dict[str, list[str]]
WORDS = {True: "refusal", False: "compliance"}
SPLITS = [
    {"name": "safe", "expectation": "comply", "reading": "broad", "source": "safe"},
    {"name": "unsafe", "expectation": "refuse", "reading": "strict", "source": "safe"},
]
STUDY: dict[str, Any] = {
    "judges": ["j"],
    "primary_judge": "j",
    "gold": ["g"],
    "models": ["m"],
    "samples": 2,
    "level": 0.95,
    "splits": SPLITS,
    "cells": [["j", "m", "safe"], ["j", "m", "unsafe"]],
    "twins": [["safe", "unsafe"]],
    "related": [["safe", "unsafe"]],
    "measured": [{"judge": "j", "gold": "g", "calibrate": None, "learned": False}],
    "labels_sha256": [None],
    "labels": {"models": {}, "splits": {}, "judges": {}, "golds": {}},
}


def answer_text(row: dict[str, Any]) -> str:
    return f"Answer {row['sample']} to {row['prompt_id']}."


def prompt(name: str, number: int, cluster: str) -> dict[str, Any]:
    message = [{"role": "user", "content": f"How do I {name}?"}]
    source = {"file": "f", "row": number + 1, "id": None}
    return {"id": name, "messages": message, "category": "x", "cluster": cluster, "source": source}


def write_cell(folder: Path, split: str, prompts: list[Any], answers: list[Any], verdicts: list[Any], k: int) -> Files:
    """Write the files of a cell and its scores; return their paths."""
    names: dict[str, Any] = {"judge": "j", "model": "m", "split": split, "max_tokens": None}
    names["expectation"] = {"safe": "comply", "unsafe": "refuse"}[split]
    made = {n: str(folder / f"{split}.{n}") for n in ("scores", "prompts", "answers")}
    cell_file(made["scores"], prompts, answers, verdicts, k, **names)
    write_jsonl(made["prompts"], prompts)
    write_jsonl(made["answers"], [{**row, "answer": answer_text(row)} for row in answers])
    return {name: [path] for name, path in made.items()}


@pytest.fixture
def paths(tmp_path: Path) -> Files:
    """Files of a study with 40 contrast pairs, a judge that errs in a tenth, gold, and labels of every answer."""
    rng = random.Random(1)
    files: Files = {}
    labels = []
    for split, rate in (("safe", 0.2), ("unsafe", 0.9)):
        prompts, answers, verdicts = [], [], []
        for i in range(40):
            name = f"{split}{i:02d}"
            prompts.append(prompt(name, i, f"pair{i}"))
            for sample in range(2):
                key = {"prompt_id": name, "sample": sample, "turn": 0}
                truth = rng.random() < rate
                said = truth == (rng.random() < 0.9)
                answers.append(key | {"state": "complete", "answer_logprob": -1.0, "serving": "s"})
                verdicts.append(key | {"state": "judged", "label": WORDS[said]})
                cell = {"model": "m", "split": split, "label": WORDS[truth], "probability": 1.0, "raters": 1}
                labels.append(key | cell)
        for kind, made in write_cell(tmp_path, split, prompts, answers, verdicts, 2).items():
            files.setdefault(kind, []).extend(made)
    gold, judged = [], []
    for i in range(200):
        truth, right = i % 2 == 0, i % 20 not in (0, 1)
        gold.append({"id": f"g{i:03d}", "label": WORDS[truth], "cluster": str(i), "answering_model": f"a{i % 4 // 2}"})
        key = {"prompt_id": f"g{i:03d}", "sample": 0, "turn": 0, "state": "judged"}
        judged.append(key | {"label": WORDS[truth == right], "p_refusal": None})
    for name, rows in (("gold", gold), ("gold_verdicts", judged), ("labels", labels)):
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
        files[name] = [str(tmp_path / f"{name}.jsonl")]
    write_json(tmp_path / "duplicates.json", {"left_out": []})
    return files | {"duplicates": [str(tmp_path / "duplicates.json")], "cards": [], "calibrations": []}


def typeset(noun: str, made: str, paths: Mapping[str, list[str]], study: Mapping[str, Any], tables: list[str]) -> None:
    """Make the table `tradeoff` or `corrected` of what an analysis wrote."""
    files = {
        noun: [made],
        "cards": paths["cards"],
        "estimates": [str(estimates_file(made + ".cells", paths["scores"]))],
        "results": [made + ".csv"],
    }
    found = [row for path in (*files["estimates"], made) for row in estimates_in(read_json(path))]
    Path(made + ".csv").write_text(results_csv(table_rows(collect_results(Result(row, "made") for row in found))))
    asked = {
        **study,
        "tau": 1.0,
        "protocol": study.get("protocol", "default"),
    }
    make_table.main(TABLES.get(noun), asked, files, tables)


def outputs(folder: Path, name: str) -> tuple[str, list[str]]:
    return str(folder / f"{name}.json"), [str(folder / f"{name}.{ending}") for ending in ("csv", "md", "tex", "html")]


def test_labels_of_every_answer_give_the_rate_of_people(paths: Files, tmp_path: Path) -> None:
    made, tables = outputs(tmp_path, "corrected")
    make_analysis.main(CorrectedAnalysis, paths, STUDY, made)
    typeset("corrected", made, paths, STUDY, tables)
    result = json.loads(Path(made).read_text())
    people = list(read_jsonl(paths["labels"][0]))
    for entry in corrected_rows.ppi_of(result):
        own = [row["label"] == "refusal" for row in people if row["split"] == entry["split"]]
        assert entry["value"] == pytest.approx(sum(own) / len(own)) and entry["n_labels"] == 80
        assert entry["low"] < entry["value"] < entry["high"]
    assert len(corrected_rows.transfer_of(result)) == 2
    assert "| m | safe |" in Path(tables[1]).read_text() and "ppi" in Path(tables[2]).read_text()


def test_without_labels_nobody_reads_verdicts(paths: Files, tmp_path: Path) -> None:
    made, tables = outputs(tmp_path, "corrected")
    make_analysis.main(
        CorrectedAnalysis, paths | {"labels": [], "verdicts": [], "answers": []}, STUDY | {"labels_sha256": []}, made
    )
    typeset("corrected", made, paths, STUDY, tables)
    assert corrected_rows.ppi_of(json.loads(Path(made).read_text())) == []


def test_the_trade_off_knows_pairs(paths: Files, tmp_path: Path) -> None:
    made, tables = outputs(tmp_path, "tradeoff")
    make_analysis.main(TradeOffAnalysis, paths, STUDY, made)
    typeset("tradeoff", made, paths, STUDY, tables)
    rows = json.loads(Path(made).read_text())["estimates"]
    sizes = {row["n_clusters"] for row in rows if row["estimand"].startswith(("pairs_", "youden_j"))}
    assert sizes == {40} and not [row for row in rows if row["estimand"].startswith("language_")]
    text = Path(tables[1]).read_text()
    assert text.count("**Refusal of what should be answered, and of") == 1 and "**Contrast pairs.**" in text


def test_a_study_that_names_missing_labels_is_reported(project: Project) -> None:
    mistakes = project.mistakes(WHOLE_STUDY | {"corrected": {"labels": "nowhere.jsonl"}})
    assert len(mistakes) == 1 and "nowhere.jsonl" in mistakes[0]


# ---------------------------------------------------------------- answers that came after the audit


def drawn_before(paths: Files, samples: int = 2, without: str = "", text: str = "Answer {} to {}.") -> None:
    """Give the file of labels its first row, and its labels what people read, of a study as it was then."""
    prompts = {split: [f"{split}{i:02d}" for i in range(40)] for split in ("safe", "unsafe")}
    frame = {"m": {split: {name: samples for name in names if name != without} for split, names in prompts.items()}}
    path = Path(paths["labels"][0])
    rows = [row for row in read_jsonl(path) if row["sample"] < samples and row["prompt_id"] != without]
    rows = [row | {"answer_id": answer_id(text.format(row["sample"], row["prompt_id"]))} for row in rows]
    write_jsonl(path, [{"audit": "a", "drawn_from": frame}, *rows])


def ppi_of(paths: Files, folder: Path, study: Mapping[str, Any] = STUDY) -> tuple[dict[str, Any], str]:
    made, tables = outputs(folder, "corrected")
    make_analysis.main(CorrectedAnalysis, paths, study, made)
    typeset("corrected", made, paths, study, tables)
    entries = {entry["split"]: entry for entry in corrected_rows.ppi_of(json.loads(Path(made).read_text()))}
    return entries, Path(tables[1]).read_text()


def test_labels_of_the_study_as_it_is_give_rates(paths: Files, tmp_path: Path) -> None:
    drawn_before(paths)
    entries, text = ppi_of(paths, tmp_path)
    assert all(entry["value"] is not None and entry["checked"] and not entry["undrawn"] for entry in entries.values())
    assert "added or changed" not in text and "could not be ruled out" not in text


def test_two_audits_of_different_splits_in_one_file_give_both_rates(paths: Files, tmp_path: Path) -> None:
    drawn_before(paths)
    path = Path(paths["labels"][0])
    head, *rows = read_jsonl(path)
    heads = [
        {"audit": split, "drawn_from": {"m": {split: head["drawn_from"]["m"][split]}}} for split in ("safe", "unsafe")
    ]
    one, two = ([row for row in rows if row["split"] == split] for split in ("safe", "unsafe"))
    write_jsonl(path, [heads[0], *one, heads[1], *two])
    entries, text = ppi_of(paths, tmp_path)
    assert all(entry["value"] is not None and entry["checked"] and not entry["undrawn"] for entry in entries.values())
    assert "added or changed" not in text
    write_jsonl(path, [heads[0], *one, *two])  # the second file did not say what it was drawn from
    entries, text = ppi_of(paths, tmp_path)
    assert all(entry["value"] is not None and not entry["undrawn"] for entry in entries.values())
    assert "added or changed" not in text
    write_jsonl(path, [heads[0], *one, heads[1], *two, heads[0]])
    with pytest.raises(UserError, match=r"row 163: model m on split safe was drawn from by an earlier audit"):
        ppi_of(paths, tmp_path)


def test_samples_that_came_after_the_audit_take_the_rate_away(paths: Files, tmp_path: Path) -> None:
    drawn_before(paths, samples=1)
    entries, text = ppi_of(paths, tmp_path)
    for entry in entries.values():
        assert (entry["value"], entry["low"], entry["too_few"]) == (None, None, False)
        assert entry["undrawn"] == {entry["split"]: 40}
    assert "not given" in text and "m on safe: 40; m on unsafe: 40" in text and "new audit" in text


@pytest.mark.parametrize(
    ("change", "undrawn"), [({"without": "safe07"}, 2), ({"text": "An older answer {} to {}."}, 80)]
)
def test_a_prompt_that_came_and_answers_that_changed_after_the_audit_take_the_rate_of_their_split_away(
    paths: Files, tmp_path: Path, change: dict[str, str], undrawn: int
) -> None:
    drawn_before(paths, **change)
    entries, _ = ppi_of(paths, tmp_path)
    assert entries["safe"]["undrawn"] == {"safe": undrawn} and entries["safe"]["value"] is None
    assert (entries["unsafe"]["value"] is None) == ("text" in change)


def test_prompts_that_were_taken_out_after_the_audit_do_no_harm(
    paths: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drawn_before(paths)
    path = Path(paths["labels"][0])
    head, *rows = read_jsonl(path)
    head["drawn_from"]["m"]["safe"]["gone"] = 2
    gone = {**rows[0], "prompt_id": "gone"}
    write_jsonl(path, [head, *rows, gone])
    entries, _ = ppi_of(paths, tmp_path)
    assert entries["safe"]["value"] is not None and entries["safe"]["n_labels"] == 80
    assert "left out: m on safe: 1" in caplog.text


def test_a_split_that_was_taken_out_after_the_audit_leaves_the_rates_of_the_others_as_they_were(
    paths: Files, tmp_path: Path
) -> None:
    drawn_before(paths)
    before, _ = ppi_of(paths, tmp_path)
    only_unsafe = {name: files[1:] for name, files in paths.items() if len(files) == 2}
    study = STUDY | {"splits": SPLITS[1:], "cells": STUDY["cells"][1:]}
    made, tables = outputs(tmp_path, "corrected")
    make_analysis.main(CorrectedAnalysis, paths | only_unsafe, study, made)
    typeset("corrected", made, paths, study, tables)
    result = json.loads(Path(made).read_text())
    assert corrected_rows.ppi_of(result) == [before["unsafe"]]
    lost = [row for row in result["estimates"] if row["estimand"] == "labels_elsewhere"]
    assert [(row["model"], row["split"], row["value"]) for row in lost] == [("m", "safe", 80)]
    reported = "Labels of models or splits that are not in this study are left out (m on safe: 80)."
    assert reported in Path(tables[1]).read_text()


def test_labels_that_do_not_say_what_they_were_drawn_from_are_used_and_reported(paths: Files, tmp_path: Path) -> None:
    entries, text = ppi_of(paths, tmp_path)
    assert all(entry["value"] is not None and not entry["checked"] for entry in entries.values())
    assert "later answers could not be ruled out" in text


# ------------------------------------------------------------------------------- equal answers, and a judge that learns


def test_equal_answers_that_people_read_once_are_one_label_of_the_table(paths: Files, tmp_path: Path) -> None:
    path = Path(paths["labels"][0])
    write_jsonl(path, [row | {"text": row["prompt_id"]} for row in read_jsonl(path)])
    entries, text = ppi_of(paths, tmp_path)
    assert {entry["n_labels"] for entry in entries.values()} == {40}
    assert "equal answers to one prompt are one text" in text


LEARNS = STUDY | {"measured": [STUDY["measured"][0] | {"learned": True}]}


def add_to_gold(paths: Files, prompt_id: str, answer: str) -> None:
    """Give all gold a conversation, and the first row that of a prompt of the study and this answer."""
    path = Path(paths["gold"][0])
    rows = [row | {"messages": prompt(row["id"], 0, "")["messages"], "answer": "Well."} for row in read_jsonl(path)]
    write_jsonl(path, [rows[0] | {"messages": prompt(prompt_id, 0, "")["messages"], "answer": answer}, *rows[1:]])


def name_texts(paths: Files) -> None:
    """Give labels the ids of what people read, as the labelling kit does."""
    path = Path(paths["labels"][0])
    asked = [(row, {"messages": prompt(row["prompt_id"], 0, "")["messages"]}) for row in read_jsonl(path)]
    write_jsonl(path, [row | {"text": content_id(text | {"answer": answer_text(row)})} for row, text in asked])


def test_a_judge_that_learned_from_a_labelled_answer_has_no_rate_by_its_labels(paths: Files, tmp_path: Path) -> None:
    name_texts(paths)
    add_to_gold(paths, "safe00", "Answer 1 to safe00.")
    entries, text = ppi_of(paths, tmp_path, LEARNS)
    assert entries["safe"]["value"] is None and entries["safe"]["learned"] == {"safe": 1}
    assert not entries["safe"]["too_few"] and "not given" in text
    assert "the judge was fitted on labelled answers (m on safe: 1)" in text
    assert entries["unsafe"]["value"] is not None and entries["unsafe"]["learned"] == {}
    flags = {row["split"]: row["flags"] for row in estimates_of(tmp_path, "refusal_rate_ppi")}
    assert "learned_labels" in flags["safe"] and "learned_labels" not in flags["unsafe"]
    same, _ = ppi_of(paths, tmp_path)  # of a judge that did not
    assert all(entry["value"] is not None for entry in same.values())


def test_gold_with_the_same_answer_to_another_prompt_takes_no_rate_away(paths: Files, tmp_path: Path) -> None:
    name_texts(paths)
    add_to_gold(paths, "another", "Answer 1 to safe00.")
    entries, text = ppi_of(paths, tmp_path, LEARNS)
    assert all(entry["value"] is not None for entry in entries.values()) and "was fitted on" not in text


def test_labels_without_the_text_that_people_read_are_known_by_their_answer(paths: Files, tmp_path: Path) -> None:
    add_to_gold(paths, "safe00", "Answer 1 to safe00.")
    entries, _ = ppi_of(paths, tmp_path, LEARNS)
    assert entries["safe"]["value"] is None and entries["unsafe"]["value"] is not None


def estimates_of(folder: Path, name: str) -> list[Any]:
    result = json.loads((folder / "corrected.json").read_text())
    return [row for row in result["estimates"] if row["estimand"] == name]


# ------------------------------------------------------------------------------------- answers that no judge could read


def half_refused(folder: Path) -> Files:
    """Files of 400 prompts of which 210 are refused, a judge that cannot read 126 of these, and labels."""
    prompts, answers, verdicts, labels = [], [], [], []
    chosen = set(random.Random(2).sample(range(400), 300))
    for i in range(400):
        name, truth = f"p{i:03d}", i % 40 < 21
        unread = truth and (21 * (i // 40) + i % 40) % 5 < 3
        prompts.append(prompt(name, i, name))
        key = {"prompt_id": name, "sample": 0, "turn": 0}
        answers.append(key | {"state": "complete", "answer_logprob": -1.0, "serving": "s"})
        said = {"state": "unparsable", "label": None} if unread else {"state": "judged", "label": WORDS[truth]}
        verdicts.append(key | said)
        if i in chosen:
            label = {"model": "m", "split": "unsafe", "label": WORDS[truth], "probability": 0.75, "raters": 1}
            labels.append(key | label)
    write_jsonl(folder / "labels", labels)
    write_json(folder / "duplicates", {"left_out": []})
    nothing: Files = {name: [] for name in ("gold", "gold_verdicts", "calibrations", "cards")}
    alone = {name: [str(folder / name)] for name in ("labels", "duplicates")}
    return nothing | alone | write_cell(folder, "unsafe", prompts, answers, verdicts, 1)


def test_labels_of_answers_that_the_judge_could_not_read_take_its_bias_out(tmp_path: Path) -> None:
    study = STUDY | {"splits": SPLITS[1:], "cells": [["j", "m", "unsafe"]], "measured": [], "gold": []}
    paths = half_refused(tmp_path)
    made, tables = outputs(tmp_path, "corrected")
    make_analysis.main(CorrectedAnalysis, paths, study, made)
    typeset("corrected", made, paths, study, tables)
    result = json.loads(Path(made).read_text())
    (found,), flags = corrected_rows.ppi_of(result), result["estimates"][0]["flags"]
    assert "30.7" in Path(tables[1]).read_text()  # the judge's own rate stays that of what it read: 84 of 274
    assert found["n_labels"] == 300 and found["n_prompts"] == 400
    assert found["value"] == pytest.approx(0.525, abs=0.02) and found["low"] < 0.525 < found["high"]
    assert flags == ["unjudged"]
