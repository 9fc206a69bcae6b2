"""The comparisons of a study: which it makes, how they are corrected, and what its table says."""

import csv
import json
import re

import make_analysis
import make_table
import pytest
from comparison_rows import write_scores
from config_project import validated
from scipy.stats import false_discovery_control
from table_rows import data_of

from refusal_eval.core.files import write_json
from refusal_eval.features.comparisons.comparisons_analysis import ComparisonsAnalysis
from refusal_eval.features.comparisons.comparisons_matrix_table import ComparisonsMatrixTable
from refusal_eval.features.comparisons.comparisons_table import (
    ComparisonsTable,
    comparisons_frame,
    comparisons_in,
)
from refusal_eval.features.comparisons.study_families import study_families
from refusal_eval.stats.comparisons.paired import Paired
from refusal_eval.stats.comparisons.study_comparisons import (
    compare_families,
    is_margin_open,
    paired_flags,
    tipping_point,
)
from refusal_eval.stats.estimates.estimate import estimate_of
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.study.comparison_families import Family, Scope, family_of
from refusal_eval.study.study import Study
from refusal_eval.workflow import tables_stage
from refusal_eval.workflow.whole_study import sources_of

SPLITS = {"safe": "comply", "mild": "comply", "harm": "refuse", "topic": "varies"}
NASTY = r"\input{x} & 50 % <b>_\alpha_</b> | #1 $y$ ~ ^"


def study_of(names=("plain", "stern", "mild-mannered"), splits=SPLITS, **changes):
    """Return a validated study of models with these names."""
    return Study(validated(names, splits, ["words", "reader"], **changes))


def family(**entry):
    """Return what a family of a study becomes."""
    return study_families(study_of(comparisons=[entry]))[0]


def scopes(found):
    return [scope.pool or scope.splits[0] for scope in found.scopes]


def test_a_study_that_says_nothing_compares_all_pairs_under_the_primary_judge():
    (found,) = study_families(study_of())
    assert found.kind == "models" and found.held == ("words",)
    assert found.pairs == (("mild-mannered", "plain"), ("mild-mannered", "stern"), ("plain", "stern"))
    assert scopes(found) == ["safe", "mild", "harm", "topic", "comply"]  # one expectation has two splits


@pytest.mark.parametrize("number", [1, 11])
def test_one_model_or_many_compare_nothing_until_the_study_says_what(number):
    asked = study_of(names=[f"m{i}" for i in range(number)])
    assert study_families(asked) == [] and not ComparisonsAnalysis(asked).wanted()


def test_an_empty_list_compares_nothing():
    assert study_families(study_of(comparisons=[])) == []


def test_against_and_pairs_are_the_other_minus_and_first_minus_second():
    assert family(against="plain").pairs == (("mild-mannered", "plain"), ("stern", "plain"))
    assert family(pairs=[["stern", "plain"]]).pairs == (("stern", "plain"),)
    assert family(pairs="all", models=["stern", "plain"]).pairs == (("plain", "stern"),)


def test_judges_are_compared_on_each_models_answers():
    found = family(judges="all", models=["stern", "plain"], splits=["harm"])
    assert found.kind == "judges" and found.held == ("plain", "stern") and found.pairs == (("reader", "words"),)
    assert found.cells() == {(j, m, "harm") for j in ("reader", "words") for m in ("plain", "stern")}


def test_what_is_pooled():
    assert scopes(family(pairs="all", scope="splits")) == list(SPLITS)
    assert scopes(family(pairs="all", scope="pooled")) == ["refuse", "comply", "varies"]
    assert scopes(family(pairs="all", splits=["safe", "harm"])) == ["safe", "harm"]
    assert family(pairs="all").scopes[-1].splits == ("mild", "safe")


def test_only_what_is_compared_is_an_input():
    asked = study_of(comparisons=[{"pairs": [["stern", "plain"]], "splits": ["harm"], "judge": "reader"}])
    scores = [f"{asked.paths.results}/scores/reader/{model}/harm.parquet" for model in ("plain", "stern")]
    assert ComparisonsAnalysis(asked).inputs() == {"scores": scores, "duplicates": []}
    assert ComparisonsAnalysis(study_of()).inputs()["duplicates"]  # it pools


def test_a_family_survives_being_written_as_params():
    for entry in ({"pairs": "all"}, {"judges": "all"}, {"against": "plain", "label": "L"}):
        assert family_of(json.loads(json.dumps(family(**entry).as_dict()))) == family(**entry)


# ---------------------------------------------------------------- the rule's script

REFUSES = {"plain": "cc", "stern": "rr", "mild-mannered": "rc"}


@pytest.fixture
def made(tmp_path):
    """Return a function that runs the script on a study with scores; what it returns is its folder."""

    def run(study=None, duplicates=(), letters=None, states=None):
        study, results = study or study_of(), tmp_path / "results" / "s"
        params = ComparisonsAnalysis(study).params()
        paths = {"scores": [], "duplicates": []}
        for judge, model, split in params["cells"]:
            text = (letters or REFUSES)[model] if judge == "words" else "pc"
            words = ["cr", *[text] * 7] if isinstance(text, str) else text
            rows = {f"{split}-{i}": word for i, word in enumerate(words)}
            path = results / "scores" / judge / model / f"{split}.parquet"
            state = (states or {}).get((judge, model, split), "complete")
            if state == "unread":
                rows, state = {name: f"{word[0]}?" for name, word in rows.items()}, "complete"
            write_scores(path, rows, state=state, judge=judge, model=model, split=split, max_tokens=9)
            paths["scores"].append(str(path))
        if ComparisonsAnalysis(study).inputs()["duplicates"]:
            write_json(tmp_path / "duplicates.json", {"pairs": list(duplicates)})
            paths["duplicates"] = [str(tmp_path / "duplicates.json")]
        found = results / "estimates" / "comparisons.json"
        make_analysis.main(ComparisonsAnalysis, paths, params, str(found))
        outputs = [str(results / "tables" / f"comparisons.{ending}") for ending in tables_stage.ENDINGS]
        asked = tables_stage.params(study, "comparisons")
        make_table.main(ComparisonsTable, asked, {"comparisons": [str(found)], "cards": []}, outputs)
        return results

    return run


def rows_of(results):
    with open(results / "tables" / "comparisons.csv", newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def test_the_csv_has_a_row_per_comparison_and_holm_over_all_of_them(made):
    rows = rows_of(made())
    assert len(rows) == 3 * 5
    row = next(r for r in rows if (r["first"], r["second"], r["split"]) == ("plain", "stern", "harm"))
    assert float(row["difference"]) == pytest.approx(-7 / 8) and row["reading"] == "strict"
    assert float(row["p"]) == pytest.approx(2 / 2**7) and row["n_differ"] == "7" and row["test"] == "exact"
    smallest = min(float(r["p"]) for r in rows)
    assert min(float(r["p_holm"]) for r in rows) == pytest.approx(15 * smallest, abs=1e-5)
    pooled = [r for r in rows if r["pool"] == "comply"]
    assert len(pooled) == 3 and {r["splits"] for r in pooled} == {"mild safe"} and {r["n"] for r in pooled} == {"16"}


def test_families_are_corrected_apart(made):
    families = [{"pairs": [["stern", "plain"]], "splits": ["harm"]}, {"pairs": "all", "splits": ["harm"]}]
    rows = rows_of(made(study_of(comparisons=families)))
    first = [r for r in rows if r["family"] == "chosen pairs of models"]
    assert len(first) == 1 and first[0]["p"] == first[0]["p_holm"] and len(rows) == 4
    (same,) = (r for r in rows if r["family"] != first[0]["family"] and {r["first"], r["second"]} == {"plain", "stern"})
    assert float(same["p_holm"]) > float(same["p"]), "of three comparisons"


def test_near_duplicates_count_once_in_a_pool_and_in_full_in_their_splits(made):
    pair = [{"split": "mild", "prompt_id": "mild-0"}, {"split": "safe", "prompt_id": "safe-0"}]
    rows = rows_of(made(duplicates=[pair]))
    assert {r["n"] for r in rows if r["pool"]} == {"15"} and {r["n"] for r in rows if not r["pool"]} == {"8"}


def test_a_split_of_near_duplicates_alone_is_not_in_its_pool(made):
    copies = [[{"split": split, "prompt_id": f"{split}-{i}"} for split in ("mild", "safe")] for i in range(8)]
    rows = rows_of(made(study_of(splits={"mild": "comply", "safe": "comply", "tame": "comply"}), duplicates=copies))
    row = next(r for r in rows if (r["first"], r["second"], r["pool"]) == ("plain", "stern", "comply"))
    assert float(row["difference"]) == float(row["bound_low"]) == float(row["bound_high"]) == -7 / 8
    assert row["n"] == "16" and float(row["p"]) == pytest.approx(2 / 2**14, abs=1e-6) and row["p_holm"]


def test_a_table_names_the_splits_that_each_pool_holds(made):
    copies = [[{"split": split, "prompt_id": f"{split}-{i}"} for split in ("mild", "safe")] for i in range(8)]
    families = [{"label": "wide", "pairs": [["stern", "plain"]]}]
    families += [{"label": "narrow", "pairs": [["stern", "plain"]], "splits": ["mild", "tame"]}]
    families += [{"label": "alone", "pairs": [["stern", "plain"]], "splits": ["mild", "safe"], "scope": "splits"}]
    splits = {"mild": "comply", "safe": "comply", "tame": "comply", "wild": "comply"}
    results = made(study_of(splits=splits, comparisons=families), duplicates=copies)
    notes = (results / "tables" / "comparisons.md").read_text("utf-8").replace("\n", " ")
    assert "all: comply (family “wide”): mild, tame, wild, each" in notes  # safe repeats mild
    assert "all: comply (family “narrow”): mild, tame, each" in notes
    assert {r["splits"] for r in rows_of(results) if r["pool"]} == {"mild safe tame wild", "mild tame"}
    alike = [family | {"splits": ["tame", "wild"]} for family in families[:2]]
    notes = (made(study_of(splits=splits, comparisons=alike)) / "tables" / "comparisons.md").read_text("utf-8")
    assert notes.count("all: comply: tame, wild, each") == 1


def test_a_table_says_how_few_prompts_of_a_split_weigh_as_much_as_the_others(made):
    assert "has only 8 prompts but the same weight as the others." in (made() / "tables" / "comparisons.md").read_text(
        "utf-8"
    )


def test_the_estimates_can_be_read_back_and_name_what_is_subtracted(made):
    results = made(study_of(comparisons=[{"pairs": [["stern", "plain"]], "splits": ["harm"]}, {"judges": "all"}]))
    found = [
        estimate_of(row) for row in json.loads((results / "estimates" / "comparisons.json").read_text())["estimates"]
    ]
    one = next(e for e in found if e.estimand == "rate_difference" and e.parameter == "minus plain")
    assert (one.model, one.judge, one.split, one.value) == ("stern", "words", "harm", pytest.approx(7 / 8))
    judges = [e for e in found if e.parameter == "minus judge words" and e.estimand == "rate_difference"]
    assert {(e.judge, e.model) for e in judges} == {("reader", m) for m in REFUSES} and len(judges) == 15


def test_differences_of_few_clusters_are_marked_in_the_estimates_and_in_the_table(made):
    results = made(study_of(comparisons=[{"pairs": [["stern", "plain"]]}]))
    rows = json.loads((results / "estimates" / "comparisons.json").read_text())["estimates"]
    assert {row["estimand"] for row in rows} == {*PARTS}
    assert all(row["flags"] == ["few_clusters"] for row in rows if row["estimand"] not in OF_ONE_SIDE)
    assert all(row["flags"] == [] for row in rows if row["estimand"] in OF_ONE_SIDE)
    text = (results / "tables" / "comparisons.md").read_text(encoding="utf-8")
    # All five differences have it, so that the note says it once.
    assert "\\]\\*" not in text and "\\* (in every cell, and so not printed) fewer than 30" in text


OF_ONE_SIDE = ("rate_difference_first", "rate_difference_second")
PARTS = (
    *OF_ONE_SIDE,
    *("rate_difference", "rate_difference_p", "rate_difference_p_holm", "rate_bounds"),
    *("rate_difference_tipping_point", "rate_difference_clusters", "odds_ratio", "cohens_h"),
    *("mcnemar_p", "mcnemar_first", "mcnemar_second"),
)


@pytest.mark.parametrize(("method", "column", "head"), [("fdr_bh", "q_bh", "q (BH)"), ("fdr_by", "q_by", "q (BY)")])
def test_a_false_discovery_rate_is_never_called_holms(made, method, column, head):
    results = made(study_of(multiple_comparisons=method))
    rows = rows_of(results)
    wanted = false_discovery_control([float(row["p"]) for row in rows], method=method.removeprefix("fdr_"))
    assert [float(row[column]) for row in rows] == pytest.approx(wanted.tolist(), abs=1e-5)
    text = (results / "tables" / "comparisons.md").read_text(encoding="utf-8")
    assert "p_holm" not in rows[0] and "Holm" not in text and head in text
    names = {
        row["estimand"] for row in json.loads((results / "estimates" / "comparisons.json").read_text())["estimates"]
    }
    assert f"rate_difference_{column}" in names and "rate_difference_p_holm" not in names


def test_mid_p_counts_half_of_what_is_as_extreme_and_says_so(made):
    results = made(study_of(p_values="mid"))
    row = next(r for r in rows_of(results) if (r["first"], r["second"], r["split"]) == ("plain", "stern", "harm"))
    assert float(row["p"]) == pytest.approx(1 / 2**7, abs=1e-6) and row["test"] == "mid-p"
    assert float(row["mcnemar_p"]) == pytest.approx(1 / 2**7, abs=1e-6)
    text = (results / "tables" / "comparisons.md").read_text(encoding="utf-8")
    assert "sign-flip test over clusters of prompts (mid-p)" in text


def test_a_margin_tests_either_side_in_the_direction_that_is_better(made):
    words = {"plain": "cc", "stern": "rr", "mild-mannered": "rc"}
    results = made(study_of(comparisons=[{"pairs": [["stern", "plain"]]}], equivalence_margin=0.9), letters=words)
    rows = {row["split"] or row["pool"]: row for row in rows_of(results)}
    harm, safe, topic = rows["harm"], rows["safe"], rows["topic"]
    assert harm["margin"] == "0.9" and float(harm["adjusted_difference"]) == pytest.approx(7 / 10)
    # stern refuses more: better where models should refuse, worse where they should comply
    assert float(harm["noninferior_first_p"]) < 0.01 < 0.1 < float(harm["noninferior_second_p"])
    assert safe["noninferior_first_p"] == harm["noninferior_second_p"]
    assert topic["noninferior_first_p"] == harm["noninferior_first_p"]
    assert harm["equivalence_p"] == harm["noninferior_second_p"]
    found = json.loads((results / "estimates" / "comparisons.json").read_text())["estimates"]
    sides = [e for e in found if e["estimand"] == "rate_difference_noninferiority_p" and e["split"] == "harm"]
    assert [(e["model"], e["parameter"]) for e in sides] == [("stern", "minus plain"), ("plain", "minus stern")]


def test_answers_that_nobody_judged_leave_equivalence_open(made):
    states = dict.fromkeys([("words", "stern", "harm"), ("words", "plain", "harm")], "unread")
    asked = study_of(comparisons=[{"pairs": [["stern", "plain"]]}], equivalence_margin=0.5)
    results = made(asked, states=states)
    found = json.loads((results / "estimates" / "comparisons.json").read_text())["estimates"]
    assert {e["split"] for e in found if "margin_open" in e["flags"]} == {"harm"}


def test_without_a_margin_nothing_is_tested_against_one(made):
    results = made()
    assert "margin" not in rows_of(results)[0] and "equivalence" not in (results / "tables/comparisons.md").read_text()
    names = {
        row["estimand"] for row in json.loads((results / "estimates" / "comparisons.json").read_text())["estimates"]
    }
    assert names == {*PARTS}


def test_differences_of_many_clusters_and_of_no_prompt_are_not_marked_as_of_few():
    def flags(difference, clusters, *cells):
        result = Paired(difference=difference, effective_clusters=clusters)
        return paired_flags(cells, [], result)["flags"]

    assert flags(0.1, 30) == [] and flags(0.1, 29) == ["few_clusters"] and flags(None, 0) == []
    assert flags(0.1, 30, ["few_clusters"]) == [] and flags(None, 0, ["unjudged"]) == ["unjudged"]


@pytest.mark.parametrize(
    ("difference", "bounds", "open_", "share"),
    [
        (0.2, (-0.1, 0.4), True, 0.2 / 0.3),  # two thirds of the unjudged answers against it
        (-0.2, (-0.5, 0.2), True, 0.5),
        (0.2, (0.05, 0.4), False, None),
        (0.2, (0.2, 0.2), False, None),
        (0.0, (-0.1, 0.1), False, None),
        (0.2, (3e-17, 0.4), True, 1.0),  # rounding decides nothing: the worst case is no difference
        (-0.2, (-0.4, -4.3e-19), True, 1.0),
        (-1e-17, (-0.1, 0.1), False, None),
        (0.2, (-1e-17, 2e-17), False, 1.0),
        (0.2, (0.2, 0.2 + 1e-17), False, None),
    ],
)
def test_a_difference_that_unjudged_answers_could_turn_around_says_how_many_it_takes(difference, bounds, open_, share):
    low, high = bounds
    flags = paired_flags(
        [[]], [[]], Paired(difference=difference, bound_low=low, bound_high=high, effective_clusters=40)
    )
    assert ("sign_open" in flags["flags"]) is open_
    found, _ = tipping_point(difference, low, high)
    assert found == (None if share is None else pytest.approx(share))


def test_bounds_that_reach_the_margin_are_open_whatever_rounding_says():
    assert is_margin_open(-0.05, 0.1 - 1e-17, 0.1) and is_margin_open(-0.3 + 0.2, 0.05, 0.1)
    assert is_margin_open(-0.05, 0.3 - 0.2, 0.1) and 0.3 - 0.2 < 0.1
    assert not is_margin_open(-0.05, 0.0999, 0.1) and not is_margin_open(0.3, 0.3 + 1e-16, 0.1)


def test_a_p_value_beside_bounds_that_hold_zero_is_marked(made):
    states = dict.fromkeys([("words", "stern", "harm"), ("words", "plain", "harm")], "unread")
    results = made(study_of(comparisons=[{"pairs": [["stern", "plain"]]}]), states=states)
    row = next(row for row in rows_of(results) if row["split"] == "harm")
    assert float(row["bound_low"]) <= 0 <= float(row["bound_high"]) and "sign_open" in row["flags"]
    text = (results / "tables" / "comparisons.md").read_text(encoding="utf-8")
    assert text.count("\u00b0 |") == 1 and "\u00b0 the worst-case bounds include 0" in text


def test_all_that_is_made_of_a_marked_cell_has_its_mark_and_the_table_says_whose_it_is(made):
    marked = {("words", "stern", "harm"): "unread", ("words", "plain", "harm"): "truncated"}
    results = made(study_of(comparisons=[{"pairs": [["stern", "plain"]]}]), states=marked)
    rows = json.loads((results / "estimates" / "comparisons.json").read_text())["estimates"]
    own = [row for row in rows if row["split"] == "harm"]
    assert {row["estimand"] for row in own} == {*PARTS}
    rates = {row["estimand"]: row["flags"] for row in own if row["estimand"] in OF_ONE_SIDE}
    assert rates == {"rate_difference_first": ["unjudged"], "rate_difference_second": ["truncated"]}
    of_both = [row for row in rows if row["estimand"] not in OF_ONE_SIDE]
    assert all(row["flags"] == ["unjudged", "truncated", "few_clusters"] for row in of_both if row["split"] == "harm")
    assert all(row["flags"] == ["few_clusters"] for row in of_both if row["split"] == "safe")
    (row,) = (row for row in rows_of(results) if row["split"] == "harm")
    assert row["flags"] == "unjudged truncated few_clusters"
    text = (results / "tables" / "comparisons.md").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("| harm |"))
    assert re.match(r"\| harm \| .*\]†‡", line), line
    assert "† more than 5 %" in text and "‡ more than 20 %" in text


def test_mcnemar_is_reported_as_what_it_is_and_not_where_something_is_pooled(made):
    rows = rows_of(made())
    row = next(r for r in rows if (r["first"], r["second"], r["split"]) == ("plain", "stern", "harm"))
    # The eighth prompt has one refusal of two under both: a tie is no decision.
    assert row["decision"] == "majority@2" and (row["only_first"], row["only_second"]) == ("0", "7")
    assert float(row["mcnemar_p"]) == pytest.approx(2 / 2**7)
    assert all(r["mcnemar_p"] == r["decision"] == "" for r in rows if r["pool"])


def test_mcnemars_p_is_a_number_of_the_results_table(made):
    rows = json.loads((made() / "estimates" / "comparisons.json").read_text())["estimates"]
    found = [estimate_of(row) for row in rows if row["estimand"] == "mcnemar_p"]
    # Of mild-mannered all answers are ties: it has no decision, and nothing to test.
    assert len(found) == 4 and all(e.split is not None and e.pool is None for e in found)
    one = next(e for e in found if (e.model, e.parameter, e.split) == ("plain", "minus stern", "harm"))
    assert one.value == pytest.approx(2 / 2**7) and one.n_prompts == 7 and one.method == "exact, of majority@2"


@pytest.mark.parametrize(("letters", "p"), [("??", ""), ("cc", "1")])
def test_mcnemar_tests_nothing_without_a_decision_and_is_one_where_none_differ(made, letters, p):
    rows = rows_of(made(letters=REFUSES | {"plain": "cc", "stern": letters}))
    row = next(r for r in rows if (r["first"], r["second"], r["split"]) == ("plain", "stern", "harm"))
    assert row["mcnemar_p"] == p and (row["decision"] != "") == (p != "")


def test_the_table_names_family_size_test_and_judge_and_no_label_becomes_markup(made):
    labelled = {"engine": "e", "sampling": {"max_tokens": 8}, "label": NASTY}
    models = {"plain": labelled | {"label": None}, "stern": labelled}
    families = [{"pairs": "all", "label": NASTY}]
    results = made(study_of(names=["plain", "stern"], model_entries=models, comparisons=families))
    text = (results / "tables" / "comparisons.md").read_text(encoding="utf-8")
    assert "corrected for the 5 comparisons of the family" in text and "sign-flip" in text and "exact" in text
    assert "agreement with people: not measured" in text and "<b>" not in text
    tex = (results / "tables" / "comparisons.tex").read_text(encoding="utf-8")
    assert r"\input{x}" not in tex and r"\textbackslash{}input" in tex
    assert "| 0.0" in text and "\u2212" in text


UNJUDGED = {  # a third model whose answers are not all judged
    **{name: [f"{'r' * (i * step % 6):c<5}" for i in range(10)] for name, step in (("plain", 2), ("stern", 3))},
    "mild-mannered": ["rrc??", *["rcccc"] * 9],
}


@pytest.mark.parametrize("letters", [REFUSES, UNJUDGED])
def test_a_new_model_leaves_the_numbers_of_the_others_as_they_were(made, letters):
    def numbers(names):
        study = study_of(names=names, equivalence_margin=0.1)
        rows = json.loads((made(study, letters=letters) / "estimates" / "comparisons.json").read_text())["estimates"]
        own = [row for row in rows if "mild-mannered" not in f"{row['model']} {row['parameter']}"]
        return [row for row in own if row["estimand"] != "rate_difference_p_holm"]

    assert numbers(list(REFUSES)) == numbers(["plain", "stern"])


def test_a_pool_of_different_headline_readings_is_compared_in_the_reading_headline(tmp_path):
    names = {"one": "strict", "two": "broad"}
    cells = {
        ("j", model, split): read_units(write_scores(tmp_path / f"{model}{split}", {f"{split}{i}": word for i in "ab"}))
        for model, word in (("m", "rp"), ("n", "cc"))
        for split in names
    }
    family_of_one = Family("f", "models", ("j",), (("m", "n"),), (Scope(("one", "two"), "comply"),))
    study = {"samples": 2, "level": 0.95, "margin": None, "p_values": "exact", "correction": "holm"}
    study["splits"] = [{"name": s, "expectation": "comply", "reading": r, "source": "x"} for s, r in names.items()]
    found = compare_families([family_of_one], cells, study, ())
    assert [e.value for e in found if e.estimand == "rate_difference"] == [0.75]
    assert {e.reading for e in found} == {"headline"}


def test_a_side_that_refuses_in_few_clusters_marks_effect_sizes_and_tests_against_the_margin_only(tmp_path):
    ids = [f"p{i:02d}" for i in range(80)]
    clusters = {name: f"c{i // 2}" for i, name in enumerate(ids)}
    words = {"m": ["rr"] * 18 + ["cc"] * 62, "n": ["rr", "cc"] * 40}
    cells = {
        ("j", model, "one"): read_units(write_scores(tmp_path / model, dict(zip(ids, own, strict=True)), clusters))
        for model, own in words.items()
    }
    family_of_one = Family("f", "models", ("j",), (("m", "n"),), (Scope(("one",), None),))
    study = {"samples": 2, "level": 0.95, "margin": 0.1, "p_values": "exact", "correction": "holm"}
    study["splits"] = [{"name": "one", "expectation": "comply", "reading": "strict", "source": "x"}]
    found = compare_families([family_of_one], cells, study, ())
    marked = {e.estimand for e in found if "few_clusters" in e.flags}
    assert marked == {
        "odds_ratio",
        "cohens_h",
        "rate_difference_adjusted",
        "rate_difference_equivalence_p",
        "rate_difference_noninferiority_p",
    }
    data = data_of({"correction": "holm", "margin": 0.1, "splits": study["splits"], "samples": 2, "level": 0.95})
    rows = comparisons_in(found, [family_of_one], data)
    (row,) = comparisons_frame(rows, [family_of_one], data).to_dict("records")
    assert (row["flags"], row["effect_flags"]) == ((), ("few_clusters",))


def test_clusters_of_one_name_are_told_apart_by_what_the_study_says_of_its_sources():
    assert sources_of(study_of()) == {name: name for name in SPLITS}
    assert sources_of(study_of(folders={"safe": "mild"})) == {s: "mild" if s == "safe" else s for s in SPLITS}


MANY = [f"m{i}" for i in range(8)]


def test_of_more_comparisons_than_a_page_holds_those_with_the_reference_model_are_shown(made):
    letters = {name: ("cc", "rc", "rr")[i % 3] for i, name in enumerate(MANY)}
    results = made(study_of(names=["m3", *(name for name in MANY if name != "m3")]), letters=letters)
    assert len(rows_of(results)) == 28 * 5
    text = (results / "tables" / "comparisons.md").read_text(encoding="utf-8")
    assert text.splitlines()[0] == "**Differences of refusal rates from m3 on the same prompts.**"
    assert "The reference model is m3; comparisons.csv has all pairs" in text
    shown = [line.split(" |")[0] for line in text.splitlines() if re.match(r"\| m\d \|", line)]
    assert shown == [f"| {name}" for name in MANY if name != "m3"] * 5
    # m0 complies and m3 does: none of their prompts differ. m1 refuses half of the time, m2 always.
    harm = text.split("| **harm** |")[1].splitlines()
    assert harm[2].startswith("| m1 | 43.8 \\[") and harm[3].startswith("| m2 | 87.5 \\[")
    tex = (results / "tables" / "comparisons.tex").read_text(encoding="utf-8")
    assert "longtable" not in tex and tex.count("\\begin{table") == 1


def test_a_family_against_a_model_names_the_reference_and_named_pairs_are_all_shown(made):
    letters = {name: ("cc", "rc", "rr")[i % 3] for i, name in enumerate(MANY)}
    families = [{"against": "m5"}, {"pairs": "all", "label": "every pair"}, {"pairs": [["m1", "m2"]]}]
    text = (made(study_of(names=MANY, comparisons=families), letters=letters) / "tables/comparisons.md").read_text()
    assert "less that of m5" in text and "The reference model is m5" in text
    assert text.count("| m1 \u2212 m2 |") == 5 and "| m3 \u2212 m2 |" not in text
    assert "**every pair: harm**" in text


def test_the_matrix_has_each_pair_of_models_once_and_pools_what_can_be_pooled(made):
    results = made()
    asked = tables_stage.params(study_of(), "comparisons_matrix")
    outputs = [str(results / "tables" / f"comparisons_matrix.{ending}") for ending in tables_stage.ENDINGS]
    found = {"comparisons": [str(results / "estimates" / "comparisons.json")]}
    make_table.main(ComparisonsMatrixTable, asked, found, outputs)
    text = (results / "tables" / "comparisons_matrix.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("| **")] == [
        "| **harm** | | |", "| **topic** | | |", "| **all: comply** | | |",
    ]  # fmt: skip
    rows = text.split("| **all: comply** | | |")[1].splitlines()[1:4]
    # All of 16 prompts but two: plain never refuses there, stern always, and mild-mannered half of the time.
    assert rows[0].startswith("| (1) plain | \u221287.5") and "\u221243.8" in rows[0]
    assert rows[1].startswith("| (2) stern |  | 43.8") and rows[2] == "| (3) mild-mannered |  |  |"
    with open(outputs[0], newline="", encoding="utf-8") as handle:
        assert len(list(csv.DictReader(handle))) == 3 * 3


@pytest.mark.parametrize(
    ("comparisons", "wanted"),
    [(None, True), ([{"against": "plain"}], False), ([{"judges": "all"}], False), ([{"pairs": "all"}], True)],
)
def test_a_study_that_compares_all_pairs_of_three_models_has_a_matrix(comparisons, wanted):
    changes = {} if comparisons is None else {"comparisons": comparisons}
    assert ("comparisons_matrix" in study_of(**changes).tables) is wanted
    assert "comparisons_matrix" not in study_of(names=["plain", "stern"]).tables
