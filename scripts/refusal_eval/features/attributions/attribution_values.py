"""From responses to values: the score of each prompt, and what each of its words adds to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.core.texts import csv_line, escaped_cell
from refusal_eval.data.text_units import UNITS, Span
from refusal_eval.features.attributions.focus_words import EXACT, SUBSTRING, is_focus
from refusal_eval.features.attributions.left_out import asked_prompts, request_id
from refusal_eval.features.attributions.ranking import mean_ranks

DIGITS = 6  # of a value, in nats: single-precision log-probabilities have no more, and equal ones are to tie
TOLERANCE = 0.02  # of the difference that integrated gradients add up to
LEAST_GAP = 1e-3  # nats: below it, differences are those of number formats
CSV_COLUMNS = ("prompt", "word", "begin", "end", "value", "rank", "is_focus", "is_focus_substring")


def log_of_sum(shares: Iterable[float]) -> float | None:
    """Return the logarithm of the sum of probabilities; None where they are all 0."""
    total = math.fsum(shares)
    return math.log(total) if total > 0 else None


def valued(
    prompt: Mapping[str, Any], scores: Mapping[str, float | None], unit: str, focus: str | None
) -> dict[str, Any]:
    """Return the values of a prompt's units: its score minus that without the unit.

    Where a score lacks, or the prompt has one unit, the units have no values and no ranks.

    Args:
        scores: by `request_id`.
        focus: the column with the words to be found; None for none.
    """
    asked = asked_prompts(prompt, unit)
    score = scores.get(prompt["id"]) if asked else None
    spans = [one.span for one in asked if one.span is not None]
    found = []
    for span in spans:
        without = scores.get(request_id(prompt["id"], span))
        found.append(None if score is None or without is None else score - without)
    return row_of(prompt, score, spans, found, focus)


def gradient_row(
    prompt: Mapping[str, Any], item: Mapping[str, Any], line: Mapping[str, Any] | None, unit: str, focus: str | None
) -> dict[str, Any]:
    """Return the values of a prompt's units: the sums of those of their tokens; with `baseline` and `gap`.

    `gap` is what the values of all tokens of the prompt add up to, minus the difference of the scores of prompt and
    baseline; both are None where no gradients are taken. A unit that shares its only token with another one has no
    value.

    Args:
        item: what was asked of the prompt (`gradient_items.gradient_item`).
        line: what was computed; None where nothing was.
        focus: as of `valued`.
    """
    spans = UNITS[unit](prompt["messages"][-1]["content"]) if line is not None else []
    values = line["values"] if line is not None else []
    found = [math.fsum(values[place] for place in own) if own else None for own in item["words"]] if spans else []
    row = row_of(prompt, line["score"] if line is not None else None, spans, found, focus)
    if line is None:
        return {**row, "baseline": None, "gap": None}
    if line["baseline"] is None:  # no gradients
        return {**row, "baseline": None, "gap": None}
    gap = math.fsum(values) - (line["score"] - line["baseline"])
    return {**row, "baseline": line["baseline"], "gap": gap}


def incomplete(row: Mapping[str, Any]) -> bool:
    """Tell whether the values of a row differ from F(prompt) - F(baseline) by more than `TOLERANCE` of it."""
    whole = abs(row["score"] - row["baseline"])
    return bool(abs(row["gap"]) > max(TOLERANCE * whole, LEAST_GAP))


def row_of(
    prompt: Mapping[str, Any],
    score: float | None,
    spans: Sequence[Span],
    values: Sequence[float | None],
    focus: str | None,
) -> dict[str, Any]:
    """Return the row of a prompt: its score, and of each unit place, value, rank and whether it is to be found."""
    text = prompt["messages"][-1]["content"]
    rounded = [None if value is None else round(value, DIGITS) for value in values]
    known = [value for value in rounded if value is not None]
    ranks: list[float | None] = [*mean_ranks(known)] if len(known) == len(rounded) else [None] * len(rounded)
    wanted = (prompt["source"].get("kept", {}).get(focus) or None) if focus is not None else None
    units = []
    for span, value, rank in zip(spans, rounded, ranks, strict=True):
        word = text[span.begin : span.end]
        marks = {rule: None if wanted is None else is_focus(word, wanted, rule) for rule in (EXACT, SUBSTRING)}
        units.append({"word": word, "begin": span.begin, "end": span.end, "value": value, "rank": rank, **marks})
    return {"prompt_id": prompt["id"], "score": score, "focus": wanted, "units": units}


def csv_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a CSV with a row for each unit of each prompt."""
    yield csv_line(CSV_COLUMNS)
    for row in rows:
        for one in row["units"]:
            marks = [None if one[rule] is None else int(one[rule]) for rule in (EXACT, SUBSTRING)]
            numbers = [one["begin"], one["end"], one["value"], one["rank"]]
            yield csv_line([row["prompt_id"], escaped_cell(one["word"]), *numbers, *marks])
