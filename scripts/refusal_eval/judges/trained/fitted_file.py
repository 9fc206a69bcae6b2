"""The file of a fitted judge: its model, and the models that show how it does on gold that it was fitted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from refusal_eval.config.judge_entry import GoldLabels
from refusal_eval.core.files import read_json_as, sha256_of
from refusal_eval.judges.learning_judge import GoldSet
from refusal_eval.judges.trained.features import Feature
from refusal_eval.judges.trained.model import TrainedModel

HASH = 12  # hexadecimal digits by which a prompt is known again


class LearnedGold(BaseModel):
    """A gold set that a judge was fitted on."""

    label: str  # its name in tables
    written_to_label: bool = False  # whether an author wrote the answers to their labels, and no person labelled them
    labelled_by_model: str | None = None
    source: str  # the first gold set of those that share prompts with it
    prompts: list[str]  # the first `HASH` digits of their hashes, sorted


class FittedJudge(BaseModel):
    """A fitted judge, as plain data."""

    features: list[Feature]
    model: TrainedModel
    source_out: dict[str, TrainedModel] = {}  # by source: fitted on the gold of the others
    gold: dict[str, LearnedGold]

    def labels(self, quoted: Callable[[str], str]) -> list[GoldLabels]:
        """Return whose labels it was fitted on; `quoted` makes texts clean."""
        return [
            GoldLabels(quoted(gold.label), gold.written_to_label, gold.labelled_by_model) for gold in self.gold.values()
        ]

    def source_by_prompt(self) -> dict[str, str]:
        """Return the source of each prompt that it was fitted on, by `prompt_hash`."""
        return {prompt: gold.source for gold in self.gold.values() for prompt in gold.prompts}


def prompt_hash(messages: Any) -> str:
    """Return by what a prompt is known again."""
    return str(sha256_of(messages))[:HASH]


def learned_gold(gold: Sequence[GoldSet], sources: Mapping[str, str]) -> dict[str, LearnedGold]:
    """Return what is kept of the gold that a judge is fitted on."""
    return {
        one.name: LearnedGold(
            label=one.label or one.name,
            written_to_label=one.written_to_label,
            labelled_by_model=one.labelled_by_model,
            source=sources[one.name],
            prompts=sorted({prompt_hash(row["messages"]) for row in one.rows}),
        )
        for one in gold
    }


def load(path: str | Path) -> FittedJudge:
    """Read a fitted judge.

    Raises:
        UserError: for a file that is none.
    """
    return read_json_as(path, FittedJudge)
