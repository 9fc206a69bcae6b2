"""The key `battles` of a split."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Entry, Text


class Battles(Entry):
    """Two published answers to each prompt, and which of them was preferred. A model with `recorded: battles` has them
    as its answers (docs/reference/battles.md). Only battles of one question with one answer each are used.
    """

    answers: list[Text] = Field(
        ["response_a", "response_b"],
        description="Columns with both answers: texts, or with `columns.messages` whole conversations.",
    )
    lists: bool = Field(
        False, description="The cells of prompt and answers are JSON lists of turns, as in arena-human-preference-55k."
    )
    models: list[Text] = Field(["model_a", "model_b"], description="Columns with the names of both models.")
    winner: Text | list[Text] = Field(
        "winner",
        description="Column with what people preferred: `model_a`, `model_b`, `tie`, `tie (bothbad)` or `both_bad`. Or "
        "three columns that hold 1 or 0: first answer, second answer, tie.",
    )
    llm_winner: Text | None = Field(
        None,
        description="Column with what a language model preferred, in the same words; empty where it was not asked. For "
        "the moderation bias.",
    )
    sensitive: Text | None = Field(
        None,
        description="Column with 1 or true for a question on a sensitive topic, such as illegal content, 0 or false "
        "for another, empty where nobody said. For the moderators of what refusals cost. Default: what a judge of the "
        "study that flags `prompt_harm` says.",
    )

    @model_validator(mode="after")
    def _two_of_each(self) -> Battles:
        for key in ("answers", "models"):
            if len(getattr(self, key)) != 2:
                raise ValueError(f"`{key}` is two columns: of the first and of the second answer")
        if isinstance(self.winner, list) and len(self.winner) != 3:
            raise ValueError("`winner` is one column, or three: first answer, second answer, tie")
        return self


class BattlesKeys(FeatureKeys):
    """What a split says of battles in its rows."""

    battles: Battles | None = Field(
        None, description="The rows also hold two published answers each, and which of them was preferred."
    )

    @model_validator(mode="after")
    def _of_one_question(self) -> BattlesKeys:
        split: Any = self
        if self.battles is not None and (split.dialogue or split.columns.turns):
            raise ValueError("`battles` are of one question each; leave `dialogue` and `columns.turns` out")
        return self

    def named_columns(self) -> dict[str, Any]:
        return {"battles": self.battles.model_dump(exclude={"lists"})} if self.battles else {}

    def reading(self) -> dict[str, Any]:
        # Rows with one prompt have other answers, so copies are kept.
        return {"battles": self.battles.model_dump(mode="json"), "copies": True} if self.battles else {}
