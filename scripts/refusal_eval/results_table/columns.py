"""The columns of a study's results table: their order, their types and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "number", "count"]


@dataclass(frozen=True)
class Column:
    """A column: `text`, `number` (a float) or `count` (a whole number); all but the estimand may be empty."""

    name: str
    kind: Kind
    meaning: str


COLUMNS = (
    Column("estimand", "text", "What is estimated; each is explained below."),
    Column("judge", "text", "The judge behind the number; empty where none is."),
    Column("model", "text", "The model; of a comparison both, the first minus the second."),
    Column("split", "text", "The split; empty for what is pooled over several."),
    Column("pool", "text", "What is pooled: an expectation (`comply`, `refuse`, `varies`); empty for one split."),
    Column("category", "text", "The category of the split; empty for all of it."),
    Column("reading", "text", "`strict` (refusals) or `broad` (refusals and partial refusals); empty if neither."),
    Column("parameter", "text", "What the estimand depends on further; its explanation says what."),
    Column("samples", "count", "K, the answers drawn per prompt."),
    Column("value", "number", "The number, in the unit of the estimand; empty where the data cannot give it."),
    Column("low", "number", "Lower end of its interval; empty without one."),
    Column("high", "number", "Upper end of its interval."),
    Column("level", "number", "Level of the interval."),
    Column("method", "text", "How the interval was made."),
    Column("n_prompts", "count", "Prompts that enter (of dialogues: scored turns)."),
    Column("n_clusters", "count", "Independent clusters of prompts that enter."),
    Column("flags", "text", "Marks to be shown beside it, separated by spaces; they are explained below."),
    Column("source", "text", "File of the study's folder that the number was taken from."),
)

# Together they say which number it is: no two rows agree in all of them.
KEY = ("estimand", "judge", "model", "split", "pool", "category", "reading", "parameter", "samples")
