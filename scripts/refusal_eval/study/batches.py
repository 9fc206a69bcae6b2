"""Cells, and the batches of cells that share one engine load."""

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_eval.config.entries import Model

LOAD_NAME = re.compile(r"\d+-of-\d+")  # what `load_names` makes
GOLD = "gold"  # gold answers pass through the judging rules as the answers of a model of this name


@dataclass(frozen=True, order=True)
class Cell:
    """What the user sees and what reruns: a (model, split), and for judging a (model, split, judge)."""

    model: str
    split: str
    judge: str | None = None

    def __str__(self) -> str:
        return "/".join(filter(None, (self.judge, self.model, self.split)))


def generation_batches(mode: str, models: Mapping[str, Model], splits: Collection[str]) -> dict[str, list[Cell]]:
    """Return the cells of each generation batch by the batch's name, which begins with its engine's name.

    Answers that are recorded are not generated.

    Args:
        mode: what shares one engine load, `cell`, `model` or `engine`.
        models: the study's models.
        splits: the names of its splits.
    """
    batches: dict[str, list[Cell]] = {}
    for name, model in models.items():
        for split in splits if not model.recorded else ():
            batches.setdefault(_name(mode, model.engine, name, split), []).append(Cell(name, split))
    return {name: sorted(cells) for name, cells in sorted(batches.items())}


def judging_batches(
    mode: str, judges: Mapping[str, Any], models: Collection[str], splits: Collection[str], gold: Collection[str]
) -> dict[str, list[Cell]]:
    """Return the cells of each judging batch by its name; only judges that need an engine, gold included."""
    batches: dict[str, list[Cell]] = {}
    texts = [*itertools.product(models, splits), *((GOLD, name) for name in gold)]
    for judge, entry in judges.items():
        for model, split in texts if entry.way == "engine" else ():
            name = _name(mode, entry.engine, model, f"{split}/{judge}")
            batches.setdefault(name, []).append(Cell(model, split, judge))
    return {name: sorted(cells) for name, cells in sorted(batches.items())}


def load_names(shards: int) -> list[str]:
    """Return the name of each engine load of a batch, one for each shard: `0-of-2`.

    A receipt stands for the requests that its job was given. With other cells that job runs again, as its inputs
    changed; with another number of shards there are other receipts.
    """
    return [f"{shard}-of-{shards}" for shard in range(shards)]


def shard_of(load: str) -> int:
    """Return the number of the shard that a load of this name executes."""
    return int(load.split("-", 1)[0])


def shards_of(load: str) -> int:
    """Return the number of shards of the batch that a load of this name belongs to."""
    return int(load.split("-")[2])


def batch_names(batches: Mapping[str, Sequence[Cell]]) -> dict[Cell, str]:
    """Return the name of the batch that holds each cell."""
    return {cell: name for name, cells in batches.items() for cell in cells}


def _name(mode: str, engine: str, model: str, rest: str) -> str:
    # The mode is the first part, so that no cell's name can meet an engine's.
    parts = {"engine": [engine], "model": [engine, model], "cell": [engine, model, rest]}
    return "/".join([mode, *parts[mode]])
