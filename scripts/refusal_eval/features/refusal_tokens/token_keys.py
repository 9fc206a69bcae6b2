"""The key `refusal_tokens` of a model's entry, and that of a study file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.kinds import CHANGES
from refusal_eval.config.shapes import Entry, Number, Slug, Text

REFUSE, RESPOND = "refuse", "respond"
MOST_TOKENS = 100  # vLLM gives the log-probabilities of 128 named tokens with one request
# What makes the first token of a reply another one, or leaves no engine to ask for it.
NOT_WITH = ("prefill", "reasoning", "recorded")


class RefusalTokens(Entry):
    """The control tokens with which a model was trained to begin its replies (docs/reference/refusal_tokens.md). An
    entry with them stands for a model for each token: its branches, whose replies begin with that token."""

    refuse: Text | Annotated[dict[Slug, Text], Field(min_length=1, max_length=MOST_TOKENS)] = Field(
        description="The token before a refusal, such as `[refuse]`; or several by name, one for each category of "
        "refusals. Each is one token behind the prompt."
    )
    respond: Text = Field(description="The token before other replies, such as `[respond]`.")
    of: Slug | None = Field(None, description="Written into each branch: the entry that it is a branch of.")
    branch: Slug | None = Field(None, description="Written into each branch: the name of its token.")

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens by the names of their branches; `respond` comes last."""
        several = self.refuse if isinstance(self.refuse, dict) else {}
        refusing = {f"{REFUSE}-{name}": text for name, text in several.items()} or {REFUSE: str(self.refuse)}
        return {**refusing, RESPOND: self.respond}

    @model_validator(mode="after")
    def _each_token_once(self) -> RefusalTokens:
        texts = list(self.tokens.values())
        if twice := next((text for text in texts if texts.count(text) > 1), None):
            raise ValueError(f"names the token {twice!r} twice")
        if (self.of is None) != (self.branch is None):
            raise ValueError("`of` and `branch` are written into branches, and no entry has them of its own")
        return self


class RefusalTokenKeys(FeatureKeys):
    """What a model's entry says of its refusal tokens."""

    makes_several: ClassVar[str | None] = "refusal_tokens"
    family_requests: ClassVar[str] = "token_requests"

    refusal_tokens: RefusalTokens | None = Field(
        None,
        description="Tokens with which the model was trained to begin refusals and other replies. The entry then "
        "stands for models whose replies begin with each of them (`NAME.refuse`, `NAME.respond`), and a study that "
        "names it has them all, and the probabilities of the tokens (docs/reference/refusal_tokens.md).",
    )

    def several(self, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the branches."""
        asked, label = self.refusal_tokens, getattr(self, "label", None)
        if asked is None or asked.of is not None:
            return
        for branch, text in asked.tokens.items():
            changes = {"refusal_tokens": {"of": name, "branch": branch}, "prefill": text}
            yield f"{name}.{branch}", changes | ({"label": f"{label}, {branch}"} if label else {})

    def family(self) -> str | None:
        """Return the entry that a branch is of."""
        return self.refusal_tokens.of if self.refusal_tokens is not None else None

    @model_validator(mode="after")
    def _the_first_token_is_the_models_own(self) -> RefusalTokenKeys:
        asked = self.refusal_tokens
        if asked is None:
            return self
        keys = [key for key in (*NOT_WITH, *CHANGES.names()) if getattr(self, key, None) is not None]
        if asked.of is not None:
            keys = [key for key in keys if key != "prefill"]
        if keys:
            raise ValueError(f"`refusal_tokens` are not for models with `{keys[0]}`; leave one of them out")
        return self


def branch_of(model: Any) -> RefusalTokens | None:
    """Return the tokens of a model that is a branch; None for others."""
    found = RefusalTokenKeys.of(model).refusal_tokens
    return found if found is not None and found.of is not None else None


def _each_once(values: list[float]) -> list[float]:
    if len(set(values)) < len(values):
        raise ValueError("names a value twice")
    return values


class TokenChoice(Entry):
    """The points of the curve over the threshold that table and figure name. Changing them asks no model and no judge
    again (docs/reference/refusal_tokens.md)."""

    thresholds: Annotated[list[Annotated[Number, Field(ge=0, le=1)]], AfterValidator(_each_once)] = Field(
        [0.5],
        min_length=1,
        max_length=20,
        description="Thresholds t: a prompt is answered behind a refusal token where its q is at least t.",
    )
    temperatures: Annotated[list[Annotated[Number, Field(gt=0)]], AfterValidator(_each_once)] = Field(
        [1.0, 1.5, 2.0],
        min_length=1,
        max_length=10,
        description="Temperatures T by which the log-probabilities of the tokens are divided before q is their share.",
    )


class TokenChoiceKeys(FeatureKeys):
    """What a study says of thresholds on refusal tokens."""

    refusal_tokens: TokenChoice | None = Field(
        None,
        description="Thresholds and temperatures at which models with `refusal_tokens` are shown. Default: threshold "
        "0.5, temperatures 1, 1.5 and 2.",
    )
