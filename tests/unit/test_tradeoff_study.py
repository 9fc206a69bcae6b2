"""The trade-off of a whole study: what is in the JSON, the CSV and the tables, and how often code is asked for it."""

import json
from pathlib import Path
from typing import Any

import pytest
from config_project import WHOLE_STUDY, Project
from rate_rows import units_of

from refusal_eval.estimate import estimate_of
from refusal_eval.estimates.near_duplicates import Place
from refusal_eval.latex import latex
from refusal_eval.markup import csv_text, markdown
from refusal_eval.scores import HEADLINE_READING
from refusal_eval.tradeoff.study import study_trade_off
from refusal_eval.tradeoff.tables import tradeoff_frame, tradeoff_tables
from refusal_eval.workflow.tradeoff import TradeOff
from refusal_eval.workflow.whole_study import HEADLINE, source_of

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


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return study_trade_off(UNITS, STUDY, LANGUAGES)


def score(model: str, split: str, flags: Any = ()) -> dict[str, Any]:
    return {"judge": "j", "model": model, "split": split, "flags": list(flags), "mixed_serving": False}


def test_models_stand_where_their_rates_put_them(result: dict[str, Any]) -> None:
    careful, eager = result["models"]
    assert (careful["over_refusal"]["value"], careful["safety"]["value"]) == (0.5, 1.0)
    assert (eager["over_refusal"]["value"], eager["safety"]["value"]) == (0.0, 0.25)
    assert careful["on_front"] and eager["on_front"]


def test_pairs_topics_and_languages_are_there(result: dict[str, Any]) -> None:
    careful, eager = result["pairs"]
    assert careful["both_right"]["share"] == 0.5 == careful["refuses_both"]["share"] and careful["n_pairs"] == 12
    assert eager["answers_both"]["share"] == 0.75
    assert {(t["model"], t["topic"]): t["difference"]["value"] for t in result["topics"]} == {
        ("careful", "tax_law"): 1.0,
        ("careful", "<i>art"): -1.0,
        ("eager", "tax_law"): 0.0,
        ("eager", "<i>art"): 0.0,
    }
    assert [e["splits"] for e in result["languages"]] == [["touchy"], ["touchy"]]


def test_every_estimate_can_be_read_back_and_names_its_interval(result: dict[str, Any]) -> None:
    estimates = [estimate_of(row) for row in json.loads(json.dumps(result["estimates"]))]
    assert {e.estimand for e in estimates} >= {"youden_j", "pareto_front_share", "pairs_both_right", "topic_difference"}
    for estimate in estimates:
        assert (estimate.low is None) == (estimate.method is None) == (estimate.level is None)
        assert estimate.low is None or estimate.low <= estimate.value <= estimate.high
    keys = [(e.estimand, e.judge, e.model, e.split, e.pool, e.category, e.parameter, e.reading) for e in estimates]
    assert len(set(keys)) == len(keys)


def test_the_same_study_gives_the_same_bytes(result: dict[str, Any]) -> None:
    assert json.dumps(study_trade_off(dict(reversed(UNITS.items())), STUDY, LANGUAGES)) == json.dumps(result)


def test_a_near_duplicate_counts_once_where_splits_are_pooled() -> None:
    study = STUDY | {
        "splits": [*STUDY["splits"], {"name": "more", "expectation": "comply", "reading": "broad", "source": "more"}]
    }
    units = UNITS | {("j", m, "more"): units_of([2, 0, 0, 0], prefix="q") for m in STUDY["models"]}
    spoken = LANGUAGES | {"more": {}}
    twice = study_trade_off(units, study, spoken)["models"][0]["over_refusal"]["value"]
    once = study_trade_off(units, study, spoken, [Place("more", "q000")])["models"][0]["over_refusal"]["value"]
    assert (twice, once) == (0.375, 0.25)


def test_a_study_of_one_expectation_has_no_trade_off() -> None:
    study = STUDY | {"splits": [STUDY["splits"][2]], "twins": [], "related": [["touchy"]]}
    result = study_trade_off({c: u for c, u in UNITS.items() if c[2] == "touchy"}, study, LANGUAGES)
    assert result["models"] == [] and result["pairs"] == [] and len(result["topics"]) == 4


def test_tables_say_what_they_show_and_nothing_in_them_is_markup(result: dict[str, Any]) -> None:
    scores = [score(m, s, ["truncated"] if m == "eager" else ()) for _, m, s in UNITS]
    tables = tradeoff_tables(result, scores, [], STUDY)
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


def test_the_csv_has_a_row_for_every_number(result: dict[str, Any]) -> None:
    text = csv_text(tradeoff_frame(result))
    assert len(text.splitlines()) == 1 + len(result["estimates"]) + 4
    assert "j,eager,over_refusal,,,,0,0," in text


def test_each_rate_in_the_csv_has_the_number_of_its_own_prompts() -> None:
    units = UNITS | {("j", m, "safe"): units_of([1] * 8, clusters=PAIRS[:8]) for m in STUDY["models"]}
    frame = tradeoff_frame(study_trade_off(units, STUDY, LANGUAGES))
    rows = list(zip(frame["estimand"], frame["n_prompts"], strict=True))
    sizes = {name: {n for estimand, n in rows if estimand == name} for name in ("over_refusal", "safety", "youden_j")}
    assert sizes == {"over_refusal": {8}, "safety": {12}, "youden_j": {20}}


def test_one_model_has_nobody_to_beat_and_the_table_says_nothing_of_the_front() -> None:
    result = study_trade_off(UNITS, STUDY | {"models": ["careful"]}, LANGUAGES)
    table = tradeoff_tables(result, [], [], STUDY | {"models": ["careful"]})[0]
    assert list(table.header) == ["Model", "Over-refusal", "Safety", "Youden's J"] and len(table.rows[0]) == 4
    assert "front" not in " ".join(table.notes).lower()
    assert "pareto_front_share" not in {row["estimand"] for row in result["estimates"]}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path).load(WHOLE_STUDY)


def test_the_rule_asks_for_every_cell_and_knows_readings(config: Any) -> None:
    asked = TradeOff(config)
    study = asked.study(None)
    assert len(asked.rows(None)) == len(asked.scores(None)) == len(study["cells"])
    assert {split["name"] for split in study["splits"]} == set(config["splits"])
    assert all(split["reading"] in ("strict", "broad") for split in study["splits"])
    assert sorted(name for group in study["related"] for name in group) == sorted(config["splits"])


def test_readings_are_those_of_scores() -> None:
    assert HEADLINE == HEADLINE_READING


def test_splits_of_one_origin_are_known_by_it() -> None:
    url = "https://example.org/repo/abc/prompts.csv"
    assert source_of({"kind": "url", "url": url}) == source_of({"kind": "url", "url": url.replace("prompts", "more")})
    assert source_of({"kind": "hub", "repo": "a/b", "split": "x"}) == source_of(
        {"kind": "hub", "repo": "a/b", "file": "y"}
    )
    assert source_of({"kind": "hub", "repo": "a/b"}) != source_of({"kind": "hub", "repo": "a/c"})


def test_without_shares_of_resamples_the_table_and_the_estimate_say_why() -> None:
    units = {c: units_of([2, 0, 1] * 4, clusters=["one"] * 12) if c[2] == "safe" else u for c, u in UNITS.items()}
    result = study_trade_off(units, STUDY, LANGUAGES)
    shares = [row for row in result["estimates"] if row["estimand"] == "pareto_front_share"]
    why = "none (a split is one cluster, which no resample varies)"
    assert {(row["value"], row["method"]) for row in shares} == {(None, why)}
    text = markdown(tradeoff_tables(result, [score(m, s) for _, m, s in UNITS], [], STUDY)[0])
    assert "a split is one cluster, which no resample varies" in text
    whole = markdown(tradeoff_tables(study_trade_off(UNITS, STUDY, LANGUAGES), [], [], STUDY)[0])
    assert "no resample varies" not in whole


def test_clusters_of_splits_of_different_sources_are_no_pairs_and_do_not_move_together() -> None:
    splits = [split | {"source": split["name"]} for split in STUDY["splits"]]
    together = study_trade_off(UNITS, STUDY, LANGUAGES)
    apart = study_trade_off(UNITS, STUDY | {"splits": splits, "twins": []}, LANGUAGES)
    assert (together["models"][0]["n_clusters"], apart["models"][0]["n_clusters"]) == (12, 24)


def test_one_split_of_few_clusters_marks_what_is_made_of_both_kinds() -> None:
    safe = {("j", m, "safe"): units_of([2, 0] * 20, prefix="s") for m in STUDY["models"]}
    found = study_trade_off(UNITS | safe, STUDY, LANGUAGES)
    assert found["models"][0]["n_clusters"] == 52
    flags = [row["flags"] for row in found["estimates"] if row["estimand"] in ("youden_j", "pareto_front_share")]
    assert flags == [["few_clusters"]] * 4
