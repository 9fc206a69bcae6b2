"""Right answers: those of a split's prompts that have one, and whether a text gives it."""

import re
from decimal import Decimal, InvalidOperation
from typing import Literal

Match = Literal["number", "choice"]

# A sign counts where nothing is before it that it could subtract from; marks of thousands stand before three digits.
_NUMBER = re.compile(
    r"(?:(?<![\w.)\]])[-\u2212])?(?:(?<![\d.,])\d{1,3}(?:[,\u00a0\u2009\u202f]\d{3})+(?!\d)|\d+)(?:\.\d+)?"
)
_SAID = re.compile(r"(?:answer|choice|option)(?:\s+is|\s*:)?[\s*_(\"'`]*([A-J])(?![A-Za-z'\u2019])", re.IGNORECASE)
# A letter that stands alone, but for the pronoun and the article.
_LETTER = re.compile(r"(?<![A-Za-z])([A-J])(?![A-Za-z'\u2019])(?!(?<=[AI])\s+[a-z])")


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
    """Tell whether an answer is the right one.

    `number`: the last number in it. `choice`: the last letter from A to J behind "answer", "choice" or "option"; else
    the last capital one that stands alone, but not `I` and `A` before a word in small letters.

    Args:
        answer: its text.
        right: the right answer, of `right_answer`.
        match: `number` or `choice`.
    """
    if match == "choice":
        letters = [found.upper() for found in _SAID.findall(answer)] or _LETTER.findall(answer)
        return bool(letters) and bool(letters[-1] == right)
    numbers = _NUMBER.findall(answer)
    return bool(numbers) and _decimal(numbers[-1]) == Decimal(right)


def _decimal(text: str) -> Decimal:
    """Return a number without marks of thousands; finite, as its pattern has no letters."""
    number = Decimal(re.sub(r"[,\s\u00a0\u2009\u202f]", "", text).replace("\u2212", "-"))
    if not number.is_finite():
        raise InvalidOperation
    return number
