"""Cells and batches: every cell in exactly one batch, whatever the mode."""

import pytest

from refusal_eval.study.batches import Cell, batch_names, generation_batches, judging_batches


def study(batch):
    return {
        "batch": batch,
        "models": ["a", "b"],
        "splits": ["s", "t", "u"],
        "judges": ["keyword", "one", "two"],
        "gold": ["g"],
        "model_entries": {"a": {"engine": "e"}, "b": {"engine": "e"}},
        "judge_entries": {
            "keyword": {"kind": "keyword"},
            "one": {"kind": "llm", "engine": "j"},
            "two": {"kind": "llm", "engine": "j"},
        },
    }


@pytest.mark.parametrize(("batch", "loads"), [("engine", 1), ("model", 2), ("cell", 6)])
def test_generation_loads(batch, loads):
    batches = generation_batches(study(batch))
    assert len(batches) == loads
    assert sorted(cell for cells in batches.values() for cell in cells) == [Cell(m, s) for m in "ab" for s in "stu"]


@pytest.mark.parametrize(("batch", "loads"), [("engine", 1), ("model", 3), ("cell", 14)])
def test_judging_loads_count_gold_as_a_model_and_leave_cpu_judges_out(batch, loads):
    batches = judging_batches(study(batch))
    assert len(batches) == loads
    cells = [cell for group in batches.values() for cell in group]
    assert len(cells) == len(set(cells)) == 2 * (6 + 1)
    assert Cell("a", "s", "keyword") not in batch_names(batches)


@pytest.mark.parametrize("batch", ["engine", "model", "cell"])
def test_each_cell_is_found_in_the_batch_that_holds_it(batch):
    for batches in (generation_batches(study(batch)), judging_batches(study(batch))):
        names = batch_names(batches)
        assert len(names) == sum(len(cells) for cells in batches.values())
        assert all(cell in batches[name] for cell, name in names.items())


def test_the_order_of_models_and_splits_does_not_matter():
    turned = study("engine") | {"models": ["b", "a"], "splits": ["u", "s", "t"]}
    assert generation_batches(turned) == generation_batches(study("engine"))
