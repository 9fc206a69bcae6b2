"""Where the files of one split lie in a folder of the published layout, and how their rows are read.

What stands in them is told in published_layout.py. Nothing heavy is imported here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json

Row = Mapping[str, Any]
Place = tuple[str, int, int]  # prompt id, sample, turn

ROUNDING = 1e-6  # by which float32 may exceed a limit
SMALLEST = 2.0**-126  # of float32, in which the published score is computed; what is nearer to 0 is 0


class Limits(NamedTuple):
    """What a number of a file can be: from `least` to `most`, or `none` where there is none."""

    least: float
    most: float
    none: float | None = None

    def __str__(self) -> str:
        return f"from {self.least:g} to {self.most:g}" + ("" if self.none is None else f", or {self.none:g} for none")


PROBABILITY, VOTE, PERCENTAGE = Limits(0, 1, -1), Limits(-1, 1), Limits(0, 100)


def layout_list(path: Path) -> list[Any]:
    """Return the list that one of the files is.

    Raises:
        UserError: if it is missing or no list.
    """
    if not path.is_file():
        raise UserError(f"there is no {path}")
    rows = read_json(path)
    if not isinstance(rows, list):
        raise UserError(f"{path} is not of the published layout: a list over the prompts was expected")
    return rows


def layout_rows(path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of a file over the prompts.

    Raises:
        UserError: if it is missing or not of this layout.
    """
    rows = layout_list(path)
    if not all(isinstance(row, dict) and isinstance(row.get("prompt"), str) for row in rows):
        message = "a list of mappings with `prompt`, a text, was expected"
        raise UserError(f"{path} is not of the published layout: {message}")
    return rows


def matched(prompts: Sequence[Row], rows: Sequence[Row]) -> dict[str, int]:
    """Return the place of each prompt's row, by its id, as far as there is one; rows that stand twice come in turn.

    Prompts are the same where their texts are, without the white space around them, which the published code takes
    away.
    """
    left: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        left.setdefault(row["prompt"].strip(), []).append(place)
    found = {}
    for prompt in prompts:
        if own := left.get(prompt["messages"][-1]["content"].strip()):
            found[prompt["id"]] = own.pop(0) if len(own) > 1 else own[0]
    return found


def recorded_votes(prompts: Sequence[Row], recorded: Path, judged: Path) -> dict[Place, float]:
    """Return the numbers of judge_scores.json, from +1 to -1, by (prompt id, sample, turn), as far as there are some.

    A number may be a fraction: the mean of what a judge said that was asked several times. It may be about an answer
    without text, which the published code shows to its judge too.

    The rows of judge_scores.json (`judged`) are in the same places as those of answers.json (`recorded`).

    Raises:
        UserError: for files of another layout.
    """
    given = layout_list(judged)
    places = matched(prompts, layout_rows(recorded))
    return {
        (name, sample, 0): vote
        for name, place in places.items()
        if place < len(given)
        for sample, vote in enumerate(votes_of(given[place], row_place(judged, place)))
    }


def row_place(path: Path, row: int) -> str:
    """Return how messages name a row, counted from 0 here and from 1 there."""
    return f"{path}, row {row + 1}"


def votes_of(row: Any, place: str) -> list[float]:
    """Return the labels of one row's answers: of a list of mappings, or of a mapping with a list of numbers."""
    row = row if isinstance(row, dict) else {"answers": row}
    return numbers_of(row, "answers", "label", place, VOTE, "judge_scores")


def numbers_of(
    row: Mapping[str, Any], nested: str, name: str, place: str, limits: Limits, flat: str | None = None
) -> list[float]:
    """Return a row's numbers: `name` of the mappings in its list `nested`, or its list `flat` (`names`).

    Raises:
        UserError: if they are no numbers, or outside of the limits; it begins with `place`.
    """
    flat = flat or f"{name}s"
    values, shown = row.get(flat, row.get(nested)), flat
    if isinstance(values, list) and values and all(isinstance(value, dict) and name in value for value in values):
        values, shown = [value[name] for value in values], name
    if not isinstance(values, list) or any(isinstance(value, dict | list | str) for value in values if shown == flat):
        raise UserError(f"{place}: it has to have a list of answers with `{name}` (or `{flat}`, a list of numbers)")
    return [
        number_of(value, f"{place}: `{shown}` of answer {number}", limits) for number, value in enumerate(values, 1)
    ]


def number_of(value: Any, what: str, limits: Limits) -> float:
    """Return a number of a file.

    Raises:
        UserError: if it is none, or outside of the limits; it begins with `what`.
    """
    found = isinstance(value, int | float) and not isinstance(value, bool)
    if not found or not (value == limits.none or limits.least - ROUNDING <= value <= limits.most + ROUNDING):
        raise UserError(f"{what} is {value!r:.60}; it has to be a number {limits}")
    return float(value) if abs(value) >= SMALLEST else 0.0
