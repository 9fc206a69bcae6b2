"""Cells and batches: every cell in exactly one batch, whatever the mode."""

import pytest
from config_project import validated

from refusal_eval.study.batches import Cell, batch_names
from refusal_eval.study.study import Study

READER = {"kind": "llm", "engine": "e", "rubric": "rubric.md", "labels": {"refusal": "A", "compliance": "C"}}
GOLD = {"source": {"kind": "file", "path": "gold.csv"}, "labels": {"yes": "refusal"}, "raters": 1}


def study(batch, models="ab", splits="stu"):
    """Return a study of two models on one engine, which two of the three judges ask, too."""
    config = validated(models, dict.fromkeys(splits, "comply"), ["keyword", "one", "two"], batch=batch)
    config["judge_entries"] |= {"one": READER, "two": READER}
    return Study(config | {"gold": ["g"], "gold_entries": {"g": GOLD}})


@pytest.mark.parametrize(("batch", "loads"), [("engine", 1), ("model", 2), ("cell", 6)])
def test_generation_loads(batch, loads):
    batches = study(batch).generation_batches
    assert len(batches) == loads
    assert sorted(cell for cells in batches.values() for cell in cells) == [Cell(m, s) for m in "ab" for s in "stu"]


@pytest.mark.parametrize(("batch", "loads"), [("engine", 1), ("model", 3), ("cell", 14)])
def test_judging_loads_count_gold_as_a_model_and_leave_cpu_judges_out(batch, loads):
    batches = study(batch).judging_batches
    assert len(batches) == loads
    cells = [cell for group in batches.values() for cell in group]
    assert len(cells) == len(set(cells)) == 2 * (6 + 1)
    assert Cell("a", "s", "keyword") not in batch_names(batches)


@pytest.mark.parametrize("batch", ["engine", "model", "cell"])
def test_each_cell_is_found_in_the_batch_that_holds_it(batch):
    for batches in (study(batch).generation_batches, study(batch).judging_batches):
        names = batch_names(batches)
        assert len(names) == sum(len(cells) for cells in batches.values())
        assert all(cell in batches[name] for cell, name in names.items())


def test_the_order_of_models_and_splits_does_not_matter():
    assert study("engine", "ba", "ust").generation_batches == study("engine").generation_batches
