"""Which engine load starts first: the longest, counted from its start until its answers are judged.

Snakemake starts, of the jobs that are ready and fit, the one with the highest priority. Jobs on CPU come before all
engine loads, those of the longest batches first: what a GPU waits for should never wait itself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.study.batches import Cell, batch_names, generation_batches, judging_batches
from refusal_eval.tools.plan.schedule import tails
from refusal_eval.tools.plan.workload import loads_of
from refusal_eval.tools.plan.workload_files import cell_work, engine_paces

PREPARING = 50.0  # the least priority of a job that prepares requests: above all engine loads


class Order:
    """Priorities of the jobs of a study. Nothing is estimated before the first one is asked for.

    Args:
        config: the validated study.
        root: the repository's folder.
    """

    def __init__(self, config: Mapping[str, Any], root: Path) -> None:
        self._config, self._root = config, root

    def generate(self, wildcards: Any) -> float:
        """Return the priority of a generation batch."""
        return self._of("generate", wildcards.batch)

    def judge(self, wildcards: Any) -> float:
        """Return the priority of a judging batch."""
        return self._of("judge", wildcards.batch)

    def requests(self, wildcards: Any) -> float:
        """Return the priority of rendering a cell's requests."""
        return PREPARING + self._of("generate", self._batch_of[Cell(wildcards.model, wildcards.split)])

    def answers(self, wildcards: Any) -> float:
        """Return the priority of collecting a cell's answers: that of the longest judging that waits for them."""
        judging = (
            self._batch_of.get(Cell(wildcards.model, wildcards.split, judge)) for judge in self._config["judges"]
        )
        return PREPARING + max((self._of("judge", batch) for batch in judging if batch is not None), default=0.0)

    def judge_requests(self, wildcards: Any) -> float:
        """Return the priority of rendering what a judge is asked about a cell."""
        batch = self._batch_of[Cell(wildcards.model, wildcards.split, wildcards.judge)]
        return PREPARING + self._of("judge", batch)

    def _of(self, stage: str, batch: str) -> float:
        return self._priorities[stage, batch]

    @functools.cached_property
    def _batch_of(self) -> dict[Cell, str]:
        return batch_names(generation_batches(self._config)) | batch_names(judging_batches(self._config))

    @functools.cached_property
    def _priorities(self) -> dict[tuple[str, str], float]:
        """Priority of each (stage, batch), above 0 and below `PREPARING`."""
        work = cell_work(self._config, self._root, in_store=False)
        paces, _ = engine_paces(self._config, self._root)
        loads = loads_of(self._config, work, paces, self._config["batch"], self._config["shards"])
        seconds = {(load.stage, load.batch): tail for load, tail in tails(loads).items()}
        longest = max(seconds.values(), default=0.0)
        return {name: round((PREPARING - 1) * tail / longest, 4) if longest else 0.0 for name, tail in seconds.items()}
