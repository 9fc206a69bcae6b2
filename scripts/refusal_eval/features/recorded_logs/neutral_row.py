"""The neutral row: one answer, whatever tool wrote it. One JSON object a line of JSONL, or one row of Parquet."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from refusal_eval.config.shapes import Text
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest_name

State = Literal["complete", "truncated", "blocked", "truncated_reasoning", "empty", "too_long", "failed"]


class NeutralPart(BaseModel):
    """Base of a row and of what is in it: an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NeutralMessage(NeutralPart):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class NeutralLabel(NeutralPart):
    """What a judge of another tool, or a person, said of the answer."""

    by: Text = Field(description="Who: a scorer, a judge, a person.")
    label: Literal["refusal", "partial", "compliance"] | None = Field(None, description="Their label; null for none.")
    probability: float | None = Field(None, ge=0, le=1, description="How likely they hold a refusal, at least in part.")
    reason: str | None = Field(None, description="In their words.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.label is None and self.probability is None and self.reason is None:
            raise ValueError("it has none of `label`, `probability` and `reason`")
        return self


class NeutralBlock(NeutralPart):
    """Who stopped the answer; null where nobody says."""

    by: Literal["classifier", "filter", "policy", "gateway", "guardrail"] | None = None
    stage: Literal["prompt", "answer", "earlier_turn"] | None = None
    category: str | None = Field(None, description="In the provider's words.")
    severity: str | None = Field(None, description="Likewise.")
    partial: str | None = Field(None, description="What came of the answer before; never judged.")
    code: str | None = Field(None, description="The provider's word for it.")


class NeutralUsage(NeutralPart):
    """The tokens that a provider billed."""

    input: int = Field(ge=0, description="Of the prompt, all of them.")
    cached: int = Field(0, ge=0, description="Those of the prompt that came out of its cache.")
    output: int = Field(ge=0, description="Of the answer, reasoning included.")


class NeutralSource(NeutralPart):
    """Where the row was read."""

    file: Text = Field(description="Name of the file, without its folder.")
    line: int | None = Field(None, ge=1, description="Line of a JSONL file; row of another table.")
    member: str | None = Field(None, description="Member of an archive, or the place in a JSON log.")


class NeutralRow(NeutralPart):
    """One answer. Only `answer`, and `prompt` or `messages`, are needed; null is the same as leaving a field out."""

    prompt: Text | None = Field(None, description="What was asked, if it is one message of the user.")
    messages: list[NeutralMessage] | None = Field(
        None, min_length=1, description="What was asked, with system message and earlier turns; the user speaks last."
    )
    model: Text | None = Field(None, description="Who answered.")
    split: Text | None = Field(None, description="Which prompts belong together. Default: those of the file.")
    prompt_id: Text | None = Field(None, description="The other tool's name of the prompt; kept for tracing.")
    sample: int | None = Field(None, ge=0, description="Which answer to the prompt it is, from 0. Default: its place.")
    turn: int | None = Field(
        None, ge=0, description="Of a dialogue: messages of the user before the last one, all of them in `messages`."
    )
    answer: str = Field(description="What the model wrote, without its reasoning; empty where nothing came.")
    reasoning: str | None = Field(None, description="What it wrote before the answer.")
    state: State | None = Field(None, description="What became of the request. Default: what `finish_reason` says.")
    finish_reason: Text | None = Field(None, description="How the answer ended, in the server's word.")
    blocked: NeutralBlock | None = Field(None, description="Who stopped the answer; its state is then `blocked`.")
    declared: bool | None = Field(None, description="Whether the model wrote it into a field for refusals.")
    marks: list[Literal["unfiltered"]] | None = Field(None, description="`unfiltered`: a filter was out of order.")
    usage: NeutralUsage | None = Field(None, description="The tokens that were billed.")
    answer_logprob: float | None = Field(
        None, le=0, description="Mean log-probability of the answer's tokens, in nats; c(x) needs it."
    )
    labels: list[NeutralLabel] | None = Field(None, description="What others said of the answer, one label each.")
    category: Text | None = Field(None, description="Category of the prompt.")
    cluster: Text | None = Field(None, description="Prompts that belong together have one cluster.")
    expectation: Literal["comply", "refuse", "varies"] | None = Field(None, description="What a good model does.")
    source: NeutralSource | None = Field(None, description="Where the row was read; readers add it.")
    reason: str | None = Field(None, description="Why there is no answer, of one that failed.")

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("it needs either `prompt` or `messages`")
        if self.messages and self.messages[-1].role != "user":
            raise ValueError(f"`messages` must end with one of the user, not of `{self.messages[-1].role}`")
        if self.prompt is not None and not self.prompt.strip():
            raise ValueError("`prompt` is blank")
        if self.blocked is not None and self.state not in (None, "blocked"):
            raise ValueError(f"it has `blocked`, but its `state` is `{self.state}`")
        if self.turn:
            before = sum(message.role == "user" for message in self.messages or ()) - 1
            if self.messages is None:
                raise ValueError("a later `turn` needs `messages`, with the earlier turns in them")
            if self.turn != before:
                raise ValueError(f"its `turn` is {self.turn}, and `messages` has {before} of the user before the last")
            if self.prompt_id is None:
                raise ValueError("a later `turn` needs `prompt_id`, by which it is joined with the turns before it")
        names = [label.by for label in self.labels or ()]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"`labels` has two labels of `{twice}`")
        return self


FIELDS = frozenset(NeutralRow.model_fields)


def neutral_row(values: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a row as plain JSON, without what is null.

    Args:
        values: what was read; null counts as left out.
        place: what a message begins with: file and line.

    Raises:
        UserError: for what is no neutral row, with the field.
    """
    try:
        row = NeutralRow.model_validate(_without_null(values)).model_dump(mode="json", exclude_none=True)
        json.dumps(row, ensure_ascii=False).encode("utf-8")
        return row
    except ValidationError as error:
        raise UserError(f"{place}: {_first_of(error, values)}") from error
    except UnicodeEncodeError as error:
        raise UserError(f"{place}: holds half of a surrogate pair, which is no text; mend the text") from error


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


def _first_of(error: ValidationError, values: dict[str, Any]) -> str:
    """Say in one sentence what is wrong first."""
    wrong = error.errors(include_url=False)[0]
    field, said = ".".join(str(part) for part in wrong["loc"]), str(wrong["msg"]).removeprefix("Value error, ")
    if wrong["type"] == "missing":
        return f"has no `{field}`" + (": it is null, or no text" if field in values else "")
    if wrong["type"] == "extra_forbidden":
        close = nearest_name(field, FIELDS)
        return f"has a field `{field[:80]}` that a neutral row does not have" + (
            f"; did you mean `{close}`?" if close else ""
        )
    shown = repr(wrong["input"])
    return f"`{field}` is {shown[:60]}: {said[:1].lower()}{said[1:]}" if field else said
