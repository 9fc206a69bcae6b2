"""Right answers: those of a split's prompts that have one, and whether a text gives it."""

import re
from decimal import Decimal, InvalidOperation
from typing import Literal

Match = Literal["number", "choice"]

_NUMBER = re.compile(r"[-\u2212]?\d[\d,\u202f\u00a0]*(?:\.\d+)?")
_CHOICE = re.compile(r"(?<![A-Za-z])([A-J])(?![A-Za-z'\u2019])")


def right_answer(text: str, match: str) -> str:
    """Return the answer that a cell of a split's source holds, as `is_right` compares it.

    Args:
        text: the cell.
        match: `number`, or `choice`: a letter from A to J.

    Raises:
        ValueError: if the cell holds none; the message says so.
    """
    if match == "choice":
        letter = text.strip().strip("().").upper()
        if not re.fullmatch("[A-J]", letter):
            raise ValueError(f"{text!r} is no letter from A to J")
        return letter
    try:
        return str(_decimal(text))
    except InvalidOperation:
        raise ValueError(f"{text!r} is no number") from None


def is_right(answer: str, right: str, match: str) -> bool:
    """Tell whether the last number in an answer, or the last capital letter that stands alone, is the right one.

    Args:
        answer: its text.
        right: the right answer, of `right_answer`.
        match: `number` or `choice`.
    """
    if match == "choice":
        letters = _CHOICE.findall(answer)
        return bool(letters) and bool(letters[-1] == right)
    numbers = _NUMBER.findall(answer)
    return bool(numbers) and _decimal(numbers[-1]) == Decimal(right)


def _decimal(text: str) -> Decimal:
    """Return a number without marks of thousands; finite, as its pattern has no letters."""
    number = Decimal(re.sub(r"[,\s\u202f\u00a0]", "", text).replace("\u2212", "-"))
    if not number.is_finite():
        raise InvalidOperation
    return number
