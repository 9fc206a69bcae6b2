"""Where the files of one split lie in a folder of the published layout, and how their rows are read.

What stands in them is told in published_layout.py. Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.errors import UserError
from refusal_eval.files import read_json

Row = Mapping[str, Any]
Place = tuple[str, int, int]  # prompt id, sample, turn

ANSWERS, JUDGE_SCORES = "answers.json", "judge_scores.json"
# What may end the reasoning in the text of a model that writes harmony's channels: its tokens, what is left of them
# where special tokens are dropped, and the mark that an export of ours puts in their place.
CHANNEL_ENDS = ("<|channel|>final<|message|>", "assistantfinal", "</think>")


def split_folder(folder: str | Path, split: str) -> Path:
    """Return the folder of a split in the results of one model: `SPLIT`, or the one `.../SPLIT` with answers below it.

    Raises:
        UserError: if there is none, or more than one.
    """
    found = sorted(path.parent for path in Path(folder).rglob(f"{split}/{ANSWERS}"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"there is no {split}/{ANSWERS} in {folder} or below")
    shown = ", ".join(str(path) for path in found[:3])
    raise UserError(f"{folder} has the answers of {split} more than once: {shown}; name the folder of one model")


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
    if not all(isinstance(row, dict) and "prompt" in row for row in rows):
        raise UserError(f"{path} is not of the published layout: a list of mappings with `prompt` was expected")
    return rows


def matched(prompts: Sequence[Row], rows: Sequence[Row]) -> dict[str, int]:
    """Return the place of each prompt's row, by its id, as far as there is one; rows that stand twice come in turn.

    Prompts are the same where their texts are, without the white space around them, which the published code takes
    away.
    """
    left: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        left.setdefault(str(row["prompt"]).strip(), []).append(place)
    found = {}
    for prompt in prompts:
        if own := left.get(prompt["messages"][-1]["content"].strip()):
            found[prompt["id"]] = own.pop(0) if len(own) > 1 else own[0]
    return found


def recorded_votes(prompts: Sequence[Row], recorded: Path, judged: Path) -> dict[Place, float]:
    """Return the numbers of judge_scores.json, from +1 to -1, by (prompt id, sample, turn), as far as there are some.

    A number may be a fraction: the mean of what a judge said that was asked several times. It may be about an answer
    without text, which the published code shows to its judge too.

    Args:
        prompts: the split.
        recorded: the file answers.json, whose rows those of `judged` are in the same places.
        judged: the file judge_scores.json.

    Raises:
        UserError: for files of another layout.
    """
    given = layout_list(judged)
    places = matched(prompts, layout_rows(recorded))
    return {
        (name, sample, 0): vote
        for name, place in places.items()
        if place < len(given)
        for sample, vote in enumerate(votes_of(given[place], judged))
    }


def votes_of(row: Any, path: Path) -> list[float]:
    """Return the labels of one row's answers: of a list of mappings, or of a mapping with a list of numbers."""
    return numbers_of(row if isinstance(row, dict) else {"answers": row}, "answers", "label", path, "judge_scores")


def numbers_of(row: Mapping[str, Any], nested: str, name: str, path: Path, flat: str | None = None) -> list[float]:
    """Return a row's numbers: `name` of the mappings in its list `nested`, or its list `flat` (`names`).

    Raises:
        UserError: if they are no numbers.
    """
    flat = flat or f"{name}s"
    values = row.get(flat, row.get(nested))
    if isinstance(values, list) and all(isinstance(value, dict) and name in value for value in values):
        values = [value[name] for value in values]
    if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
        raise UserError(
            f"{path}: each prompt has to have a list of answers with `{name}` (or `{flat}`, a list of numbers)"
        )
    return [float(value) for value in values]
