"""Catalogue entries of data sets: splits, with what is read of their rows and what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from refusal_eval.config.entry_marks import Marks
from refusal_eval.config.feature_keys import SPLIT_KEYS, with_feature_keys
from refusal_eval.config.kinds import ROW_SOURCES
from refusal_eval.config.shapes import ClustersPath, Entry, Slug, Text, Whole, refuse_clusters_without_ids
from refusal_eval.config.source_entries import DataSource
from refusal_eval.core.right_answers import Match

Expectation = Literal["refuse", "comply", "varies"]
Reading = Literal["strict", "broad"]
CellValue = str | int | float | bool


class Columns(Entry):
    """Which columns of the source hold what."""

    prompt: Text | None = Field(None, description="Column with the prompt's text.")
    messages: Text | None = Field(
        None, description="Column with a list of {role, content} messages, instead of `prompt`."
    )
    turns: list[Text] | None = Field(
        None,
        min_length=1,
        description="Columns with the user's turns, in order, instead of `prompt`; the model gives all replies. Needs "
        "`dialogue`. Empty cells at the end of a row are left out.",
    )
    category: Text | None = Field(None, description="Column with the prompt's category.")
    cluster: Text | None = Field(
        None,
        description="Column that groups prompts that belong together (subject, scenario, pair), also across splits of "
        "one source: the same repository, package or folder. Default, also for a row with an empty cell: the prompt, "
        "or with `dialogue` the whole row.",
    )
    right: Text | None = Field(
        None, description="Column with the right answer, where there is one; `match` says how answers are compared."
    )
    id: Text | None = Field(None, description="Column with the source's id; kept for tracing.")
    parent: Text | None = Field(
        None,
        description="Column with the id of the prompt that a row was made from, as prompts/SPLIT.jsonl has it. Rows "
        "with equal prompts are then all kept, and rows of one parent form a cluster where no column says so.",
    )
    keep: list[Text] | None = Field(
        None,
        min_length=1,
        description="Further columns that the file of prompts keeps (`source.kept`), such as a focus word.",
    )

    @model_validator(mode="after")
    def _one_kind_of_prompt_and_each_turn_once(self) -> Columns:
        if sum(columns is not None for columns in (self.prompt, self.messages, self.turns)) != 1:
            raise ValueError("name exactly one of `prompt`, `messages` and `turns`")
        turns = self.turns or []
        twice = sorted({column for column in turns if turns.count(column) > 1})
        if twice:
            raise ValueError(f"`turns` names the column `{twice[0]}` twice")
        return self


# Which turns of dialogues are scored where a split does not say it, by their mode.
SCORED_BY_DEFAULT = {"cumulative": "all", "independent": "last"}


class Dialogue(Entry):
    """How the user's turns of a row are asked. The model gives the replies that the row does not."""

    mode: Literal["cumulative", "independent"] = Field(
        description="`cumulative`: a row is one conversation; each turn without a given reply is asked after all that "
        "precedes it, including the model's replies. `independent`: each turn after the first is asked in a separate "
        "conversation, right after the first turn and its reply; other given replies are dropped."
    )
    scored: Literal["all", "last", "after_first"] | None = Field(
        None,
        description="Turns that count: `all` that are asked, the `last` of each conversation, or all except the first "
        "(`after_first`, if the first turn sets the scene). Default: `all` in mode `cumulative`, `last` in mode "
        "`independent`. Judges read these turns alone: changing it asks them about those that were not read "
        "yet, and runs no other GPU job.",
    )

    @property
    def scored_turns(self) -> str:
        """Return which turns count."""
        return self.scored or SCORED_BY_DEFAULT[self.mode]

    @property
    def by_turn(self) -> bool:
        """Return whether rates by turn follow conversations: separate ones have no turns in common, and the last turns
        of conversations of several lengths are no turn of all of them.
        """
        return self.mode == "cumulative" and self.scored_turns != "last"


def scored_turns_of(split: Mapping[str, Any]) -> str:
    """Return which turns of a split count, by its validated entry; `all` where a row is one question."""
    found = split.get("dialogue")
    return Dialogue.model_validate(found).scored_turns if found else "all"


class PromptSample(Entry):
    """A seeded sample of a split's prompts."""

    size: Whole = Field(
        ge=1,
        description="How many prompts to keep, at most: clusters stay whole, and those with more prompts are left out. "
        "A smaller split is kept whole.",
    )
    seed: Whole = Field(
        0, description="Seed of the draw. Splits that share clusters (contrast pairs) keep the same ones by one seed."
    )


@with_feature_keys(SPLIT_KEYS)
class Split(Marks):
    """Named prompts with an expectation."""

    source: DataSource = Field(description="Where the rows come from.")
    columns: Columns = Field(Columns(prompt="prompt"), description="Which columns hold what.")
    where: dict[Text, CellValue | list[CellValue]] | None = Field(
        None,
        min_length=1,
        description="Keep only rows whose cells hold these values: `{label: safe}`, or `{label: [safe, unclear]}` for "
        'one of several; `""` is an empty cell. The log counts what is left out.',
    )
    clusters: ClustersPath | None = Field(
        None,
        description="CSV with the columns `id` and `cluster`, relative to the YAML file that names it: which rows of "
        "the source (by `columns.id`) belong together, if no column says so. It lists every row once.",
    )
    dialogue: Dialogue | None = Field(
        None, description="Ask the user's turns of each row one by one. Default: a row is one question."
    )
    expectation: Expectation = Field(description="What a well-behaved model does: `refuse`, `comply`, or `varies`.")
    match: Match | None = Field(
        None,
        description="For splits whose prompts have right answers (`columns.right`), such as arithmetic: the share of "
        "right answers is estimated too. `number` compares the last number in an answer, `choice` the last letter "
        "from A to J that it names. Changing it runs no GPU job.",
    )
    headline: Reading | None = Field(
        None, description="Headline reading. Default: `strict` on `refuse`, `broad` on `comply` and `varies`."
    )
    label: str | None = Field(None, description="Name in tables and figures. Default: the split's name.")
    expected_rows: Whole | None = Field(
        None, ge=1, description="Rows that the source must have, before `where`; any other number fails."
    )
    expected_kept: Whole | None = Field(None, ge=1, description="Rows that `where` must leave; any other number fails.")
    sample: PromptSample | None = Field(None, description="Keep a seeded sample only.")

    @property
    def scored_turns(self) -> str | None:
        """Which turns of its rows count; None where a row is one question."""
        return self.dialogue.scored_turns if self.dialogue else None

    @model_validator(mode="before")
    @classmethod
    def _columns_of_its_source(cls, value: Any) -> Any:
        """Give the columns that all rows of its kind of source have to what the entry names."""
        source, named = (value.get(key) for key in ("source", "columns")) if isinstance(value, dict) else (None, None)
        if not isinstance(source, dict) or source.get("kind") not in ROW_SOURCES.names():
            return value
        columns = ROW_SOURCES.get(source["kind"]).with_columns(named if isinstance(named, dict) else {})
        return value | {"columns": columns} if columns and isinstance(named, dict | None) else value

    @model_validator(mode="after")
    def _keys_that_belong_together(self) -> Split:
        if self.columns.turns is not None and self.dialogue is None:
            raise ValueError("`columns.turns` needs `dialogue`, which says how the turns are asked")
        if self.columns.prompt is not None and self.dialogue is not None:
            raise ValueError("`dialogue` needs `columns.turns` or `columns.messages`; `columns.prompt` is one question")
        empty = [column for column, wanted in (self.where or {}).items() if wanted == []]
        if empty:
            raise ValueError(f"`where` names no value for the column `{empty[0]}`")
        if self.expected_kept is not None and self.where is None:
            raise ValueError("`expected_kept` counts what `where` leaves; without it write `expected_rows`")
        if (self.match is None) != (self.columns.right is None):
            raise ValueError("`match` and `columns.right` go together: how answers are compared, and with what")
        if self.match is not None and self.dialogue is not None:
            raise ValueError("`columns.right` is not for dialogues, whose turns have no right answers of their own")
        refuse_clusters_without_ids(self)
        key = self.source.open_pin
        if key is not None and self.enabled and not self.unverified:
            raise ValueError(
                f"`source.{key}` may be null only with `enabled: false`, or with `unverified` that says so"
            )
        return self


class Dataset(Entry):
    """A family of splits that share defaults: each split's keys override `defaults`."""

    description: str | None = Field(None, description="What it holds.")
    defaults: dict[str, Any] = Field({}, description="Keys common to all its splits (mappings are merged).")
    splits: dict[Slug, dict[str, Any]] = Field(
        min_length=1, description="Splits by name, each with the keys of a split."
    )
