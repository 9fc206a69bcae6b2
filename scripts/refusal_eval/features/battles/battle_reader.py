"""Battles: two published answers to one question, and which of them was preferred, out of a row of a data set."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.json_text import parse_json
from refusal_eval.core.texts import is_blank, valid_text
from refusal_eval.data.gold import gold_answers
from refusal_eval.data.messages import PART, lost_field
from refusal_eval.data.row_reader import RowReader
from refusal_eval.data.rows import ColumnNames, TableRow, cell_text, kind_of

FIRST, SECOND, TIE = "first", "second", "tie"
# The words of Chatbot Arena's data sets; two bad answers are a tie, as in its ratings.
OUTCOMES = {"model_a": FIRST, "model_b": SECOND, "tie": TIE, "tie (bothbad)": TIE, "both_bad": TIE}
YES, NO = ("1", "1.0", "true", "True"), ("0", "0.0", "false", "False")


class BattleReader(RowReader):
    """Reads battles."""

    field = "battle"
    unused = "that are no battle of one question"
    copies = "another battle each"

    def named_columns(self) -> list[str | None]:
        winner = self.columns["winner"]
        winners = winner if isinstance(winner, list) else [winner]
        others = [self.columns["llm_winner"], self.columns.get("sensitive")]
        return [*self.columns["answers"], *self.columns["models"], *winners, *others]

    def read(self, row: TableRow, columns: ColumnNames, place: str) -> dict[str, Any] | str:
        return read_battle(row, columns, self.columns, place)

    @staticmethod
    def answers(prompts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        # Sample 0 is the first answer of each, sample 1 the second.
        pairs = ({"id": prompt["id"], "answer": text} for prompt in prompts for text in prompt["battle"]["answers"])
        return [row | {"sample": number % 2} for number, row in enumerate(gold_answers(pairs))]


def read_battle(row: TableRow, columns: ColumnNames, battles: ColumnNames, place: str) -> dict[str, Any] | str:
    """Return a row's battle, or a description of the row if it is not one question with two answers.

    Returns:
        `prompt`, `answers` and `models` (first and second), `winner` (first, second or tie) and `llm_winner` (the same
        or None). With a column for it `sensitive`, whether the question is, or None.

    Args:
        row: a row of the source.
        columns: the split's columns; with `messages` the cells of answers are conversations.
        battles: `battles_keys.Battles` as a mapping.
        place: what messages begin with.

    Raises:
        UserError: for a cell of another form, and an unknown preference.
    """
    cells = [(column, row.get(column)) for column in battles["answers"]]
    texts: list[Any]
    if columns.get("messages"):
        talks = [_as_list(cell, f"{place}: column `{column}`") for column, cell in cells]
        if any([_field(message, "role") for message in talk] != ["user", "assistant"] for talk in talks):
            return "of several turns"
        if lost := next(filter(None, map(lost_field, itertools.chain(*talks))), None):
            return f"with the field `{lost}` in a message, which would be lost"
        (asked, first), (other, second) = ([_text(_field(message, "content")) for message in talk] for talk in talks)
        if asked != other:
            return "with two different questions"
        texts = [asked, first, second]
    else:
        cells.insert(0, (columns["prompt"], row.get(columns["prompt"])))
        texts = [cell for _, cell in cells]
        if battles["lists"]:
            lists = [_as_list(cell, f"{place}: column `{column}`") for column, cell in cells]
            if any(len(turns) != 1 for turns in lists):
                return "of several turns"
            texts = [turns[0] for turns in lists]
    prompt, *answers = ("" if text is None else text for text in texts)
    if not all(isinstance(text, str) for text in (prompt, *answers)):
        return "with more than text"
    if is_blank(prompt):
        return "without a question"
    try:
        prompt, *answers = (valid_text(text, place) for text in (prompt, *answers))
    except UserError:
        return "with half a character"
    models = [cell_text(row, column, place) for column in battles["models"]]
    winner = _winner(row, battles["winner"], place)
    if winner is None or None in models:
        return "without a preference or a model's name"
    about: dict[str, Any] = {
        "models": models,
        "winner": winner,
        "llm_winner": _winner(row, battles["llm_winner"], place),
    }
    if battles.get("sensitive"):
        about["sensitive"] = _yes(row, battles["sensitive"], place)
    return {"prompt": prompt, "answers": answers, **about}


def _yes(row: TableRow, column: str, place: str) -> bool | None:
    """Whether a cell says yes; None for an empty one."""
    word = cell_text(row, column, place)
    if word is not None and word not in (*YES, *NO):
        raise UserError(f"{place}: column `{column}` must be 1 or true, 0 or false, or empty, not `{word[:40]}`")
    return None if word is None else word in YES


def _winner(row: TableRow, column: str | list[str] | None, place: str) -> str | None:
    """What was preferred; None for an empty cell, or without a column."""
    if isinstance(column, list):
        cells = [cell_text(row, one, place) for one in column]
        chosen = [name for name, cell in zip((FIRST, SECOND, TIE), cells, strict=True) if cell in YES]
        if len(chosen) != 1 or any(cell not in (*YES, *NO) for cell in cells):
            shown = ", ".join(f"`{one}` {cell}" for one, cell in zip(column, cells, strict=True))
            raise UserError(f"{place}: one of the columns of `winner` must be 1 and the others 0, not {shown}")
        return chosen[0]
    word = cell_text(row, column, place)
    if word is not None and word not in OUTCOMES:
        known = ", ".join(f"`{one}`" for one in OUTCOMES)
        raise UserError(f"{place}: column `{column}` holds the preference `{word[:40]}`; it must be one of {known}")
    return word and OUTCOMES[word]


def _as_list(cell: Any, place: str) -> list[Any]:
    """A cell that is a list, or a JSON list as text."""
    try:
        found = parse_json(cell) if isinstance(cell, str) else cell
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place} is text, but not a JSON list: {error}") from error
    if not isinstance(found, list):
        raise UserError(f"{place} must be a list, not {kind_of(found)}")
    return found


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else None


def _text(content: Any) -> Any:
    """The text of a message; a list of text parts is one text, and what has other parts stays as it is."""
    if isinstance(content, list) and all(
        _field(part, "type") == "text" and lost_field(part, PART) is None for part in content
    ):
        return "".join(str(_field(part, "text") or "") for part in content)
    return content
