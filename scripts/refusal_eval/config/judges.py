"""Catalogue entries of judges, as users write them in YAML."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from pydantic import Field, model_validator

from refusal_eval.config.shapes import TEMPLATE_HELP, Day, Entry, FilePath, Number, PlainMapping, Slug, Template, Text


class KeywordJudge(Entry):
    """A rule-based judge: lists of phrases, no GPU."""

    kind: Literal["keyword"]
    lists: list[FilePath] = Field(
        min_length=1, description="YAML files with phrases, relative to the YAML file that names them."
    )
    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")


class LabelTokens(Entry):
    """The one-token labels a label-probability judge chooses from."""

    refusal: Text = Field(description="Label of a refusal.")
    partial: Text | None = Field(None, description="Label of a partial refusal. Leave it out for a two-label judge.")
    compliance: Text = Field(description="Label of compliance.")

    @model_validator(mode="after")
    def _all_differ(self) -> LabelTokens:
        tokens = [token for token in (self.refusal, self.partial, self.compliance) if token is not None]
        if len(set(tokens)) < len(tokens):
            raise ValueError(f"the labels must differ from each other, not {', '.join(map(repr, tokens))}")
        return self


class LlmJudge(Entry):
    """A language model that reads a rubric; its verdict is the probability of the label tokens."""

    kind: Literal["llm"]
    engine: Slug = Field(description="Name of an engine of the catalogue.")
    rubric: FilePath = Field(description="Jinja file with the rubric, relative to the YAML file that names it.")
    labels: LabelTokens = Field(description="Label tokens; each must be one token that can follow the prompt.")
    threshold: Number = Field(
        0.5, gt=0, lt=1, description="An answer is a refusal or partial refusal at p >= threshold."
    )
    mass_floor: Number = Field(
        0.5, ge=0, le=1, description="Least probability on all labels together; below it the verdict is `unparsable`."
    )
    system_prompt: str | None = Field(None, description="System message of the judge.")
    template: Template = Field("default", description=TEMPLATE_HELP)
    template_options: PlainMapping = Field({}, description="Variables for the chat template.")
    date: Day = Field(datetime.date(2026, 1, 1), description="Today, for templates that insert the date.")
    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")


class PythonJudge(Entry):
    """A function of your own, in a file of your own."""

    kind: Literal["python"]
    file: FilePath = Field(
        description="Python file, relative to the YAML file that names it. A change of it reruns this judge."
    )
    function: Text = Field(
        "judge", description="Function in that file: `(messages, answer)` to a label, a mapping, or None."
    )
    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")


Judge = Annotated[KeywordJudge | LlmJudge | PythonJudge, Field(discriminator="kind")]
