"""From responses to values: the score of each prompt, and what each of its words adds to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from refusal_eval.core.texts import csv_line, escaped_cell
from refusal_eval.features.attributions.focus_words import EXACT, SUBSTRING, is_focus
from refusal_eval.features.attributions.left_out import asked_prompts, request_id
from refusal_eval.features.attributions.ranking import mean_ranks

DIGITS = 6  # of a value, in nats: single-precision log-probabilities have no more, and equal ones are to tie
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
    text, found = prompt["messages"][-1]["content"], list[dict[str, Any]]()
    for span, _ in asked[1:]:
        assert span is not None
        without = scores.get(request_id(prompt["id"], span))
        value = None if score is None or without is None else round(score - without, DIGITS)
        found.append({"word": text[span.begin : span.end], "begin": span.begin, "end": span.end, "value": value})
    values = [one["value"] for one in found]
    ranks: list[float | None] = [None] * len(found) if None in values else [*mean_ranks(values)]
    wanted = (prompt["source"].get("kept", {}).get(focus) or None) if focus is not None else None
    for one, rank in zip(found, ranks, strict=True):
        one["rank"] = rank
        for rule in (EXACT, SUBSTRING):
            one[rule] = None if wanted is None else is_focus(one["word"], wanted, rule)
    return {"prompt_id": prompt["id"], "score": score, "focus": wanted, "units": found}


def csv_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a CSV with a row for each unit of each prompt."""
    yield csv_line(CSV_COLUMNS)
    for row in rows:
        for one in row["units"]:
            marks = [None if one[rule] is None else int(one[rule]) for rule in (EXACT, SUBSTRING)]
            numbers = [one["begin"], one["end"], one["value"], one["rank"]]
            yield csv_line([row["prompt_id"], escaped_cell(one["word"]), *numbers, *marks])
