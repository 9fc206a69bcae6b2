"""Cells, and the batches of cells that share one engine load."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_eval.config.judge_entry import Way
from refusal_eval.config.kinds import JUDGES

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


def generation_batches(config: Mapping[str, Any]) -> dict[str, list[Cell]]:
    """Return the cells of each generation batch by the batch's name, which begins with its engine's name.

    Answers that are recorded are not generated.
    """
    batches: dict[str, list[Cell]] = {}
    for model in asked_models(config):
        engine = config["model_entries"][model]["engine"]
        for split in config["splits"]:
            batches.setdefault(_name(config["batch"], engine, model, split), []).append(Cell(model, split))
    return {name: sorted(cells) for name, cells in sorted(batches.items())}


def judging_batches(config: Mapping[str, Any]) -> dict[str, list[Cell]]:
    """Return the cells of each judging batch by its name; only judges that need an engine, gold included."""
    batches: dict[str, list[Cell]] = {}
    for judge in llm_judges(config):
        engine = config["judge_entries"][judge]["engine"]
        cells = [Cell(model, split, judge) for model in config["models"] for split in config["splits"]]
        for cell in cells + [Cell(GOLD, gold, judge) for gold in config["gold"]]:
            batches.setdefault(_name(config["batch"], engine, cell.model, f"{cell.split}/{judge}"), []).append(cell)
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


def asked_models(config: Mapping[str, Any]) -> list[str]:
    """Return the models that an engine is asked for."""
    return [name for name in config["models"] if not config["model_entries"][name].get("recorded")]


def recorded_models(config: Mapping[str, Any]) -> list[str]:
    """Return the models whose answers were drawn elsewhere and are read from a folder."""
    return [name for name in config["models"] if config["model_entries"][name].get("recorded")]


def recorded_judges(config: Mapping[str, Any]) -> list[str]:
    """Return the judges whose verdicts came with recorded answers."""
    return _judges(config, "recorded")


def llm_judges(config: Mapping[str, Any]) -> list[str]:
    """Return the judges that need an engine."""
    return _judges(config, "engine")


def cpu_judges(config: Mapping[str, Any]) -> list[str]:
    """Return the judges that read answers and need no engine."""
    return _judges(config, "answers")


def panel_judges(config: Mapping[str, Any]) -> list[str]:
    """Return the judges that put together what others said."""
    return _judges(config, "verdicts")


def _judges(config: Mapping[str, Any], way: Way) -> list[str]:
    kinds: dict[str, Any] = {name: JUDGES.class_of(config["judge_entries"][name]) for name in config["judges"]}
    return [name for name, kind in kinds.items() if kind.way == way]


def batch_names(batches: Mapping[str, Sequence[Cell]]) -> dict[Cell, str]:
    """Return the name of the batch that holds each cell."""
    return {cell: name for name, cells in batches.items() for cell in cells}


def _name(mode: str, engine: str, model: str, rest: str) -> str:
    # The mode is the first part, so that no cell's name can meet an engine's.
    parts = {"engine": [engine], "model": [engine, model], "cell": [engine, model, rest]}
    return "/".join([mode, *parts[mode]])
