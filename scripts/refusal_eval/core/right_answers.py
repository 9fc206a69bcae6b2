"""Right answers: those of a split's prompts that have one, and whether a text gives it."""

import re
from decimal import Decimal, InvalidOperation
from typing import Literal

Match = Literal["number", "choice"]

# Letters of scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana and Chinese characters.
_UNSPACED = (
    r"(?!\d)[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
# A sign counts unless it could subtract; thousands separators precede three digits.
_NUMBER = re.compile(
    rf"(?:(?<!(?!{_UNSPACED})[\w.)\]])[-\u2212])?"
    r"(?:(?:(?<![\d.,])\d{1,3}(?:[,\u00a0\u2009\u202f]\d{3})+(?!\d)|\d+)(?:\.\d+)?"
    rf"|(?<!(?!{_UNSPACED})[\w.,)\]])\.\d+)"
)
_RANGE = re.compile(rf"(?<=\d)(\s?(?:{_UNSPACED}){{1,3}})[-\u2212](?=[\d.,]+\1)")  # of numbers with a unit
_LATEX_MARK = re.compile(r"(?<=\d)(?:\{,\}|\\[,;:! ]|\{\\,\})(?=\d{3})")  # of thousands, as LaTeX sets it apart
_MARKED = re.compile(r"[-+]?\d{1,3}(?:[,\s]\d{3})+(?:\.\d*)?")  # a whole number with marks of thousands
_MARKS = r"[\s*_(\"'`\[]"
# A letter behind one of these words; "Answer: I believe", "Answer: A dog" and "I can answer a question" name none.
_SAID = re.compile(
    rf"(?i:answer|choice|option)(?i:[\s*_]+is\b)?{_MARKS}*(?P<colon>:{_MARKS}*)?"
    r"(?P<letter>[A-J](?![A-Za-z'\u2019])(?!(?(colon)(?<=[AI])|(?<=I))\s+(?!(?:is|because|since|as|and|or)\b)[a-z])"
    r"|[a-j](?=[)\]]|[*_\"'`]*(?:[.,;:!?](?!\w)|[ \t\r]*$)))",
    re.MULTILINE,
)
# A single letter, except the pronoun and the article.
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

    `number`: the last number in it, also with LaTeX's marks of thousands (`1{,}277`). `choice`: the last letter from A
    to J behind "answer", "choice" or "option", a small one only before a bracket, punctuation or the end of its line;
    else the last capital one that stands alone, but not `I` and `A` before a word in small letters.

    Args:
        right: the right answer, of `right_answer`.
        match: `number` or `choice`.
    """
    if match == "choice":
        letters = [found["letter"].upper() for found in _SAID.finditer(answer)] or _LETTER.findall(answer)
        return bool(letters) and bool(letters[-1] == right)
    numbers = _NUMBER.findall(_RANGE.sub(r"\1 ", _LATEX_MARK.sub(",", answer)))
    return bool(numbers) and _decimal(numbers[-1]) == Decimal(right)


def _decimal(text: str) -> Decimal:
    """Return a number without its thousands separators; any other comma makes it invalid."""
    text = text.strip().replace("\u2212", "-")
    number = Decimal(re.sub(r"[,\s]", "", text) if _MARKED.fullmatch(text) else text)
    if not number.is_finite():
        raise InvalidOperation
    return number
