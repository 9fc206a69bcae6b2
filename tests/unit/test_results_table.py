"""The results table: what becomes a row, that each number stands in it once, and that its bytes never change."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from judge_rows import soft_gold
from test_tables import cards, score, study

from refusal_eval.agreement import judge_card
from refusal_eval.comparisons import computed
from refusal_eval.errors import UserError
from refusal_eval.estimate import Estimate
from refusal_eval.estimates.cells import BANDS, BY_TURN
from refusal_eval.estimates.variance import PARTS
from refusal_eval.paper_tables import best
from refusal_eval.results_table.collect import Result, collected, rounded
from refusal_eval.results_table.columns import COLUMNS
from refusal_eval.results_table.definitions import DEFINITIONS, definition_of
from refusal_eval.results_table.dictionary import dictionary, undescribed
from refusal_eval.results_table.files import read_results, results_csv, results_parquet, table_rows
from refusal_eval.results_table.from_scores import card_estimates, score_estimates
from refusal_eval.tradeoff.pairs import CELLS

LIBRARY = Path(__file__).resolve().parents[2] / "scripts" / "refusal_eval"


def of_study() -> list[Result]:
    found = [Result(e, f"scores/{i}.json") for i, cell in enumerate(study()) for e in score_estimates(cell, 1.0)]
    return found + [Result(e, "card.json") for card in cards() for e in card_estimates(card)]


def one(results: list[Result], **wanted: Any) -> Estimate:
    (found,) = [r.estimate for r in results if all(getattr(r.estimate, k) == v for k, v in wanted.items())]
    return found


def test_the_numbers_of_a_score_become_rows() -> None:
    results = collected(of_study())
    cell = {"judge": "rules", "model": "m1", "split": "safe"}
    rate = one(results, estimand="refusal_rate", reading="broad", **cell)
    assert (rate.value, rate.samples, rate.n_prompts, rate.n_clusters, rate.level) == (0.05, 2, 40, 40, 0.95)
    assert rate.low is not None and rate.low < 0.05 < (rate.high or 0)
    assert one(results, estimand="majority@2_tie", reading="broad", **cell).value == 0.1
    assert one(results, estimand="c_band_complying", **cell).parameter == 1.0
    lost = {"judge": "rules", "model": "m2", "split": "safe"}
    assert one(results, estimand="answer_state", parameter="failed", **lost).value == 0.2
    assert one(results, estimand="unjudged", **lost).value == 0.2
    assert one(results, estimand="refusal_rate_at_most", reading="strict", **lost).value == 0.2
    assert one(results, estimand="refusal_rate_at_least", reading="strict", **lost).value == 0.0
    assert one(results, estimand="refusal_rate", reading="strict", **lost).flags == ("unjudged", "few_clusters")


def test_a_judges_card_becomes_rows() -> None:
    results = collected(of_study())
    kappa = one(results, estimand="judge_kappa", reading="strict", judge="rules", parameter="pyrit")
    assert kappa.value == pytest.approx(0.8) and kappa.model is None and kappa.n_prompts == 50
    assert one(results, estimand="judge_sensitivity", reading="broad", parameter="pyrit").n_prompts == 25


def test_the_method_of_a_cards_interval_is_the_one_it_was_made_by() -> None:
    gold, verdicts = soft_gold()
    results = [Result(e, "card.json") for e in card_estimates(judge_card(gold, verdicts, judge="j", gold="g"))]

    def method(name: str) -> str:
        return str(one(results, estimand=f"judge_{name}", category=None, reading="broad").method)

    assert method("brier") == "cluster bootstrap, expanded percentile"
    assert "noise" in method("ece") and "sensitivity" not in method("ece")
    assert "unseen errors" in method("f1") and "small classes" in method("kappa") and "Wilson" in method("accuracy")


def test_every_number_stands_in_the_table_once() -> None:
    rate = {"judge": "j", "model": "m", "split": "s", "reading": "broad", "samples": 2}
    bare = Result(Estimate("any@2", 0.5, flags=("mixed_serving",), **rate), "scores")
    full = Result(Estimate("any@2", 0.5, 0.4, 0.6, 0.95, "Wilson", flags=("truncated",), **rate), "estimates")
    for pair in ([bare, full], [full, bare]):
        (kept,) = collected(pair)
        assert kept.source == "estimates" and set(kept.estimate.flags) == {"mixed_serving", "truncated"}
    with pytest.raises(UserError, match=r"two values of one number .*model m.*0\.5 in scores and 0\.6 in late"):
        collected([bare, Result(Estimate("any@2", 0.6, **rate), "late")])


def test_of_two_with_an_interval_the_one_that_knows_its_clusters_is_kept() -> None:
    c = {"judge": "j", "model": "m", "split": "s", "parameter": 1.0, "samples": 2, "n_prompts": 40}
    of_scores = Result(Estimate("c_mean", 0.5, 0.4, 0.6, 0.95, "Wilson", **c), "scores")
    of_estimates = Result(Estimate("c_mean", 0.5, 0.4, 0.6, 0.95, "Wilson", n_clusters=31, **c), "estimates")
    for pair in ([of_scores, of_estimates], [of_estimates, of_scores]):
        assert collected(pair) == [of_estimates]


def test_of_adjusted_p_values_the_largest_is_kept() -> None:
    pair = {"judge": "j", "model": "a", "split": "s", "parameter": "minus b"}
    found = [Result(Estimate("rate_difference_p_holm", p, **pair), f"{p}") for p in (0.02, 0.06, 0.04)]
    assert [result.estimate.value for result in collected(found)] == [0.06]


def test_bytes_do_not_depend_on_order() -> None:
    rng, results, texts, files = random.Random(3), of_study(), set(), set()
    for _ in range(5):
        rng.shuffle(results)
        rows = table_rows(collected(results))
        texts.add(results_csv(rows))
        files.add(results_parquet(rows))
    assert len(texts) == len(files) == 1


def test_csv_and_parquet_hold_the_same_and_read_back() -> None:
    results = collected(of_study())
    rows = table_rows(results)
    table = pq.read_table(io.BytesIO(results_parquet(rows)))
    assert table.column_names == [column.name for column in COLUMNS] and table.to_pylist() == rows
    back = read_results(results_csv(rows))
    assert len(back) == len(results)
    for again, result in zip(back, results, strict=True):
        assert again.value == rounded(result.estimate.value) and again.flags == result.estimate.flags
        assert (again.estimand, again.model, again.samples) == (
            result.estimate.estimand,
            result.estimate.model,
            result.estimate.samples,
        )
    with pytest.raises(UserError, match="not a results table"):
        read_results("a,b\n1,2\n")


def test_numbers_that_the_data_cannot_give_are_empty() -> None:
    nothing = score("rules", "m", "s", "varies", ["FF"])
    rows = table_rows(collected([Result(e, "x") for e in score_estimates(nothing, 1.0)]))
    (rate,) = [row for row in rows if row["estimand"] == "refusal_rate" and row["reading"] == "broad"]
    assert rate["value"] is rate["low"] is rate["method"] is None


def test_the_dictionary_explains_every_column_and_estimand() -> None:
    estimates = [result.estimate for result in of_study()]
    assert undescribed(estimates) == []
    text = dictionary(estimates, "a_study")
    assert all(f"| `{column.name}` |" in text for column in COLUMNS)
    assert "### `any@K`" in text and "- Unit: " in text and "not described" not in text.lower()
    assert not re.search(r"(?<![\w-])-\d", text)
    stranger = [*estimates, Estimate("made_up", 1.0)]
    assert undescribed(stranger) == ["made_up"] and "### `made_up`\n\nNot described" in dictionary(stranger, "s")


def test_every_estimand_that_the_library_writes_is_described() -> None:
    written = set()
    for module in LIBRARY.rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        written |= {m for m in re.findall(r'\bEstimate\(\s*\*?\(?"([^"{]+)"', text)}
    assert "refusal_rate" in written
    assert sorted(name for name in written if definition_of(name) is None) == []


def test_names_that_are_put_together_are_described_too() -> None:
    names = [computed.DIFFERENCE, computed.P_VALUE, computed.P_HOLM, computed.BOUNDS, BY_TURN]
    names += [f"pairs_{cell}" for cell in CELLS] + [f"c_band_{band}" for band in BANDS]
    names += [f"variance_{share}{part}" for part in PARTS for share in ("", "share_")]
    names += [f"majority@{k}{tie}" for k in (1, 10) for tie in ("", "_tie")] + ["decision_entropy@5", "any@3"]
    names += ["refusal_rate_rg_transfer", "refusal_rate_ppi"]
    assert [name for name in names if definition_of(name) is None] == []
    assert best.P_VALUE == computed.P_HOLM


def test_definitions_are_whole() -> None:
    assert len({definition.name for definition in DEFINITIONS}) == len(DEFINITIONS)
    for definition in DEFINITIONS:
        assert all((definition.unit, definition.meaning, definition.formula, definition.source)), definition.name
        assert definition.formula.endswith(".") and definition.meaning.endswith("."), definition.name


def test_parts_of_the_variance_are_due_to_several() -> None:
    told = {part: definition_of(f"variance_share_{part}") for part in PARTS}
    assert [d.meaning.rsplit(" ", 1)[1] for d in told.values() if d] == ["prompts.", "sampling.", "judges."]
