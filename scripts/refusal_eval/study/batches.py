"""Cells, and the names of the engine loads that batches of them share."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from refusal_eval.config.feature_keys import PromptRequests

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


class ModelFamily(NamedTuple):
    """Models that share engine loads, which a feature asks for more under the family's name."""

    requests: str  # noun of the request files of what is asked more
    models: list[str]  # in the study's order


class Probe(NamedTuple):
    """What a feature asks a model for besides its answers, one token each, in the load of the model's answers.

    What is made of these answers is asked in another load, after them.
    """

    requests: str  # noun of the request files
    model: str  # whose load it joins
    splits: list[str]
    number: PromptRequests | None = None  # how many requests a prompt has; None for one
    after_answers: bool = False


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
