"""Which jobs start first: what engines wait for, then the longest engine loads.

Snakemake starts, of the jobs that are ready and fit, the one with the highest priority.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from refusal_eval.study.batches import GOLD, Cell, batch_names, generation_batches, judging_batches
from refusal_eval.weights.engine_size import engine_billions

PREPARING = 50.0  # the least priority of a job that prepares requests: above all engine loads
ASSUMED_ROWS = 300  # of a split or gold whose entry says nothing


def longest_first(config: Mapping[str, Any]) -> Callable[[Any], float]:
    """Return what gives a job its priority by its wildcards: a batch's, or one cell's whose requests it prepares.

    A batch's priority grows with its requests times its engine's active parameters. It is a function of the study
    alone; nothing is estimated before the first job asks.
    """

    @cache
    def priorities() -> tuple[dict[str, float], dict[Cell, str]]:
        generation, judging = generation_batches(config), judging_batches(config)
        batch_of = batch_names(generation) | batch_names(judging)
        work: dict[str, float] = {}
        for cell, batch in batch_of.items():
            work[batch] = work.get(batch, 0.0) + _rows(config, cell) * _effort(config["engine_entries"], batch)
        longest = max(work.values(), default=1.0)
        return {batch: (PREPARING - 1) * amount / longest for batch, amount in work.items()}, batch_of

    def priority(wildcards: Any) -> float:
        by_batch, batch_of = priorities()
        if batch := getattr(wildcards, "batch", None):
            return by_batch[batch]
        cell = Cell(wildcards.model, wildcards.split, getattr(wildcards, "judge", None))
        return PREPARING + by_batch[batch_of[cell]]

    return priority


def _rows(config: Mapping[str, Any], cell: Cell) -> int:
    """Return about how many texts of a cell an engine is asked about."""
    if cell.model == GOLD:
        return int(config["gold_entries"][cell.split]["expected_rows"] or ASSUMED_ROWS)
    entry = config["split_entries"][cell.split]
    rows = int(entry.get("expected_kept") or entry["expected_rows"] or ASSUMED_ROWS)
    sizes = [sample["size"] for sample in (entry["sample"], config["prompts_per_split"]) if sample]
    return int(min([rows, *sizes]) * config["samples"])


def _effort(engines: Mapping[str, Any], batch: str) -> float:
    entry = engines[batch.split("/")[1]]
    (_, active), _ = engine_billions(entry, ())
    return active
