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
    Column(
        "judge",
        "text",
        "The judge behind it, empty where none is; of two judges the first, and the parameter names the other.",
    ),
    Column(
        "model",
        "text",
        "The model; of a comparison of models the first one; the parameter names the one that is subtracted.",
    ),
    Column(
        "split",
        "text",
        "The split; empty for what is pooled over several; of languages in several splits these, joined by `+`.",
    ),
    Column(
        "pool",
        "text",
        "What is pooled: the splits of an expectation (`comply`, `refuse`, `varies`), those of two that are held "
        "against each other (`comply+refuse`), or `all`; empty for one split.",
    ),
    Column(
        "category",
        "text",
        "The category of the split; of judges on gold the model that wrote the answers; empty for all.",
    ),
    Column(
        "reading",
        "text",
        "`strict` (refusals), `broad` (refusals and partial refusals), or `headline` (pooled splits, each in its own "
        "headline reading); empty where none of these applies.",
    ),
    Column("parameter", "text", "What the estimand depends on further; its explanation says what."),
    Column("samples", "count", "K, the answers drawn per prompt."),
    Column("value", "number", "The number, in the unit of the estimand; empty where the data cannot give it."),
    Column("low", "number", "Lower end of its interval; empty without one."),
    Column("high", "number", "Upper end of its interval."),
    Column("level", "number", "Level of the interval."),
    Column("method", "text", "How the interval or, of a p-value, the test was made."),
    Column(
        "n_prompts",
        "count",
        "Prompts that enter (of dialogues: scored turns); of judges on gold, and of judges or people beside each "
        "other: answers.",
    ),
    Column("n_clusters", "count", "Independent clusters of prompts that enter."),
    Column("flags", "text", "Marks to be shown beside it, separated by spaces; they are explained below."),
    Column("source", "text", "File of the study's folder that the number was taken from."),
)

# Together they say which number it is: no two rows agree in all of them.
KEY = ("estimand", "judge", "model", "split", "pool", "category", "reading", "parameter", "samples")
