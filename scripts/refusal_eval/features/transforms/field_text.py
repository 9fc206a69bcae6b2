"""Texts with fields: `Ignore the word {focus}.`, filled with what a split keeps of each prompt's row."""

import string
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from refusal_eval.core.texts import is_blank

FIELDS_HELP = "`{focus}` in it stands for the prompt's cell in the column `focus`, which its split keeps "
FIELDS_HELP += "(`columns.keep`); `{{` and `}}` are braces."


def fields_of(text: str) -> list[str]:
    """Return the columns that a text names, each once, in its order.

    Raises:
        ValueError: for braces that are no field.
    """
    found: list[str] = []
    for _, field, form, conversion in string.Formatter().parse(text):
        if field is None:
            continue
        if not field or form or conversion:
            raise ValueError("a field is the name of a column in braces, such as `{focus}`; a brace is written twice")
        found.append(field)
    return list(dict.fromkeys(found))


def filled(text: str, cells: Mapping[str, str | None]) -> str | None:
    """Return a text with the cells of a prompt's row; None if a cell that it names is empty or not there."""
    parts = []
    for before, field, _, _ in string.Formatter().parse(text):
        cell = "" if field is None else cells.get(field)
        if cell is None or (field is not None and is_blank(cell)):
            return None
        parts += [before, cell]
    return "".join(parts)


def _checked(text: str) -> str:
    if is_blank(text):
        raise ValueError("is blank, and would change nothing that a model reads; leave `transform` out")
    try:
        fields_of(text)
    except ValueError as error:
        raise ValueError(f"cannot be filled: {error}") from None
    return text


FieldText = Annotated[str, StringConstraints(min_length=1), AfterValidator(_checked)]
