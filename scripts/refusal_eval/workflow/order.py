"""Which jobs start first: what engines wait for, then the longest engine loads.

Snakemake starts, of the jobs that are ready and fit, the one with the highest priority.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.study import Study
from refusal_eval.weights.engine_size import engine_billions

PREPARING = 50.0  # the least priority of a job that prepares requests: above all engine loads
ASSUMED_ROWS = 300  # of a split or gold whose entry says nothing


def longest_first(study: Study) -> Callable[[Any], float]:
    """Return what gives a job its priority by its wildcards: a batch's, or one cell's whose requests it prepares.

    A batch's priority grows with its requests times its engine's active parameters. It is a function of the study
    alone; nothing is estimated before the first job asks.
    """

    @cache
    def priorities() -> dict[str, float]:
        work: dict[str, float] = {}
        for cell, batch in study.batch_of.items():
            work[batch] = work.get(batch, 0.0) + _rows(study, cell) * _effort(study, batch)
        longest = max(work.values(), default=1.0)
        return {batch: (PREPARING - 1) * amount / longest for batch, amount in work.items()}

    def priority(wildcards: Any) -> float:
        if batch := getattr(wildcards, "batch", None):
            return priorities()[batch]
        cell = Cell(wildcards.model, wildcards.split, getattr(wildcards, "judge", None))
        # Of cells in no batch only activations are captured.
        return PREPARING + priorities().get(study.batch_of.get(cell, ""), 0.0)

    return priority


def _rows(study: Study, cell: Cell) -> int:
    """Return about how many texts of a cell an engine is asked about."""
    if cell.model == GOLD:
        return study.gold[cell.split].expected_rows or ASSUMED_ROWS
    split = study.settings.split_entries[cell.split]
    rows = split.expected_kept or split.expected_rows or ASSUMED_ROWS
    sizes = [sample.size for sample in (split.sample, study.settings.prompts_per_split) if sample]
    return min([rows, *sizes]) * study.samples_of(cell.split)


def _effort(study: Study, batch: str) -> float:
    entry = study.config["engine_entries"][batch.split("/")[1]]
    return engine_billions(entry, ())[0][1]  # those that are active
