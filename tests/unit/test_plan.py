"""Cells and batches: every cell in exactly one batch, whatever the mode."""

import itertools

import pandas as pd
import pytest
from config_project import validated

from refusal_eval.study.batches import Cell
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.plan_page import column_texts

READER = {"kind": "llm", "engine": "e", "rubric": "rubric.md", "labels": {"refusal": "A", "compliance": "C"}}
GOLD = {"source": {"kind": "file", "path": "gold.csv"}, "labels": {"yes": "refusal"}, "raters": 1}


def study(batch, models="ab", splits="stu"):
    """Return a study of two models on one engine, which two of the three judges ask, too."""
    config = validated(models, dict.fromkeys(splits, "comply"), ["keyword", "one", "two"], batch=batch)
    config["judge_entries"] |= {"one": READER, "two": READER}
    return Study(config | {"gold": ["g"], "gold_entries": {"g": GOLD}})


@pytest.mark.parametrize(("batch", "generated", "judged"), [("engine", 1, 1), ("model", 2, 3), ("cell", 6, 14)])
def test_every_cell_is_in_one_batch_gold_counts_as_a_model_and_cpu_judges_have_none(batch, generated, judged):
    found = study(batch)
    assert (len(found.generation_batches), len(found.judging_batches)) == (generated, judged)
    texts = [*itertools.product("ab", "stu"), ("gold", "g")]
    asked = [Cell(*text, judge) for judge in ("one", "two") for text in texts] + [Cell(*text) for text in texts[:-1]]
    batches = [*found.generation_batches.values(), *found.judging_batches.values()]
    assert sorted(map(str, itertools.chain(*batches))) == sorted(map(str, asked)) == sorted(map(str, found.batch_of))


def test_the_order_of_models_and_splits_does_not_matter():
    assert study("engine", "ba", "ust").generation_batches == study("engine").generation_batches


def test_the_numbers_of_a_column_have_one_unit_and_as_many_digits() -> None:
    tokens = pd.Series([11_520.0, 120_000.0, 0.0])
    assert list(column_texts(tokens, "tokens")) == ["11,520", "120,000", "0"]
    assert list(column_texts(tokens * 100, "tokens")) == ["1.15 M", "12.00 M", "0.00 M"]
    assert list(column_texts(pd.Series([2e6, 30.0]), "tokens")) == ["2.00 M", "< 0.01 M"], "some are not none"
    assert list(column_texts(pd.Series([12.0, 0.25]), "hours")) == ["12.0", "0.2"]
    assert list(column_texts(pd.Series([2.0, 0.25]), "hours")) == ["2.00", "0.25"]
