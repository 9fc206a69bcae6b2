"""A prompt as it is asked for an attribution: whole, and without each of its words or sentences."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from refusal_eval.data.text_units import UNITS, Span, without

# About how many tokens one of them has, for a plan.
_TOKENS = {"word": 1.35, "sentence": 20.0}


class LeftOut(NamedTuple):
    """A prompt without one unit; `span` is None for the whole one."""

    span: Span | None
    messages: list[dict[str, str]]


def asked_prompts(prompt: Mapping[str, Any], unit: str) -> list[LeftOut]:
    """Return the prompt, then the prompt without each unit of the last turn of the user, in their order.

    A prompt of one unit, which would be empty without it, gives none.
    """
    *before, last = prompt["messages"]
    spans = UNITS[unit](last["content"])
    if len(spans) < 2:
        return []
    left = [LeftOut(span, [*before, {**last, "content": without(last["content"], span)}]) for span in spans]
    return [LeftOut(None, [*before, last]), *left]


def asked_about(tokens: float, unit: str) -> float:
    """Return about how many that are for a prompt of so many tokens."""
    return 1.0 + max(2.0, tokens / _TOKENS[unit])


def request_id(prompt_id: str, span: Span | None) -> str:
    """Return what the request without a unit is called: the prompt's id, and where the unit is."""
    return prompt_id if span is None else f"{prompt_id}.{span.begin}-{span.end}"
