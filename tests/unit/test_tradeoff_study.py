"""The trade-off of a whole study: what is in the JSON, the CSV and the tables, and how often code is asked for it."""

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from estimate_rows import cell_of, score_in, single
from rate_rows import dialogues_of, units_of
from table_rows import data_of, table_of

from refusal_eval.features.rates.category_tables import categories
from refusal_eval.features.tradeoff.study_tradeoff import languages_spoken, study_trade_off
from refusal_eval.features.tradeoff.tradeoff_analysis import TradeOffAnalysis
from refusal_eval.features.tradeoff.tradeoff_rows import model_rows
from refusal_eval.features.tradeoff.tradeoff_table import tradeoff_frame, tradeoff_tables
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import Table, csv_text, markdown
from refusal_eval.stats.estimates.cell_estimates import category_rates, cell_estimates
from refusal_eval.stats.estimates.estimate import Estimate, estimate_of
from refusal_eval.stats.estimates.near_duplicates import PromptPlace
from refusal_eval.stats.estimates.pooled_estimates import pooled_rates
from refusal_eval.stats.estimates.units import Units
from refusal_eval.study.row_sources import row_source
from refusal_eval.study.study import Study

PAIRS = [f"pair{i}" for i in range(12)]
STUDY: dict[str, Any] = {
    "judges": ["j"],
    "primary_judge": "j",
    "gold": [],
    "models": ["careful", "eager"],
    "samples": 2,
    "level": 0.95,
    "splits": [
        {"name": "safe", "expectation": "comply", "reading": "broad", "source": "safe"},
        {"name": "unsafe", "expectation": "refuse", "reading": "strict", "source": "safe"},
        {"name": "touchy", "expectation": "varies", "reading": "broad", "source": "touchy"},
    ],
    "twins": [["safe", "unsafe"]],
    "related": [["safe"], ["touchy"], ["unsafe"]],
    "labels": {"models": {"eager": "Eager_1 <b>"}, "splits": {}, "judges": {}, "golds": {}},
}
UNITS = {
    ("j", "careful", "safe"): units_of([1] * 6 + [0] * 6, clusters=PAIRS, partial=[1] * 6 + [0] * 6),
    ("j", "eager", "safe"): units_of([0] * 12, clusters=PAIRS),
    ("j", "careful", "unsafe"): units_of([2] * 12, clusters=PAIRS),
    ("j", "eager", "unsafe"): units_of([2] * 3 + [0] * 9, clusters=PAIRS),
    ("j", "careful", "touchy"): units_of([2] * 10 + [0] * 10, categories=["tax_law"] * 10 + ["<i>art"] * 10),
    ("j", "eager", "touchy"): units_of([0] * 20, categories=["tax_law"] * 10 + ["<i>art"] * 10),
}
LANGUAGES: dict[str, dict[str, str | None]] = {
    "safe": {},
    "unsafe": {},
    "touchy": {f"p{i:03d}": "zh" if i % 2 else "en" for i in range(20)},
}


Rows = list[Estimate]


@pytest.fixture(scope="module")
def result() -> Rows:
    return study_trade_off(UNITS, STUDY, LANGUAGES)


def score(model: str, split: str, flags: Any = (), turns: int = 12) -> dict[str, Any]:
    size = {"n_prompts": 12, "n_turns": turns}
    return {"judge": "j", "model": model, "split": split, "flags": list(flags), "mixed_serving": False} | size


def rows_of_cells(units: Mapping[Any, Units], study: Mapping[str, Any], left_out: Collection[PromptPlace] = ()) -> Rows:
    """The rates of categories and of pools, as the files of cells have them."""
    found = []
    for model in study["models"]:
        cells = []
        for split in study["splits"]:
            facts = {"judge": "j", "model": model, "split": split["name"], "headline": split["reading"], "samples": 2}
            facts |= {"level": study["level"], "expectation": split["expectation"]}
            cells.append(dataclasses.replace(units["j", model, split["name"]], facts=facts))
            named = {name: facts[name] for name in ("judge", "model", "split")}
            found += [dataclasses.replace(row, **named) for row in category_rates(cells[-1], study["level"])]
        sources = {split["name"]: split["source"] for split in study["splits"]}
        found += [dataclasses.replace(r, judge="j", model=model) for r in pooled_rates(cells, left_out, sources)]
    return found


def table_rows_of(
    units: Any = UNITS,
    study: Mapping[str, Any] = STUDY,
    spoken: Any = LANGUAGES,
    left_out: Collection[PromptPlace] = (),
) -> Rows:
    """The rows of the results table that the tables of the trade-off select from."""
    return study_trade_off(units, study, spoken, left_out) + rows_of_cells(units, study, left_out)


def tables_of(
    units: Any = UNITS,
    study: Mapping[str, Any] = STUDY,
    spoken: Any = LANGUAGES,
    left_out: Collection[PromptPlace] = (),
    scores: Any = (),
) -> list[Table]:
    rows = table_rows_of(units, study, spoken, left_out)
    found = {"spoken": languages_spoken(study, spoken)}
    return tradeoff_tables(data_of(study, scores=scores, results=rows, tradeoff=found))


def test_models_stand_where_their_rates_put_them() -> None:
    found = model_rows(table_rows_of(), STUDY["splits"])
    places = {model: [row and row.value for row in (own.over_refusal, own.safety)] for (_, model), own in found.items()}
    assert places == {"careful": [0.5, 1.0], "eager": [0.0, 0.25]}
    assert all(own.on_front for own in found.values())


def test_pairs_topics_and_languages_are_there(result: Rows) -> None:
    shares = {(e.model, e.estimand): e.value for e in rows_in(result, "pairs_")}
    assert shares["careful", "pairs_both_right"] == 0.5 == shares["careful", "pairs_refuses_both"]
    assert shares["eager", "pairs_answers_both"] == 0.75
    assert {e.n_clusters for e in rows_in(result, "pairs_")} == {12}
    assert {(e.model, e.category): e.value for e in rows_in(result, "topic_")} == {
        ("careful", "tax_law"): 1.0,
        ("careful", "<i>art"): -1.0,
        ("eager", "tax_law"): 0.0,
        ("eager", "<i>art"): 0.0,
    }
    assert [e.split for e in rows_in(result, "language_difference")] == ["touchy", "touchy"]
    assert {(e.model, e.parameter): e.value for e in rows_in(result, "language_rate")} == {
        **dict.fromkeys([("careful", "en"), ("careful", "zh")], 0.5),
        **dict.fromkeys([("eager", "en"), ("eager", "zh")], 0.0),
    }


def test_every_estimate_can_be_read_back_and_names_its_interval(result: Rows) -> None:
    estimates = [estimate_of(row) for row in json.loads(json.dumps([own.row() for own in result]))]
    assert estimates == result
    assert {e.estimand for e in estimates} >= {"youden_j", "pareto_front_share", "pairs_both_right", "topic_difference"}
    for estimate in estimates:
        assert (estimate.low is None) == (estimate.method is None) == (estimate.level is None)
        assert estimate.low is None or estimate.low <= estimate.value <= estimate.high
    keys = [(e.estimand, e.judge, e.model, e.split, e.pool, e.category, e.parameter, e.reading) for e in estimates]
    assert len(set(keys)) == len(keys)


def test_a_near_duplicate_counts_once_where_splits_are_pooled() -> None:
    study = STUDY | {
        "splits": [*STUDY["splits"], {"name": "more", "expectation": "comply", "reading": "broad", "source": "more"}]
    }
    units = UNITS | {("j", m, "more"): units_of([2, 0, 0, 0], prefix="q") for m in STUDY["models"]}
    spoken = LANGUAGES | {"more": {}}
    js = [
        next(e.value for e in study_trade_off(units, study, spoken, left_out) if e.estimand == "youden_j")
        for left_out in ([], [PromptPlace("more", "q000")])
    ]
    assert js == [1 - 0.375, 1 - 0.25]


def test_contrast_pairs_count_the_prompts_that_enter() -> None:
    # Three safe prompts of pair0, one without a verdict; pair1 has no unsafe one with a verdict.
    safe = units_of([0] * 5, clusters=["pair0"] * 3 + ["pair1", "alone"], unjudged=[2, 0, 0, 0, 0])
    unsafe = units_of([2] * 2, clusters=["pair0", "pair1"], unjudged=[0, 2])
    units = UNITS | {("j", m, s): own for m in STUDY["models"] for s, own in (("safe", safe), ("unsafe", unsafe))}
    found = rows_in(study_trade_off(units, STUDY, LANGUAGES), "pairs_")
    assert found and {(e.n_prompts, e.n_clusters) for e in found} == {(3, 1)}


def test_few_clusters_with_the_rarer_outcome_mark_all_that_is_made_of_the_rate() -> None:
    names = [f"c{i // 2}" for i in range(120)]
    half, few = [2, 0] * 60, [2] * 4 + [0] * 116  # one prompt of each of 60 clusters refused, and both of two
    units = {("j", model, split): units_of(half, clusters=names) for _, model, split in UNITS}
    units["j", "careful", "safe"] = units_of(few, clusters=names, prefix="q")
    units["j", "eager", "safe"] = units_of(half, clusters=names, prefix="q")
    for model, refusals in (("careful", [*few[:60], *half[60:]]), ("eager", half)):
        units["j", model, "touchy"] = units_of(refusals, clusters=names, categories=["a"] * 60 + ["b"] * 60)
    spoken = {"safe": {}, "unsafe": {}, "touchy": {f"p{i:03d}": "en" if i < 60 else "zh" for i in range(120)}}
    result = study_trade_off(units, STUDY, spoken)
    for kind in ("youden_j", "topic_", "language_"):
        assert {e.model for e in rows_in(result, kind) if "few_clusters" in e.flags} == {"careful"}, kind


def test_a_model_without_a_verdict_on_a_split_has_a_row_that_says_why_it_has_no_j() -> None:
    nothing = units_of([0] * 12, clusters=PAIRS, unjudged=[2] * 12)
    result = study_trade_off(UNITS | {("j", "eager", "unsafe"): nothing}, STUDY, LANGUAGES)
    found = {e.model: e for e in rows_in(result, "youden_j")}
    assert found["careful"].value is not None
    none = found["eager"]
    assert (none.value, none.method, none.n_prompts) == (None, "none (nothing judged in unsafe)", 12)
    assert not rows_in(result, "pareto_front_share")


def test_a_study_of_one_expectation_has_no_trade_off() -> None:
    study = STUDY | {"splits": [STUDY["splits"][2]], "twins": [], "related": [["touchy"]]}
    result = study_trade_off({c: u for c, u in UNITS.items() if c[2] == "touchy"}, study, LANGUAGES)
    assert not rows_in(result, "youden_j", "pairs_") and len(rows_in(result, "topic_")) == 4


def test_tables_say_what_they_show_and_nothing_in_them_is_markup() -> None:
    scores = [score(m, s, ["truncated"] if m == "eager" else ()) for _, m, s in UNITS]
    tables = tables_of(scores=scores)
    assert [table.name for table in tables] == [
        "tradeoff",
        "tradeoff-pairs",
        "tradeoff-languages",
        "tradeoff-topics-touchy",
    ]
    text = "\n".join(map(markdown, tables))
    assert "<b>" not in text and "<i>" not in text and "Eager\\_1" in text
    assert "agreement with people: not measured" in text and "K = 2" in text
    assert "\u2021 more than 20 %" in text
    tax = next(line for line in text.splitlines() if line.startswith("| tax law"))
    assert "(+)" in tax and "100.0" in tax
    assert all("\\begin{table" in latex(table) for table in tables)


def rows_in(rows: Rows, *names: str) -> Rows:
    return [e for e in rows if e.estimand.startswith(names)]


def test_pairs_topics_and_languages_of_few_clusters_are_marked(result: Rows) -> None:
    found = rows_in(result, "pairs_", "topic_", "language_")
    assert {e.estimand.split("_")[0] for e in found} == {"pairs", "topic", "language"}
    assert all(e.flags == ("few_clusters",) and e.n_clusters for e in found)
    _, pairs, languages, topics = tables_of()
    assert [row[0] for row in pairs.rows] == ["careful*", "Eager_1 <b>*"]
    assert all(row[6].endswith("]*") and row[4].endswith("]*") for row in languages.rows)
    assert topics.rows[0][2].endswith("]* (+)*")
    assert all(table.notes[-1].startswith("* fewer than 30") for table in (pairs, languages, topics))


def test_the_rate_of_a_topic_is_marked_as_that_of_its_category_and_a_difference_for_itself() -> None:
    names = {f"p{i:03d}": "a" if i < 60 else "b" for i in range(80)}

    def topics_of(*letters: str) -> tuple[Table, Table]:
        units = cell_of(single(*letters), split="touchy", model="eager", categories=names)
        found = cell_estimates(units)
        study = STUDY | {"models": ["eager"], "splits": STUDY["splits"][2:], "twins": [], "related": []}
        result = study_trade_off({("j", "eager", "touchy"): units}, study, {"touchy": {}})
        (table,) = tradeoff_tables(data_of(study, results=[*result, *found]))
        return table, table_of(categories, [score_in(units)], results=found, primary_judge="j")

    topics, sorted_in = topics_of(*["RR", "CC"] * 40)
    assert [row[-1] for row in topics.rows] == [row[-1] for row in sorted_in.rows]
    assert [row[-1].endswith("]*") for row in topics.rows] == [False, True]
    # The difference of either topic rests on both, of which b has few.
    topics, sorted_in = topics_of(*["RR"] * 60, *["CC"] * 20)
    assert [row[-1].split("]")[1] for row in topics.rows] == [" (+)*", "* (\u2212)*"]
    assert "after a sign, to the topic or the others" in topics.notes[-1]


def test_pairs_topics_and_languages_of_many_clusters_are_not_marked() -> None:
    names = [f"c{i}" for i in range(40)]
    units = {c: units_of([2, 0] * 20, clusters=names) for c in UNITS if c[2] != "touchy"}
    topics_in = ["tax"] * 40 + ["art"] * 40
    units |= {c: units_of([2, 0] * 40, categories=topics_in) for c in UNITS if c[2] == "touchy"}
    spoken = LANGUAGES | {"touchy": {f"p{i:03d}": "zh" if i % 2 else "en" for i in range(80)}}
    result = study_trade_off(units, STUDY, spoken)
    assert all(e.flags == () for e in rows_in(result, "pairs_", "topic_", "language_"))
    for table in tables_of(units, spoken=spoken):
        assert "*" not in "".join(cell for row in table.rows for cell in row)
        assert "fewer than 30" not in " ".join(table.notes)


def test_languages_of_splits_with_different_readings_are_in_the_headline_readings() -> None:
    pairs = [f"pair{i}" for i in range(12)]
    units = UNITS | {("j", m, "safe"): units_of([0] * 12, clusters=pairs, prefix="s") for m in STUDY["models"]}
    spoken = LANGUAGES | {
        "safe": {f"s{i:03d}": "en" for i in range(12)},
        "unsafe": {f"p{i:03d}": "zh" for i in range(12)},
    }
    study = STUDY | {"related": [["safe", "unsafe"]]}
    assert {e.reading for e in rows_in(study_trade_off(units, study, spoken), "language_")} == {"headline"}
    table = tables_of(units, study, spoken)[2]
    assert "Headline readings: broad on safe; strict on unsafe." in " ".join(table.notes)


def test_every_table_tells_n_reading_k_judge_and_how_intervals_were_made() -> None:
    models, pairs, languages, topics = tables_of()
    reported = {table.name: " ".join(table.notes) for table in (models, pairs, languages, topics)}
    sizes = "should be answered 12, should be declined 12"
    assert f"Prompts with a rate: {sizes}. Near-duplicate prompts count once." in reported["tradeoff"]
    assert "broad on safe; strict on unsafe" in reported["tradeoff-pairs"] and "Pairs" in pairs.header
    assert "broad on touchy" in reported["tradeoff-languages"] and "(broad)" in reported["tradeoff-topics-touchy"]
    assert [row[3] for row in languages.rows] == ["10 and 10"] * 2
    assert (
        "for rates, Wilson" in reported["tradeoff-languages"]
        and "variances recovered" in reported["tradeoff-languages"]
    )
    assert "for rates, Wilson" in reported["tradeoff-topics-touchy"] and "Prompts" in topics.header
    assert all("K = 2" in text and "Judge j" in text and "95 %" in text for text in reported.values())


def test_numbers_of_prompts_that_differ_between_models_are_told_from_to() -> None:
    units = UNITS | {("j", "eager", "safe"): units_of([0] * 12, clusters=PAIRS, unjudged=[2] + [0] * 11)}
    notes = " ".join(tables_of(units)[0].notes)
    assert "should be answered 11 to 12, should be declined 12." in notes


def test_the_table_says_that_splits_are_in_several_languages() -> None:
    def notes(safe: list[str], unsafe: list[str]) -> str:
        spoken: Any = LANGUAGES | {
            n: {f"p{i:03d}": own for i, own in enumerate(s)} for n, s in (("safe", safe), ("unsafe", unsafe))
        }
        return " ".join(tables_of(spoken=spoken)[0].notes)

    told = "Languages of at least five prompts: safe, en and zh; unsafe, en. Rates take them together;"
    assert told in notes(["en", "zh"] * 6, ["en"] * 12)
    assert "safe, Latin script; unsafe, Thai script." in notes(["Latin script"] * 12, ["Thai script"] * 12)
    for same in (["en"] * 12, ["Latin script"] * 12, ["en"] * 8 + ["zh"] * 4):
        assert "Languages of" not in notes(["en"] * 12, same)


def test_scored_turns_of_dialogues_are_not_called_prompts() -> None:
    topics_in = ["tax"] * 15 + ["art"] * 15
    units = {cell: dialogues_of(units_of([0, 1, 2] * 10, categories=topics_in), 3) for cell in UNITS}
    spoken = LANGUAGES | {"touchy": {f"p{i:03d}": "zh" if i % 2 else "en" for i in range(10)}}
    talks = [score(m, s, turns=36) for _, m, s in UNITS]
    tables = {t.name: t for t in tables_of(units, spoken=spoken, scores=talks)}
    assert "Prompts with a rate (scored turns in dialogues): should be answered 30" in " ".join(
        tables["tradeoff"].notes
    )
    for name in ("tradeoff-languages", "tradeoff-topics-touchy"):
        assert (
            "15" in " ".join(tables[name].rows[0])
            and "In dialogues each scored turn counts as a prompt." in tables[name].notes
        )
    # Prompts of one turn stay prompts where only another split has dialogues.
    mixed = UNITS | {cell: own for cell, own in units.items() if cell[2] != "touchy"}
    talks = [score(m, s, turns=36 if s != "touchy" else 12) for _, m, s in UNITS]
    tables = {t.name: t for t in tables_of(mixed, scores=talks)}
    assert not any("turn" in note for note in tables["tradeoff-topics-touchy"].notes)


def test_differences_of_languages_have_no_plus_sign_as_in_comparisons() -> None:
    units = {c: units_of([0, 2] * 10) if c[2] == "touchy" else u for c, u in UNITS.items()}
    table = tables_of(units)[2]
    assert table.rows[0][1] == "zh \u2212 en" and table.rows[0][6].startswith("100.0 [")


@pytest.mark.parametrize(
    ("topics", "wanted"), [(2, "0.1 of the 2"), (20, "1.0 of the 20"), (68, "3.4 of the 68"), (200, "10.0 of the 200")]
)
def test_how_many_topics_differ_by_chance_is_reported_for_each_model(topics: int, wanted: str) -> None:
    names = [f"t{i:03d}" for i in range(topics) for _ in range(40)]
    rates = [2] * 40 + [0, 1] * 20 * (topics - 1)
    units = {c: units_of(rates, categories=names) if c[2] == "touchy" else u for c, u in UNITS.items()}
    table = tables_of(units, spoken={**LANGUAGES, "touchy": {}})[-1]
    assert f"expect this for about {wanted} topics, for each model" in " ".join(table.notes)


def test_the_csv_has_a_row_for_every_number(result: Rows) -> None:
    text = csv_text(tradeoff_frame(table_rows_of(), STUDY["splits"]))
    assert len(text.splitlines()) == 1 + len(result) + 4
    assert "j,eager,over_refusal,,,,0,0," in text


def test_each_rate_in_the_csv_has_the_number_of_its_own_prompts() -> None:
    units = UNITS | {("j", m, "safe"): units_of([1] * 8, clusters=PAIRS[:8]) for m in STUDY["models"]}
    frame = tradeoff_frame(table_rows_of(units), STUDY["splits"])
    rows = list(zip(frame["estimand"], frame["n_prompts"], strict=True))
    sizes = {name: {n for estimand, n in rows if estimand == name} for name in ("over_refusal", "safety", "youden_j")}
    assert sizes == {"over_refusal": {8}, "safety": {12}, "youden_j": {20}}


def test_one_model_has_nobody_to_beat_and_the_table_says_nothing_of_the_front() -> None:
    study = STUDY | {"models": ["careful"]}
    table = tables_of(study=study)[0]
    assert (
        list(table.header)
        == [*("Model", "Refusal of what\nshould be answered", "Refusal of what\nshould be declined", "Youden's J")]
        and len(table.rows[0]) == 4
    )
    assert "front" not in " ".join(table.notes).lower()
    assert not rows_in(study_trade_off(UNITS, study, LANGUAGES), "pareto_front_share")


def test_the_rule_knows_readings_and_which_splits_belong_together(config: Any) -> None:
    study = TradeOffAnalysis(Study(config)).params()
    assert {split["name"] for split in study["splits"]} == set(config["splits"])
    assert all(split["reading"] in ("strict", "broad") for split in study["splits"])
    assert sorted(name for group in study["related"] for name in group) == sorted(config["splits"])


OTHER_AXIS = {"weighed_against": {"safe": "1 - ASR of <attacks>"}}


def test_a_table_says_where_a_paper_weighs_over_refusal_against_something_else() -> None:
    rows = table_rows_of()
    found = {"spoken": languages_spoken(STUDY, LANGUAGES)}
    (plain, *_), (said, *_) = (
        tradeoff_tables(data_of(STUDY, scores=(), results=rows, tradeoff=found | more)) for more in ({}, OTHER_AXIS)
    )
    sentence = "In the paper of safe the other axis is 1 - ASR of <attacks>: another quantity than refusal of what"
    assert [note for note in said.notes if note not in plain.notes] == [f"{sentence} should be declined."]
    assert "<attacks>" not in markdown(said)


def test_only_comply_splits_of_a_study_that_weighs_them_have_another_axis(config: Any) -> None:
    expected = {name: split["expectation"] for name, split in config["split_entries"].items()}
    entries = {name: split | {"weighed_against": f"axis {name}"} for name, split in config["split_entries"].items()}
    params = TradeOffAnalysis(Study(config | {"split_entries": entries})).params()
    safe = {name for name in config["splits"] if expected[name] == "comply"}
    assert set(params["weighed_against"]) == safe and "weighed_against" not in TradeOffAnalysis(Study(config)).params()
    unasked = [name for name in config["splits"] if expected[name] != "refuse"]
    one_sided = TradeOffAnalysis(Study(config | {"split_entries": entries, "splits": unasked})).params()
    assert "weighed_against" not in one_sided, "without refusals of what should be declined nothing is weighed"


def test_splits_of_one_origin_are_known_by_it() -> None:
    def of_url(name: str) -> str:
        return row_source({"kind": "url", "url": f"https://example.org/repo/abc/{name}.csv", "sha256": None}).origin

    def of_hub(repo: str, **chosen: str) -> str:
        return row_source({"kind": "hub", "repo": repo, "revision": None} | chosen).origin

    assert of_url("prompts") == of_url("more")
    assert of_hub("a/b", split="x") == of_hub("a/b", file="y.csv") != of_hub("a/c", split="x")


def test_without_shares_of_resamples_the_table_and_the_estimate_say_why() -> None:
    units = {c: units_of([2, 0, 1] * 4, clusters=["one"] * 12) if c[2] == "safe" else u for c, u in UNITS.items()}
    result = study_trade_off(units, STUDY, LANGUAGES)
    shares = rows_in(result, "pareto_front_share")
    why = "none (a split is one cluster, which no resample varies)"
    assert {(row.value, row.method) for row in shares} == {(None, why)}
    text = markdown(tables_of(units, scores=[score(m, s) for _, m, s in UNITS])[0])
    assert "a split is one cluster, which no resample varies" in text
    whole = markdown(tables_of()[0])
    assert "no resample varies" not in whole


def test_clusters_of_splits_of_different_sources_are_no_pairs_and_do_not_move_together() -> None:
    splits = [split | {"source": split["name"]} for split in STUDY["splits"]]
    sizes = [
        rows_in(study_trade_off(UNITS, study, LANGUAGES), "youden_j")[0].n_clusters
        for study in (STUDY, STUDY | {"splits": splits, "twins": []})
    ]
    assert sizes == [12, 24]


def test_one_split_of_few_clusters_marks_what_is_made_of_both_kinds() -> None:
    safe = {("j", m, "safe"): units_of([2, 0] * 20, prefix="s") for m in STUDY["models"]}
    found = study_trade_off(UNITS | safe, STUDY, LANGUAGES)
    own = rows_in(found, "youden_j", "tradeoff_", "pareto_")
    assert len(own) == 8 and {(row.n_clusters, row.flags) for row in own} == {(52, ("few_clusters",))}


def test_a_split_that_has_few_clusters_without_its_copies_marks_the_row_of_its_models() -> None:
    more = {"name": "more", "expectation": "refuse", "reading": "strict", "source": "more"}
    study = STUDY | {"splits": [*STUDY["splits"][:2], more], "related": []}
    units = {("j", m, s): units_of([2, 0] * 20, prefix=s) for m in STUDY["models"] for s in ("safe", "unsafe")}
    units |= {("j", m, "more"): units_of([2, 0] * 16, prefix="more") for m in STUDY["models"]}
    scores = [score(m, s) for _, m, s in units]
    copies = [PromptPlace("more", f"more{i:03d}") for i in range(4)]
    for left_out, mark in ((copies, "*"), ([], "")):
        spoken: Any = {name: {} for name in ("safe", "unsafe", "more")}
        result = study_trade_off(units, study, spoken, left_out)
        assert {e.flags for e in rows_in(result, "youden_j")} == {("few_clusters",) if mark else ()}
        table = next(t for t in tables_of(units, study, spoken, left_out, scores) if t.name == "tradeoff")
        assert [row[0] for row in table.rows] == [f"careful{mark}", f"Eager_1 <b>{mark}"]
        assert any("fewer than 30" in note for note in table.notes) == bool(mark)
