"""What judges have in common that a language model serves: how they are rendered, and their rubric."""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Iterator
from typing import Any

from pydantic import Field, model_validator

from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import (
    TEMPLATE_HELP,
    Day,
    FilePath,
    Template,
    TemplateOptions,
    refuse_options_without_template,
)
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.rubric import Rubric, rubric_mistake
from refusal_eval.judges.judge_base import EngineJudge, Messages


class TemplatedJudge(EngineJudge):
    """What judges have in common that choose how messages are rendered."""

    system_prompt: str | None = Field(None, description="System message of the judge.")
    template: Template = Field("default", description=TEMPLATE_HELP)
    template_options: TemplateOptions = Field({}, description="Variables for the chat template.")
    date: Day = Field(datetime.date(2026, 1, 1), description="Today, for templates that insert the date.")

    @model_validator(mode="after")
    def _options_of_a_template(self) -> TemplatedJudge:
        refuse_options_without_template(self.template, self.template_options)
        return self

    def rendering(self) -> dict[str, Any]:
        """Return how messages become token ids."""
        return self.model_dump(mode="json", include=set(super().rendering()))


class RubricJudge(TemplatedJudge):
    """What judges have in common that give a language model a rubric."""

    rubric: FilePath = Field(
        description="Jinja file with the rubric, relative to the YAML file that names it. `{{ nonce }}`, a code that "
        "no answer can write, must stand before and after `{{ answer }}`; docs/reference/judges.md has a skeleton. "
        "What it sets as `policy` is sent as system message."
    )

    def files(self) -> list[str]:
        """Return the rubric."""
        return [self.rubric]

    def rubric_may_be_open(self) -> bool:
        """Tell whether an answer may be able to close its own block, as prompts of other people let it."""
        return False

    def mistakes(self, name: str, study: StudyView) -> Iterator[Mistake]:
        """Yield also what is wrong with the rubric."""
        yield from super().mistakes(name, study)
        if os.path.isfile(self.rubric):
            mistake = rubric_mistake(self.rubric, open_allowed=self.rubric_may_be_open())
            if mistake is not None:
                yield ("rubric",), mistake

    @functools.cached_property
    def instructions(self) -> Rubric:
        """The rubric, read.

        Raises:
            UserError: for one that cannot be used.
        """
        return Rubric(self.rubric)

    def messages(self, messages: Messages, answer: str) -> list[dict[str, str]]:
        """Return the rubric with conversation and answer in it; its policy, if it has one, is a system message."""
        rubric, policy = {"role": "user", "content": self.instructions.text(messages, answer)}, self.instructions.policy
        return [rubric] if policy is None else [{"role": "system", "content": policy}, rubric]
