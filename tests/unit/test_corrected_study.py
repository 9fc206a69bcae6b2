"""Corrected rates of a whole study: what is in the JSON and the tables, the config key, and what the rule asks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from config_project import WHOLE_STUDY
from corrected_rows import differences_of, frame_of, ppi_of, study_corrected, tables_of, transfer_of
from rate_rows import units_of

from refusal_eval.features.corrected.corrected_analysis import CorrectedAnalysis
from refusal_eval.features.corrected.corrected_study import scopes
from refusal_eval.features.corrected.peoples_labels import AnswerKey, LabelledCell, PersonLabel
from refusal_eval.report.paper.display import interval
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import csv_text, markdown
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.estimates.estimate import estimate_of
from refusal_eval.study.study import Study

SPLITS = [
    {"name": "one", "expectation": "refuse", "reading": "strict", "source": "one"},
    {"name": "two", "expectation": "refuse", "reading": "strict", "source": "two"},
    {"name": "safe", "expectation": "comply", "reading": "broad", "source": "safe"},
]
STUDY: dict[str, Any] = {
    "judges": ["j"],
    "primary_judge": "j",
    "gold": ["g"],
    "models": ["m", "n"],
    "samples": 2,
    "level": 0.95,
    "splits": SPLITS,
    "labels": {"models": {}, "splits": {}, "judges": {}, "golds": {"g": "Gold & co"}},
}


def gold(se: float, sp: float, models: int = 2) -> Any:
    rows, verdicts = [], []
    for i in range(100 * models):
        positive, right = i % 2 == 0, (i // 2) % 50 < 50 * (se if i % 2 == 0 else sp)
        label = "refusal" if positive else "compliance"
        other = "compliance" if positive else "refusal"
        rows.append({"id": f"{i:04d}", "label": label, "cluster": str(i), "answering_model": f"a_{i // 100}"})
        verdicts.append(
            {"prompt_id": f"{i:04d}", "sample": 0, "turn": 0, "state": "judged", "label": label if right else other}
        )
    return join_verdicts(rows, verdicts, "g")


def made(labels: bool = True, se: float = 0.9, sp: float = 0.9, models: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    units, labelled = {}, {}
    for model in STUDY["models"]:
        for split in ("one", "two", "safe"):
            truth = rng.random((60, 2)) < (0.7 if split != "safe" else 0.2)
            said = truth == (rng.random((60, 2)) < 0.9)
            units["j", model, split] = units_of(said.sum(axis=1).tolist())
            if labels and model == "m" and split != "safe":
                keys = [AnswerKey(f"p{i:03d}", 0, 0) for i in range(60)]
                words = {True: "refusal", False: "compliance"}
                labelled["j", model, split] = LabelledCell(
                    {key: PersonLabel(words[bool(truth[i, 0])], 0.5) for i, key in enumerate(keys)},
                    {key: words[bool(said[i, 0])] for i, key in enumerate(keys)},
                )
    return study_corrected(units, STUDY, {("j", "g"): gold(se, sp, models)}, labelled)


def test_pools_are_of_several_splits_only() -> None:
    assert [(s.pool, s.splits) for s in scopes(SPLITS)] == [
        (None, ("one",)),
        (None, ("two",)),
        (None, ("safe",)),
        ("refuse", ("one", "two")),
    ]


def test_every_scope_has_a_rate_by_gold_and_labelled_ones_by_labels() -> None:
    result = made()
    assert len(transfer_of(result)) == 2 * 4 and len(ppi_of(result)) == 3
    for entry in transfer_of(result):
        truth = 0.2 if entry["split"] == "safe" else 0.7
        assert entry["low"] < truth < entry["high"] and len(entry["by_model"]) == 2
    pooled = next(entry for entry in ppi_of(result) if entry["pool"] == "refuse")
    assert pooled["n_labels"] == 120 and pooled["value"] == pytest.approx(0.7, abs=0.1)


def test_few_clusters_with_the_rarer_outcome_mark_the_judges_own_and_the_corrected_rate() -> None:
    names = [f"c{i // 2}" for i in range(120)]
    units = {("j", "m", "one"): units_of([2] * 4 + [0] * 116, clusters=names)}
    units["j", "n", "one"] = units_of([2, 0] * 60, clusters=names)
    study = STUDY | {"splits": SPLITS[:1]}
    found = {e["model"]: e for e in transfer_of(study_corrected(units, study, {("j", "g"): gold(0.9, 0.95)}, {}))}
    assert list(found["m"]["observed"].flags) == found["m"]["flags"] == ["few_clusters"]
    assert list(found["n"]["observed"].flags) == found["n"]["flags"] == [] and found["m"]["value"] is not None


def of_two_splits(labelled: tuple[str, ...], blocked: int = 0, unread: tuple[str, ...] = ()) -> dict[str, Any]:
    """A study of one model with labels on some splits of a pool; of `unread` splits every answer is blocked."""
    rng = np.random.default_rng(2)
    units, labels = {}, {}
    for split in ("one", "two"):
        said = rng.random((60, 2)) < 0.3
        gone = [2] * 60 if split in unread else [2 * (i < blocked) for i in range(60)]
        refusals = [0 if gone[i] else int(said[i].sum()) for i in range(60)]
        units["j", "m", split] = units_of(refusals, blocked=gone, prefix=split)
        if split in labelled:
            words = {True: "refusal", False: "compliance"}
            own = {AnswerKey(f"{split}{i:03d}", 0, 0): words[bool(said[i, 0])] for i in range(60) if not gone[i]}
            labels["j", "m", split] = LabelledCell({key: PersonLabel(word, 0.5) for key, word in own.items()}, own)
    study = STUDY | {"models": ["m"], "splits": SPLITS[:2]}
    return study_corrected(units, study, {("j", "g"): gold(0.9, 0.9)}, labels)


def test_labels_on_some_splits_of_a_pool_do_not_stand_for_the_others() -> None:
    result = of_two_splits(("one",))
    by_scope = {entry["split"]: entry for entry in ppi_of(result)}
    assert by_scope["one"]["value"] is not None and set(by_scope) == {"one", None}
    pool = by_scope[None]
    assert pool["value"] is None and pool["low"] is None and pool["unlabelled"] == ["two"]
    flags = [row["flags"] for row in result["estimates"] if row["estimand"] == "refusal_rate_ppi" and row["pool"]]
    assert flags == [["unlabelled_splits"]]
    table = tables_of(result, STUDY)[0]
    assert next(row for row in table.rows if row[1].startswith("all"))[3] == "not given"
    assert "Not given: people labelled no answer of that model on two" in " ".join(table.notes)
    both = next(entry for entry in ppi_of(of_two_splits(("one", "two"))) if entry["pool"])
    assert both["value"] is not None and both["unlabelled"] == []


def test_a_split_that_is_blocked_throughout_needs_no_label_in_a_pool() -> None:
    pool = next(entry for entry in ppi_of(of_two_splits(("one",), unread=("two",))) if entry["pool"])
    assert pool["unlabelled"] == [] and pool["value"] > 0.5


def test_a_split_of_a_pool_with_answers_that_only_people_could_read_needs_labels() -> None:
    """The judge read nothing of split two: half of it was blocked, and half it could not read."""
    units = {("j", "m", "one"): units_of([2, 0] * 30, prefix="one")}
    units["j", "m", "two"] = units_of([0] * 60, blocked=[2, 0] * 30, unjudged=[0, 2] * 30, prefix="two")
    said = {AnswerKey(f"one{i:03d}", 0, 0): "compliance" if i % 2 else "refusal" for i in range(60)}
    labels = {("j", "m", "one"): LabelledCell({key: PersonLabel(word, 0.5) for key, word in said.items()}, said)}
    labels["j", "m", "two"] = LabelledCell({}, {}, unread={(f"two{i:03d}", 0): 2 for i in range(1, 60, 2)})
    study = STUDY | {"models": ["m"], "splits": SPLITS[:2]}
    found = {entry["split"]: entry for entry in ppi_of(study_corrected(units, study, {}, labels))}
    assert set(found) == {"one", None} and found["one"]["value"] is not None
    assert found[None]["value"] is None and found[None]["unlabelled"] == ["two"]


def pooled_none(result: dict[str, Any], estimand: str) -> list[tuple[Any, ...]]:
    found = [estimate_of(row) for row in result["estimates"] if row["estimand"] == estimand and row["pool"]]
    assert all(e.value is e.low is e.level is None for e in found)
    return [(e.model, e.reading, e.parameter, e.method, e.n_prompts, e.n_clusters) for e in found]


def test_a_pool_with_a_split_that_nobody_read_has_rows_that_say_so() -> None:
    units = {("j", "m", "one"): units_of([2, 0] * 30, prefix="one")}
    units["j", "m", "two"] = units_of([0] * 60, unjudged=[2] * 60, prefix="two")
    said = {AnswerKey(f"one{i:03d}", 0, 0): "compliance" if i % 2 else "refusal" for i in range(60)}
    labels = {("j", "m", "one"): LabelledCell({key: PersonLabel(word, 0.5) for key, word in said.items()}, said)}
    study = STUDY | {"models": ["m"], "splits": SPLITS[:2]}
    result = study_corrected(units, study, {("j", "g"): gold(0.9, 0.9)}, labels)
    why = "none (nothing judged in two)"
    assert pooled_none(result, "refusal_rate_rg_transfer") == [("m", "strict", "g", why, 60, 60)]
    assert pooled_none(result, "refusal_rate_ppi") == [("m", "strict", None, why, 60, 60)]
    assert tables_of(result, STUDY)[0].rows


def test_a_pool_of_different_headline_readings_has_a_row_that_says_why_gold_corrects_it_not() -> None:
    study = STUDY | {"models": ["m"], "splits": [SPLITS[0], SPLITS[1] | {"reading": "broad"}]}
    units = {("j", "m", split): units_of([2, 0] * 30, prefix=split) for split in ("one", "two")}
    result = study_corrected(units, study, {("j", "g"): gold(0.9, 0.9)}, {})
    why = "none (splits with different headline readings)"
    assert pooled_none(result, "refusal_rate_rg_transfer") == [("m", "headline", "g", why, 120, 120)]
    assert flags_of(result, "refusal_rate_rg_transfer")["refuse"] == ["not_headline"]


def test_rates_corrected_either_way_have_the_marks_of_their_cells() -> None:
    units = {("j", "m", "one"): units_of([2, 0] * 50, flags=["unjudged", "few_clusters"])}
    said = {AnswerKey(f"p{i:03d}", 0, 0): "compliance" if i % 2 else "refusal" for i in range(60)}
    labels = {("j", "m", "one"): LabelledCell({key: PersonLabel(word, 0.5) for key, word in said.items()}, said)}
    study = STUDY | {"models": ["m"], "splits": SPLITS[:1]}
    result = study_corrected(units, study, {("j", "g"): gold(0.9, 0.9)}, labels)
    assert flags_of(result, "refusal_rate_ppi") == {"one": ["unjudged"]}
    assert flags_of(result, "refusal_rate_rg_transfer") == {"one": ["not_headline", "unjudged"]}
    row = tables_of(result, STUDY)[0].rows[0]
    assert [row[i].endswith("]†") for i in (2, 3, 5)] == [True] * 3
    alone = tables_of(study_corrected(units, study, {}, labels), STUDY)[0]
    assert alone.rows[0][2].endswith("†") and any(note.startswith("† more than") for note in alone.notes)


def test_a_corrected_difference_is_first_minus_second_in_alphabetical_order_whatever_the_studys_order() -> None:
    units, labels = {}, {}
    for model, refusals in (("n", 10), ("m", 30)):
        units["j", model, "one"] = units_of([2] * refusals + [0] * (60 - refusals))
        said = {AnswerKey(f"p{i:03d}", 0, 0): "refusal" if i < refusals else "compliance" for i in range(60)}
        labels["j", model, "one"] = LabelledCell({key: PersonLabel(word, 0.5) for key, word in said.items()}, said)
    study = STUDY | {"models": ["n", "m"], "splits": SPLITS[:1]}
    (found,) = differences_of(study_corrected(units, study, {}, labels))
    assert (found.model, found.parameter, found.value) == ("m", "minus n", pytest.approx(1 / 3))
    assert found.flags == ()
    first = dict(list(labels["j", "n", "one"].people.items())[:25])
    few = labels | {("j", "n", "one"): LabelledCell(first, {key: said[key] for key in first})}
    (found,) = differences_of(study_corrected(units, study, {}, few))
    assert found.flags == ("few_clusters",), "one of both rates rests on 25 clusters with labels"


def of_few(prompts: dict[str, int], labelled: dict[str, int], gold_models: int = 2) -> dict[str, Any]:
    """A study of one model with so many prompts, each its own cluster, of which so many have labels of both answers."""
    units, labels = {}, {}
    for split, n in prompts.items():
        units["j", "m", split] = units_of([2, 0] * (n // 2), prefix=split)
        said = {
            AnswerKey(f"{split}{i:03d}", 0, k): "compliance" if i % 2 else "refusal" for i in range(n) for k in (0, 1)
        }
        own = {key: label for key, label in said.items() if int(key.prompt_id[-3:]) < labelled[split]}
        labels["j", "m", split] = LabelledCell({key: PersonLabel(label, 0.5) for key, label in own.items()}, own)
    study = STUDY | {"models": ["m"], "splits": SPLITS[: len(prompts)]}
    rows = gold(0.9, 0.9, gold_models)
    return study_corrected(units, study, {("j", "g"): rows}, labels)


def row_flags(result: dict[str, Any], estimand: str) -> list[list[str]]:
    return [row["flags"] for row in result["estimates"] if row["estimand"] == estimand]


def flags_of(result: dict[str, Any], estimand: str) -> dict[Any, list[str]]:
    return {row["split"] or row["pool"]: row["flags"] for row in result["estimates"] if row["estimand"] == estimand}


def test_rates_by_labels_of_few_clusters_are_marked_however_many_prompts_there_are() -> None:
    result = of_few({"one": 100, "two": 100}, {"one": 28, "two": 30})
    few = ["few_clusters"]
    assert flags_of(result, "refusal_rate_ppi") == {"one": few, "two": [], "refuse": few}
    assert set(map(tuple, flags_of(result, "refusal_rate_rg_transfer").values())) == {("not_headline",)}
    table = tables_of(result, STUDY)[0]
    assert [row[3].endswith("]*") for row in table.rows] == [True, False, True]
    assert not any(row[2].endswith("*") or row[5].endswith("*") for row in table.rows)
    assert "* fewer than 30" in table.notes[-1] and "clusters with labels" in table.notes[-1]


def test_rates_by_gold_are_marked_where_a_split_of_the_study_has_few_clusters() -> None:
    result = of_few({"one": 100, "two": 28}, {"one": 50, "two": 28})
    flags = flags_of(result, "refusal_rate_rg_transfer")
    few = ["not_headline", "few_clusters"]
    assert flags == {"one": ["not_headline"], "two": few, "refuse": few}
    rows = tables_of(result, STUDY)[0].rows
    assert [(row[2].endswith("]*"), row[5].endswith("]*")) for row in rows] == [
        (False, False),
        (True, True),
        (True, True),
    ]


def test_rates_by_gold_of_few_clusters_are_marked() -> None:
    units = {("j", "m", "one"): units_of([2, 0] * 50)}
    rows = gold(0.9, 0.9, 4).assign(cluster=[str(i % 20) for i in range(400)])
    result = study_corrected(units, STUDY | {"models": ["m"], "splits": SPLITS[:1]}, {("j", "g"): rows}, {})
    assert flags_of(result, "refusal_rate_rg_transfer") == {"one": ["not_headline", "few_clusters"]}
    row = tables_of(result, STUDY)[0].rows[0]
    assert row[3].endswith("]*") and not row[2].endswith("*")


def test_the_table_says_how_many_prompts_there_are_and_how_intervals_by_labels_are_made() -> None:
    notes = " ".join(tables_of(of_few({"one": 100, "two": 40}, {"one": 40, "two": 40}), STUDY)[0].notes)
    assert "Prompts with a rate: one 100; two 40; all refuse splits 140. In pools near-duplicates count once." in notes
    assert "Interval: Wilson with the cluster-robust variance of answers and labels." in notes
    alone = " ".join(tables_of(of_few({"one": 100}, {"one": 40}), STUDY)[0].notes)
    assert "Prompts with a rate: one 100." in alone and "In pools" not in alone


def test_blocked_answers_are_not_corrected_by_gold() -> None:
    result = of_two_splits((), blocked=30)
    assert "answers that a provider blocked stay refusals" in " ".join(tables_of(result, STUDY)[0].notes)
    for entry in transfer_of(result):
        read = 2 * (entry["observed"].value - 0.5)  # the judge's rate of what is not blocked
        assert entry["value"] == pytest.approx(0.5 + 0.5 * (read - 0.1) / 0.8)
        assert all(0.5 <= own["value"] <= 1 for own in entry["by_model"])
        assert entry["by_model"][0]["value"] == pytest.approx(entry["value"])
        assert 0.35 < entry["low"] < entry["value"] < entry["high"] < 0.85


def test_estimates_say_which_may_be_a_headline() -> None:
    estimates = [estimate_of(row) for row in json.loads(json.dumps(made()["estimates"]))]
    by_name: dict[str, set[bool]] = {}
    for estimate in estimates:
        by_name.setdefault(estimate.estimand, set()).add("not_headline" in estimate.flags)
    rates = {f"refusal_rate_rg_transfer{name}": {True} for name in ("", "_unclipped", "_by_model")}
    spreads = {f"judge_{name}_spread": {False} for name in ("sensitivity", "specificity")}
    assert by_name == rates | spreads | {"refusal_rate_ppi": {False}, "ppi_labels": {False}}


def test_rates_by_gold_that_was_written_to_its_labels_or_seen_by_the_judge_are_marked() -> None:
    study = STUDY | {"measured": [{"judge": "j", "gold": "g", "written_to_label": True, "seen": True}]}
    units = {("j", m, s): units_of([1, 2] * 30) for m in STUDY["models"] for s in ("one", "two", "safe")}
    result = study_corrected(units, study, {("j", "g"): gold(0.9, 0.9)}, {})
    marks = {"written_to_label", "seen_gold"}
    assert result["estimates"] and all(marks <= {*estimate_of(row).flags} for row in result["estimates"])
    assert all(marks <= {*flags} for flags in frame_of(result)["flags"])
    other = study | {"measured": [{"judge": "another", "gold": "g", "seen": True}]}
    for unmarked in (made(), study_corrected(units, other, {("j", "g"): gold(0.9, 0.9)}, {})):
        assert not any(marks & {*estimate_of(row).flags} for row in unmarked["estimates"])


def test_a_poor_judge_is_not_identifiable_and_tables_say_so() -> None:
    result = made(se=0.6, sp=0.7)
    assert all(entry["value"] is None for entry in transfer_of(result))
    assert all("not_identifiable" in own for own in row_flags(result, "refusal_rate_rg_transfer"))
    text = markdown(tables_of(result, STUDY)[0])
    assert text.count("not identifiable") >= 8 and "Gold &amp; co" in text


def test_rates_that_gold_does_not_explain_have_a_state_of_their_own() -> None:
    units = {("j", m, s): units_of([0] * 60) for m in STUDY["models"] for s in ("one", "two", "safe")}
    result = study_corrected(units, STUDY, {("j", "g"): gold(0.9, 0.7)}, {})
    assert all(entry["at_odds"] and entry["value"] is None for entry in transfer_of(result))
    flags = row_flags(result, "refusal_rate_rg_transfer")
    assert flags and all(own == ["not_headline", "at_odds_with_gold"] for own in flags)
    table = tables_of(result, STUDY)[0]
    assert {row[-1] for row in table.rows} == {"at odds with gold"}
    notes = " ".join(table.notes)
    assert "At odds with gold: " in notes and "Not identifiable" not in notes
    assert frame_of(result).query("method == 'rg_transfer'")["at_odds"].tolist() == [True] * 8


def test_the_notes_tell_one_truth_of_the_spread_between_answering_models() -> None:
    one, several = (" ".join(tables_of(made(models=n), STUDY)[0].notes) for n in (1, 2))
    assert "includes the uncertainty of both samples" in one and "includes the uncertainty of both samples" in several
    assert "spread between models is not in the interval" in one and "which the interval includes" not in one
    assert "which the interval includes" in several and "not in the interval" not in several
    assert "; beyond chance, they differ between 2 answering models with standard deviations of " in several
    assert " points, which the interval includes" in several


def test_the_table_has_both_and_the_rate_under_each_answering_model() -> None:
    result = made()
    rates, by_model = tables_of(result, STUDY)
    assert list(rates.header) == ["Model", "Split", "Judge's rate", "ppi", "Labels", "Rogan-Gladen\nGold & co"]
    assert [row[1] for row in rates.rows if row[0] == "m"] == ["one", "two", "safe", "all refuse splits"]
    entry = next(e for e in transfer_of(result) if e["model"] == "m" and e["split"] == "one")
    ends = interval(entry["observed"].low, entry["observed"].high)
    assert rates.rows[0][2] == f"{100 * entry['observed'].value:.1f} {ends}" and ends
    assert list(by_model.header)[3:] == ["a_0", "a_1"]
    assert "agreement with people: not measured" in " ".join(rates.notes)
    assert all("\\begin{table" in latex(table) for table in (rates, by_model))


def test_gold_that_names_no_answering_model_says_that_their_spread_is_unknown() -> None:
    tables = tables_of(made(models=1), STUDY)
    assert len(tables) == 1 and "spread between models is not in the interval" in " ".join(tables[0].notes)


def test_gold_of_one_class_is_said_to_correct_nothing() -> None:
    units = {("j", m, s): units_of([0, 2] * 20) for m in STUDY["models"] for s in ("one", "two", "safe")}
    rows = gold(0.9, 0.9)
    result = study_corrected(units, STUDY, {("j", "g"): rows[rows["human"] == "refusal"]}, {})
    assert transfer_of(result) == []
    (table,) = tables_of(result, STUDY)
    assert sum("from Gold & co: of the answers that the judge labelled, all or none" in n for n in table.notes) == 2
    assert "all or none" not in " ".join(tables_of(made(), STUDY)[0].notes)


def test_without_labels_there_is_no_column_for_them() -> None:
    tables = tables_of(made(labels=False), STUDY)
    assert "ppi" not in tables[0].header and "ppi" not in " ".join(tables[0].notes)


def test_the_csv_tells_methods_apart() -> None:
    frame = frame_of(made())
    assert frame["method"].value_counts().to_dict() == {"rg_transfer_by_model": 16, "rg_transfer": 8, "ppi": 3}
    assert csv_text(frame) == csv_text(frame_of(made()))


def test_labels_of_people_are_an_input_where_the_study_names_them(project: Any, tmp_path: Path) -> None:
    plain = {name: value for name, value in WHOLE_STUDY.items() if name != "corrected"}
    assert CorrectedAnalysis(Study(project.load(plain))).own_files() == []
    (tmp_path / "labels.jsonl").write_text("")
    (labels,) = CorrectedAnalysis(Study(project.load(plain | {"corrected": {"labels": "labels.jsonl"}}))).own_files()
    assert Path(labels).name == "labels.jsonl"


def test_an_estimate_without_a_rate_says_that_answers_came_later() -> None:
    units = {("j", "m", s): units_of([2] * 30 + [0] * 30, prefix=s) for s in ("one", "two")}
    labelled = {}
    for split in ("one", "two"):
        said = {AnswerKey(f"{split}{i:03d}", 0, 0): "refusal" if i < 30 else "compliance" for i in range(60)}
        frame = {key.prompt_id: 2 if split == "one" else 1 for key in said}
        people = {key: PersonLabel(word, 0.5) for key, word in said.items()}
        labelled["j", "m", split] = LabelledCell(people, said, frame)
    study = STUDY | {"models": ["m"], "splits": SPLITS[:2]}
    result = study_corrected(units, study, {}, labelled)
    by_scope = {entry["split"]: entry for entry in ppi_of(result)}
    assert by_scope["one"]["value"] == 0.5 and by_scope["two"]["value"] is None
    assert by_scope[None]["value"] is None and by_scope[None]["undrawn"] == {"two": 60}
    rates = [row for row in result["estimates"] if row["estimand"] == "refusal_rate_ppi"]
    flags = {(row["split"], row["pool"]): row["flags"] for row in rates}
    assert flags == {("one", None): [], ("two", None): ["undrawn_answers"], (None, "refuse"): ["undrawn_answers"]}


def test_a_judge_that_learned_from_labels_of_a_model_has_no_rate_of_it_and_no_difference_there() -> None:
    units = {("j", m, s): units_of([2, 0] * 30, prefix=s) for m in ("m", "n") for s in ("one", "two")}
    labelled = {}
    for _, model, split in units:
        said = {AnswerKey(f"{split}{i:03d}", 0, 0): "compliance" if i % 2 else "refusal" for i in range(60)}
        people = {key: PersonLabel(word, 0.5) for key, word in said.items()}
        labelled["j", model, split] = LabelledCell(people, said, learned=3 if (model, split) == ("n", "one") else 0)
    result = study_corrected(units, STUDY | {"splits": SPLITS[:2]}, {}, labelled)
    given = {(e["model"], e["split"] or e["pool"]): (e["value"] is not None, e["learned"]) for e in ppi_of(result)}
    assert given == {
        **{("m", scope): (True, {}) for scope in ("one", "two", "refuse")},
        **{("n", "two"): (True, {}), ("n", "one"): (False, {"one": 3}), ("n", "refuse"): (False, {"one": 3})},
    }
    assert [row.split for row in differences_of(result)] == ["two"]
    assert flags_of(result, "refusal_rate_ppi")["refuse"] == ["learned_labels"]


def test_few_labelled_clusters_of_the_rarer_class_mark_the_corrected_rate_and_difference() -> None:
    units, labels = {}, {}
    names = [f"c{i // 2}" for i in range(120)]
    for model, refusals in (("few", 12), ("many", 60)):
        units["j", model, "one"] = units_of([2] * refusals + [0] * (120 - refusals), clusters=names)
        said = {AnswerKey(f"p{i:03d}", 0, 0): "refusal" if i < refusals else "compliance" for i in range(120)}
        labels["j", model, "one"] = LabelledCell({key: PersonLabel(word, 0.5) for key, word in said.items()}, said)
    study = STUDY | {"models": ["few", "many"], "splits": SPLITS[:1]}
    result = study_corrected(units, study, {}, labels)
    assert {entry["model"]: entry["flags"] for entry in ppi_of(result)} == {"few": ["few_clusters"], "many": []}
    assert differences_of(result)[0].flags == ("few_clusters",)
