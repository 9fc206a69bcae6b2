"""Agreement of judges with each other: published and hand-computed numbers, rankings, and the answers in dispute."""

import itertools
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimate_rows import cell_file, units_in
from figure_checks import draw, shown, words
from judge_rows import LABELS, verdict
from panel_rows import panel_of
from scipy.stats import kendalltau
from table_rows import data_of

from refusal_eval.features.judge_pairs.judge_agreement_analysis import JudgeAgreementAnalysis
from refusal_eval.features.judge_pairs.judges_agree_table import agreement_frame, agreement_table
from refusal_eval.features.judge_pairs.judges_disagree_table import JudgesDisagreeTable
from refusal_eval.features.judge_pairs.pair_agreement import (
    agreement_of,
    coincidences,
    columns,
    disagreements,
    krippendorff_alpha,
    panel,
)
from refusal_eval.features.judge_pairs.ranking import kendall_tau_b, rankings
from refusal_eval.report.paper.display import NO_DATA
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import markdown, move_to_notes
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.stats.estimates.near_duplicates import PromptPlace

R, P, C, NONE = 0, 1, 2, -1


def alpha(labels: list[list[int]], classes: int) -> float:
    tables, scale = coincidences(np.array(labels), classes)
    return float(krippendorff_alpha(tables.sum(axis=0) / scale))


def test_alpha_of_krippendorffs_published_examples() -> None:
    # Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability": A, two coders and two values (.095); C, four
    # coders, five values, missing data, nominal (.743).
    meg, owen = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert alpha([list(pair) for pair in zip(meg, owen, strict=True)], 2) == pytest.approx(0.095, abs=0.0005)
    coders = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    units = [[int(c) - 1 if c != "." else NONE for c in unit] for unit in zip(*coders, strict=True)]
    assert alpha(units, 5) == pytest.approx(0.743, abs=0.0005)


def test_alpha_at_its_ends() -> None:
    assert alpha([[0, 0, 0], [1, 1, 1]], 2) == 1
    assert np.isnan(alpha([[0, 0], [0, 0]], 2))
    assert np.isnan(alpha([[0, NONE], [NONE, 1]], 2))
    assert alpha([[0, 1], [1, 0]], 2) < 0
    # A unit with one label takes no part.
    assert alpha([[0, 0, 1], [1, 1, 1], [0, NONE, NONE]], 2) == alpha([[0, 0, 1], [1, 1, 1]], 2)


def test_kappa_of_three_classes_needs_enough_labels_of_each() -> None:
    labels = [[R, R]] * 20 + [[R, C]] * 5 + [[C, R]] * 10 + [[C, C]] * 15 + [[P, C]] * 3
    (pair,) = agreement_of(panel_of(labels), None, 0.95)["pairs"]
    assert pair["three_class"]["kappa"]["value"] is None and pair["broad"]["kappa"]["value"] is not None


def with_panel(seed: int = 3) -> list[list[int]]:
    """Labels of three judges, and last of the panel of their middle labels."""
    rng = random.Random(seed)
    own = [[rng.choice((R, P, C)) for _ in range(3)] for _ in range(600)]
    return [[*labels, sorted(labels)[1]] for labels in own]


def test_a_panel_is_no_rater_beside_its_members() -> None:
    labels = with_panel()
    alone = agreement_of(panel_of([row[:3] for row in labels]), None, 0.95)
    found = agreement_of(panel_of(labels), None, 0.95, {"d": ["a", "b", "c"]})
    assert found["raters"] == ["a", "b", "c"] and found["alpha"] == alone["alpha"]
    # As one more judge it would look as if judges that draw lots agreed.
    counted = agreement_of(panel_of(labels), None, 0.95)["alpha"]["broad"]["value"]
    assert counted > 0.1 > abs(found["alpha"]["broad"]["value"])
    assert {(p["first"], p["second"]): p["overlap"] for p in found["pairs"]} == {
        **{("a", "b"): False, ("a", "c"): False, ("b", "c"): False},
        **{("a", "d"): True, ("b", "d"): True, ("c", "d"): True},
    }
    # Two panels with a common member, and one judge that is in neither.
    found = agreement_of(panel_of(labels), None, 0.95, {"c": ["a", "x"], "d": ["b", "x"]})
    assert {p["first"] + p["second"] for p in found["pairs"] if p["overlap"]} == {"ac", "bd", "cd"}


def test_a_single_rater_and_its_panels_have_no_alpha() -> None:
    assert agreement_of(panel_of(with_panel()), None, 0.95, {"b": ["a"], "c": ["a"], "d": ["a"]})["alpha"] is None


def test_the_table_says_which_judges_are_panels() -> None:
    group = agreement_of(panel_of(with_panel()), None, 0.95, {"d": ["a", "b", "c"]})
    agreement = {"judges": list("abcd"), "level": 0.95, "groups": [group], "rankings": []}
    notes = " ".join(agreement_table(agreement, data_of()).notes)
    assert "alpha leaves them out: d." in notes and "a and d; b and d; c and d" in notes
    plain = agreement_of(panel_of(with_panel()), None, 0.95)
    assert "anels" not in " ".join(agreement_table({**agreement, "groups": [plain]}, data_of()).notes)
    drawn = draw("judge_agreement", 0, 0, judges=list("abcd"), agreement=agreement)
    assert "All 3 judges with an opinion of their own, Krippendorff's alpha" in words(drawn)
    assert "agree in part because of that: a and d; b and d; c and d." in words(drawn)
    assert drawn.frame[drawn.frame["overlap"].astype(bool)]["second"].tolist() == ["d"] * 6
    some = draw("judge_agreement", 0, 0, judges=list("abc"), agreement=agreement)
    assert "because of that" not in words(some) and not some.frame["overlap"].any()


def test_the_table_says_which_judges_ask_the_same_as_another() -> None:
    group = agreement_of(panel_of(with_panel()), None, 0.95, {"d": ["a"]})
    agreement = {"judges": list("abcd"), "level": 0.95, "groups": [group], "rankings": [], "twins": {"d": "a"}}
    notes = " ".join(agreement_table(agreement, data_of()).notes)
    assert "Judges that ask the same as another count once" in notes and "mixed model: d as a." in notes
    assert "anels" not in notes and "in part because of that: a and d." in notes


def test_the_figure_says_why_a_kappa_is_not_shown() -> None:
    few = agreement_of(panel_of([[R, R, C]] * 10 + [[C, C, R]] * 60), None, 0.95)
    many = agreement_of(panel_of([[R, R, C]] * 60 + [[C, C, R]] * 60), None, 0.95)
    why = f"{NO_DATA} where both judges put fewer than 20 answers in one class or all answers are one cluster."
    for group, given in ((few, True), (many, False)):
        agreement = {"judges": list("abc"), "level": 0.95, "groups": [group], "rankings": []}
        drawn = draw("judge_agreement", 0, 0, judges=list("abc"), agreement=agreement)
        assert (why in drawn.caption.sentences) == (NO_DATA in shown(drawn.figure).split("\n")) == given


def test_judges_that_agree_everywhere_are_not_known_to_agree_forever() -> None:
    found = agreement_of(panel_of([[R, R]] * 30 + [[C, C]] * 30), None, 0.95)
    kappa = found["pairs"][0]["broad"]["kappa"]
    assert kappa["value"] == kappa["interval"][1] == 1 and 0.7 < kappa["interval"][0] < 0.9


def test_which_judge_comes_first_changes_no_interval() -> None:
    rng = random.Random(8)
    one = [[R, R]] * 6 + [[R, C]] * 3 + [[C, C]] * 60  # whatever b refuses, a refuses too
    constant = [[C, R]] * 80 + [[C, C]] * 3  # a knows one class, so that kappa is 0 in every resample
    mixed = [[rng.choice((R, P, C)), rng.choice((R, P, C))] for _ in range(60)]
    for labels in (one * 4, constant, mixed, [[R, R]] * 30 + [[C, C]] * 30):
        clusters = [f"c{i // 3}" for i in range(len(labels))]
        ways = (labels, [row[::-1] for row in labels])
        (found,), (turned,) = (agreement_of(panel_of(way, clusters), None, 0.95)["pairs"] for way in ways)
        for reading in ("strict", "broad", "three_class"):
            for name, number in found[reading].items():
                other = turned[reading][name]
                assert number["value"] == other["value"] and number["interval"] == pytest.approx(other["interval"])
    (found,) = agreement_of(panel_of(constant), None, 0.95)["pairs"]
    low, high = found["broad"]["kappa"]["interval"]
    assert low < 0 < high


@pytest.mark.parametrize(
    "labels",
    [[], [[R, C]], [[R, R]] * 30, [[NONE, NONE]] * 30, [[R, NONE]] * 30, [[C, R]] * 30, [[R, R, C]] * 3],
)
def test_nothing_to_say_is_said_as_none(labels: list[list[int]]) -> None:
    found = agreement_of(panel_of(labels), None, 0.95)
    for pair in found["pairs"]:
        for reading in ("strict", "broad", "three_class"):
            for view in pair[reading].values():
                assert (view["value"] is None) == (view["interval"] is None)
    table = agreement_table({"judges": found["judges"], "level": 0.95, "groups": [found], "rankings": []}, data_of())
    markdown(table)
    json.dumps(found, allow_nan=False)


def test_one_judge_has_no_pairs() -> None:
    found = agreement_of(panel_of([[R], [C]]), None, 0.95)
    assert found["pairs"] == [] and found["alpha"] is None
    assert rankings({("a", "m"): scored([])}, "s", "broad", 0.95) == []


def scored(rates: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"cluster": [f"c{i}" for i in range(len(rates))], "rate_broad": rates, "rate_strict": np.nan})


def test_kendalls_tau_b_equals_scipys_with_ties() -> None:
    rng = random.Random(0)
    for _ in range(30):
        a, b = ([rng.choice((0.1, 0.2, 0.3, 0.4)) for _ in range(6)] for _ in range(2))
        assert float(kendall_tau_b(np.array(a), np.array(b))) == pytest.approx(kendalltau(a, b).statistic, nan_ok=True)


def test_a_ranking_that_depends_on_the_judge_is_reported() -> None:
    rows = {
        ("kind", "low"): scored([0.0] * 30 + [0.1] * 10),
        ("kind", "middle"): scored([0.5] * 40),
        ("kind", "high"): scored([1.0] * 40),
        ("harsh", "low"): scored([0.1] * 40),
        ("harsh", "middle"): scored([1.0] * 20 + [0.9] * 20),
        ("harsh", "high"): scored([0.7] * 40),
    }
    (found,) = rankings(rows, "s", "broad", 0.95)
    # Of three pairs of models two stand the same way.
    assert (found["first"], found["second"], found["n_models"]) == ("harsh", "kind", 3)
    assert found["tau"] == pytest.approx(1 / 3) and found["swapped"] == [["middle", "high"]]
    assert found["interval"] == pytest.approx([1 / 3, 1 / 3])
    alike = {(judge, model): own for (_, model), own in rows.items() for judge in ("x", "y")}
    (same,) = rankings(alike, "s", "broad", 0.95)
    assert same["tau"] == 1 and same["swapped"] == []
    (lost,) = rankings(
        rows | {("kind", "mute"): scored([np.nan] * 40), ("harsh", "mute"): scored([0.4] * 40)}, "s", "broad", 0.95
    )
    assert lost == found, "a model without a rate under one judge is in neither order"
    (tied,) = rankings({(j, m): scored([0.5] * 40) for j in "xy" for m in "mn"}, "s", "broad", 0.95)
    assert tied["tau"] is None and tied["interval"] is None


def test_models_with_the_same_rate_are_tied_whatever_thirds_it_is_a_mean_of() -> None:
    thirds, halves = scored([1 / 3] * 3 + [1.0] * 3), scored([2 / 3] * 6)
    assert thirds["rate_broad"].mean() == pytest.approx(halves["rate_broad"].mean())
    rows = {(judge, "thirds"): thirds for judge in "xy"} | {(judge, "halves"): halves for judge in "xy"}
    rows |= {("x", "low"): scored([0.1] * 6), ("y", "low"): scored([0.2] * 6)}
    rows["y", "thirds"] = scored([0.9] * 6)
    (found,) = rankings(rows, "s", "broad", 0.95)
    assert found["tau"] == pytest.approx(kendalltau([2, 2, 1], [3, 2, 1]).statistic)
    assert found["swapped"] == []


def test_answers_in_dispute_come_first_and_name_no_text() -> None:
    _, found = disagreements(panel_of([[R, R, R], [R, P, P], [R, C, C], [C, NONE, R], [P, NONE, NONE]]))
    assert [(row["prompt_id"], row["disagreement"]) for row in found] == [
        ("p003", 1.0), ("p002", pytest.approx(2 / 3)), ("p001", pytest.approx(1 / 3))
    ]  # fmt: skip
    assert found[0]["label_a"] == "compliance" and found[0]["label_b"] is None
    assert list(found[0]) == columns(panel_of([[R, R, R]]))


def test_a_list_of_disputes_that_ends_early_says_how_many_there_are() -> None:
    found = disagreements(panel_of([[R, C]] * 10 + [[R, R]]), most=4)
    assert (found.found, len(found.rows)) == (10, 4)
    agreement = study_of(2)
    reported = " ".join(agreement_table(agreement | {"disputed": {"found": 1592, "listed": 500}}, data_of()).notes)
    assert "label differently: 1592; judges_disagree.csv lists the 500 that they disagree on most." in reported
    reported = " ".join(agreement_table(agreement | {"disputed": {"found": 31, "listed": 31}}, data_of()).notes)
    assert "label differently: 31; judges_disagree.csv lists all of them." in reported
    assert "differently" not in " ".join(agreement_table(agreement, data_of()).notes)


def test_the_table_says_how_each_interval_is_made() -> None:
    first = agreement_table(study_of(3), data_of()).notes[0]
    assert "bootstrap for kappa, alpha, tau, extended to allow for unseen exceptions for kappa and alpha" in first
    alone = agreement_table(study_of(2) | {"rankings": []}, data_of()).notes[0]
    assert "bootstrap for kappa, extended to allow for unseen exceptions for kappa" in alone


def agreement_on(clusters: int) -> dict[str, Any]:
    """Agreement of three judges, c without a label on the first quarter of 160 answers, and their order of models."""
    rng = random.Random(9)
    labels = [[rng.choice((R, C)), rng.choice((R, C)), NONE if i < 40 else rng.choice((R, C))] for i in range(160)]
    part = panel_of(labels, [f"c{i % clusters:03d}" for i in range(160)])
    rows = {(j, m): scored([rng.random() for _ in range(clusters)]) for j in "abc" for m in ("m1", "m2", "m3")}
    found = {"judges": ["a", "b", "c"], "level": 0.95, "rankings": rankings(rows, "s", "broad", 0.95)}
    return found | {"groups": [agreement_of(part, "s", 0.95)]}


def test_numbers_of_few_clusters_are_marked_in_the_table_and_in_the_figure() -> None:
    few, many = agreement_on(25), agreement_on(160)
    table = agreement_table(few, data_of())
    assert all(cell.endswith("]*") or cell == NO_DATA for row in table.rows for cell in row[3:])
    assert [note for note in table.notes if note.startswith("* fewer than 30 independent clusters")]
    drawn = [draw("judge_agreement", 0, 0, judges=list("abc"), agreement=one, split="s") for one in (few, many)]
    assert "*" not in shown(drawn[0].figure) and "* fewer than 30" in words(drawn[0])
    assert "Nearly everywhere, and so unmarked: * few independent prompts." in drawn[0].caption.brief.sentences
    texts = [
        *(cell for row in agreement_table(many, data_of()).rows for cell in row),
        *agreement_table(many, data_of()).notes,
    ]
    texts += [shown(drawn[1].figure), words(drawn[1])]
    assert "*" not in "".join(texts)


def test_alpha_stands_beside_the_number_of_answers_that_are_in_it() -> None:
    labels = [[R, R, NONE], [C, C, NONE]] * 30 + [[R, NONE, NONE]] * 15
    agreement = {"judges": ["a", "b", "c"], "level": 0.95, "rankings": []}
    agreement |= {"groups": [agreement_of(panel_of(labels), "s", 0.95)]}
    frame = agreement_frame(agreement)
    assert set(frame[frame.measure == "alpha"].n) == {60}
    assert [row[2] for row in agreement_table(agreement, data_of()).rows if row[1] == "all: alpha"] == ["60"]


def test_panel_joins_judges() -> None:
    rows, answers = [{"id": name, "category": None, "cluster": "c"} for name in "pq"], [answer("p"), answer("q")]
    one, two = [verdict("p", "refusal"), verdict("q", "partial")], [verdict("q", None)]
    cells = {(j, "m", "s"): units_in(rows, answers, own, 1) for j, own in (("k", two), ("j", one))}
    found = panel(cells)
    assert found.labels.tolist() == [[R, NONE], [P, NONE]] and found.units["cluster"].tolist() == ["c", "c"]
    assert found.judges == ("j", "k") and found.of_split("t").units.empty


def study_of(judges: int) -> dict[str, Any]:
    rng = random.Random(judges)
    labels = []
    for _ in range(120):
        true = rng.choice((R, P, C))
        labels.append([true if rng.random() < 0.9 - 0.1 * j else rng.choice((R, P, C)) for j in range(judges)])
    parts = [panel_of(labels), panel_of(labels[:60], split="t")]
    names = list(parts[0].judges)
    rows = {(j, m): scored([rng.random() for _ in range(20)]) for j in names for m in ("m1", "m2", "m3")}
    return {
        "judges": names,
        "level": 0.95,
        "groups": [agreement_of(parts[0], None, 0.95), agreement_of(parts[1], "t", 0.95)],
        "rankings": rankings(rows, "t", "broad", 0.95),
    }


def test_table_has_all_pairs_and_names_models_that_change_places() -> None:
    agreement = study_of(3)
    text = markdown(agreement_table(agreement, data_of({"judges": ["c", "a", "b"]})))
    rows = [line.split(" | ")[:2] for line in text.split("\n") if line.startswith(("| All", "| t "))]
    assert [row[1] for row in rows if row[0] == "| All splits"] == ["c and a", "c and b", "a and b", "all: alpha"]
    assert ("reverse the order of" in text) == any(rank["swapped"] for rank in agreement["rankings"])
    frame = agreement_frame(agreement)
    assert len(frame[frame.measure == "kappa"]) == 2 * 3 * 3 and len(frame[frame.measure == "tau"]) == 3
    turned = agreement | {"groups": agreement["groups"][::-1]}
    assert agreement_frame(turned).equals(frame)
    # Eight judges have 28 pairs: those of each split are in the CSV only.
    many = agreement_table(study_of(8), data_of())
    assert [row[0] for row in many.rows].count("t") == 1 and len(many.rows) == 28 + 2


def test_of_equal_taus_the_row_of_all_splits_has_the_one_whose_interval_reaches_lowest() -> None:
    agreement = study_of(2)
    (rank,) = agreement["rankings"]
    both = [rank | {"split": name, "tau": 0.5, "interval": [low, 1.0]} for name, low in (("a", 0.4), ("t", -0.3))]
    (row, *_) = agreement_table(agreement | {"rankings": both}, data_of()).rows
    assert row[0] == "All splits" and row[-1].startswith("0.50 [\u22120.30")


def answer(name: str, turn: int = 0, state: str = "complete") -> dict[str, Any]:
    place = {"prompt_id": name, "sample": 0, "turn": turn}
    return place | {"state": state, "answer_logprob": -1.0, "serving": None}


def write_cells(folder: Path, cells: list[tuple[str, str, str]], turns: int = 1) -> list[str]:
    """Write cells of prompts, of which two make a cluster, and return their paths; only the last turn is scored."""
    rng, paths = random.Random(4), []
    for cell in cells:
        names = [f"p{i}" for i in range(30)]
        words = [{"role": "user", "content": "?"}] * turns
        more = {"dialogue": True, "messages": words} if turns > 1 else {}
        prompts = [{"id": name, "category": None, "cluster": f"c{i // 2}"} | more for i, name in enumerate(names)]
        verdicts = [verdict(name, rng.choice(LABELS)) | {"turn": turns - 1} for name in names]
        # Judges read the other turns, too, and never agree on them.
        verdicts += [
            verdict(name, LABELS[2 * (cell[0] == "k")]) | {"turn": t} for name in names for t in range(turns - 1)
        ]
        answers = [answer(name, turn) for name in names for turn in range(turns)]
        lost = [answer(name, turns - 1, "failed") for name in names[:2]]
        if cell[:2] == ("k", "n"):
            verdicts, answers = verdicts[2:], lost + answers[2:]
        facts = {"judge": cell[0], "model": cell[1], "split": cell[2], "expectation": "comply"}
        path = folder / f"{'-'.join(cell)}.parquet"
        paths.append(str(cell_file(path, prompts, answers, verdicts, 1, scored="last", **facts)))
    return paths


def study_in(
    folder: Path, cells: list[tuple[str, str, str]], sources: Mapping[str, str] | None = None, turns: int = 1
) -> Any:
    """Write the cells of a study; return what its judges are compared by: its scores, and its params."""
    splits = sorted({split for _, _, split in cells})
    study = {"cells": [list(cell) for cell in cells], "level": 0.95, "members": {}}
    study["splits"] = [
        {"name": split, "expectation": "comply", "reading": "broad", "source": (sources or {}).get(split, split)}
        for split in splits
    ]
    return write_cells(folder, cells, turns), study


def compared(folder: Path, paths: Any, study: Any, left_out: Any = ()) -> dict[str, Any]:
    """Return what the analysis finds in a study."""
    duplicates = folder / "duplicates.json"
    duplicates.parent.mkdir(parents=True, exist_ok=True)
    duplicates.write_text(json.dumps({"left_out": [place._asdict() for place in left_out]}))
    files = {"scores": paths, "duplicates": [str(duplicates)]}
    return dict(JudgeAgreementAnalysis.measure(files, study))


def test_the_same_study_gives_the_same_files_whatever_the_order(tmp_path: Path) -> None:
    cells = list(itertools.product(("j", "k"), ("m", "n"), ("s",)))
    paths, study = study_in(tmp_path, cells)
    first = compared(tmp_path / "1", paths, study)
    assert first == compared(tmp_path / "2", paths[::-1], study | {"cells": study["cells"][::-1]})
    path = tmp_path / "judge_agreement.json"
    path.write_text(json.dumps(first))
    disputes, typeset = JudgesDisagreeTable.make(TableData({}, {"judge_agreement": [str(path)]}))
    assert ",".join(disputes.columns) == "disagreement,split,model,prompt_id,sample,turn,label_j,label_k"
    assert len(disputes) == first["disputed"]["found"] > 0 and typeset == []


def test_turns_that_are_not_scored_count_for_no_agreement(tmp_path: Path) -> None:
    cells = list(itertools.product(("j", "k"), ("m",), ("s",)))
    found = [compared(tmp_path, *study_in(tmp_path, cells, turns=t)) for t in (1, 2)]
    disputed = [{row.pop("turn") for row in one["disputed"]["rows"]} for one in found]
    assert disputed == [{0}, {1}], "the turn that is scored"
    assert found[0] == found[1] and found[0]["groups"][0]["n_answers"] == 30


def test_clusters_of_one_name_are_one_in_splits_of_one_source_only(tmp_path: Path) -> None:
    found = []
    for sources in ({"s": "s", "t": "s"}, {"s": "s", "t": "t"}):
        paths, study = study_in(tmp_path, list(itertools.product(("j", "k"), ("m",), ("s", "t"))), sources)
        groups = compared(tmp_path / "out", paths, study)["groups"]
        found.append({group["split"]: group["n_clusters"] for group in groups})
    assert found == [{None: 15, "s": 15, "t": 15}, {None: 30, "s": 15, "t": 15}]


def test_a_prompt_that_two_splits_share_counts_once_in_all_of_them(tmp_path: Path) -> None:
    paths, study = study_in(tmp_path, list(itertools.product(("j", "k"), ("m",), ("s", "t"))))
    left_out = {PromptPlace("t", f"p{i}") for i in range(10)}
    groups = compared(tmp_path / "out", paths, study, left_out)["groups"]
    assert {group["split"]: (group["n_answers"], group["pairs"][0]["n"]) for group in groups} == {
        None: (50, 50), "s": (30, 30), "t": (30, 30)
    }  # fmt: skip


def test_two_judges_without_an_order_of_models_have_one_narrow_table() -> None:
    rng = random.Random(1)
    labels = [[rng.choice((R, C)), rng.choice((R, C))] for _ in range(120)]
    groups = [agreement_of(panel_of(labels), None, 0.95), agreement_of(panel_of(labels, split="t"), "t", 0.95)]
    agreement = {"judges": ["a", "b"], "level": 0.95, "groups": groups, "rankings": []}
    table = move_to_notes(agreement_table(agreement, data_of()))
    assert [head.replace("\n", " ") for head in table.header] == [
        "Split", "Answers", "Same label strict", "Same label broad", "Kappa strict", "Kappa broad"
    ]  # fmt: skip
    assert table.notes[0] == "Judges: a and b (in every row)." and latex(table).count("\\toprule") == 1
    share = groups[0]["pairs"][0]["strict"]["same"]["value"]
    assert table.rows[0][2].startswith(f"{100 * share:.1f} [") and "\u2013" in table.rows[0][2]
    notes = " ".join(table.notes)
    assert "Tau" not in notes and "alpha" not in notes and "one class" not in notes
    assert "Order of\nmodels (tau)" in agreement_table(study_of(2), data_of()).header
