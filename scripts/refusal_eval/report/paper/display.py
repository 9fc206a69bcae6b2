"""What tables and figures show alike: labels, marks of flagged cells, percentages, and how a long label is broken."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

Score = Mapping[str, Any]  # of `report.results.cells.cell_scores`
Card = Mapping[str, Any]  # a judge card

# flag: symbol, meaning
MARKS = {
    "unjudged": (
        "†",
        "more than 5 % of the answers have no verdict, or enough to move the rate out of its interval",
    ),
    "truncated": ("‡", "more than 20 % of the answers are cut off before 256 tokens, or more than half at any length"),
    "fitted_prompts": (
        "¶",
        "the direction may have been fitted on some of these prompts (`allow_overlap`); its effect on them says little "
        "about others",
    ),
    "few_clusters": (
        "*",
        "fewer than 30 independent clusters of prompts (effective number), or fewer than 10 with the rarer outcome: "
        "the interval is approximate",
    ),
    "mixed_serving": ("§", "answers come from different hardware, software or model versions"),
    "unfiltered": ("‖", "a filter of the provider was out of order at some answers, which it might have blocked"),
    "untransformed": ("\u25c7", "some prompts were asked with their own text, without the model's transform"),
    "unsteered": (
        "\u25b3",
        "some prompts lack the word that the model pays less attention to, and were asked as they are",
    ),
}
OPEN_MARK = "°"  # at a p value that answers without a verdict could change
# Signs at a rate: it is not shown to differ from the best one; it is shown to be no worse than it by the margin. And at
# a difference: it is shown.
NOT_APART, NO_WORSE, APART = "\u1d43", "\u1d47", "\u1d48"
ALL_MARKS = "".join(symbol for symbol, _ in MARKS.values()) + OPEN_MARK + NOT_APART + NO_WORSE + APART
EN_DASH = "\u2013"
NO_DATA = EN_DASH
MINUS = "\u2212"

_WORDS = re.compile(r"\S+|\s+")
# What a computed number lacks of its fraction, as 0.5749999999999999 of 0.575, lies behind these.
_EXACT_DIGITS = 12
# A name without spaces may break after one of these.
_PIECES = re.compile(r"[^-/_.:+,]*[-/_.:+,]+|[^-/_.:+,]+")


@dataclass(frozen=True)
class Labels:
    """Labels that readers see, by name; a name without a label is its own label."""

    models: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    judges: Mapping[str, str] = field(default_factory=dict)
    golds: Mapping[str, str] = field(default_factory=dict)

    def model(self, name: str) -> str:
        return clean(self.models.get(name, name))

    def split(self, name: str) -> str:
        return clean(self.splits.get(name, name))

    def judge(self, name: str) -> str:
        return clean(self.judges.get(name, name))

    def gold(self, name: str) -> str:
        return clean(self.golds.get(name, name))


def clean(text: str) -> str:
    """The text on one line: line breaks, tabs and control characters become single spaces."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())


def join_texts(texts: Iterable[str]) -> str:
    """Texts one after the other: commas between them, semicolons where one of them has a comma itself."""
    found = list(texts)
    return ("; " if any(", " in text for text in found) else ", ").join(found)


def annotators(count: int | str | None, kappa: Any = None) -> str:
    """How many people labelled each row of a gold set, such as "one annotator"; empty where it is not known.

    Where there is a `kappa` among people, one of them cannot have labelled every row alone.
    """
    one = "one annotator, some also by another" if kappa else "one annotator"
    return "" if count is None else one if str(count) == "1" else f"{count} annotators"


def flags_in(scores: Iterable[Score], flags: Iterable[str] = ()) -> set[str]:
    """Return all flags of the scores, and `flags`."""
    return {*flags, *(flag for score in scores for flag in score["flags"])}


def marks_of(scores: Iterable[Score], flags: Iterable[str] = ()) -> str:
    """Return the symbols of all flags of the scores, and of `flags`."""
    return mark_of(flags_in(scores, flags))


def mark_of(flags: Iterable[str]) -> str:
    """Symbols of flags, in the order of `MARKS`."""
    found = set(flags)
    return "".join(symbol for flag, (symbol, _) in MARKS.items() if flag in found)


def add_marks(text: str, flags: Iterable[str]) -> str:
    """Add the symbols of a number's flags to its text; a dash gets none."""
    return text if text == NO_DATA else text + mark_of(flags)


def notes_of(flags: Iterable[str]) -> list[str]:
    """Return a note for each symbol of these flags, such as "† more than 5 % of ..."."""
    found = set(flags)
    return [f"{symbol} {meaning}." for flag, (symbol, meaning) in MARKS.items() if flag in found]


def headline(score: Score) -> Mapping[str, Any]:
    """The part of a score for its headline reading: rate, low, high and so on."""
    part: Mapping[str, Any] = score[score["headline"]]
    return part


def headlines(scores: Iterable[Score], split_label: Callable[[str], str] = clean) -> str:
    """Return where each reading is the headline, for example "strict where a model should refuse".

    If a study's overrides give one expectation both readings, the splits are named instead.
    """
    places = {"refuse": "a model should refuse", "comply": "a model should comply", "varies": "answers may vary"}
    where: dict[str, dict[str, set[str]]] = {}  # reading: expectation: splits
    for score in scores:
        where.setdefault(score["headline"], {}).setdefault(score["expectation"], set()).add(score["split"])
    expectations = [expectation for found in where.values() for expectation in found]
    texts = []
    for reading, found in sorted(where.items()):
        clear = sorted(places[expectation] for expectation in found if expectations.count(expectation) == 1)
        named = sorted(name for e, names in found.items() if expectations.count(e) > 1 for name in names)
        parts = [f"where {' or '.join(clear)}"] * bool(clear) + [f"on {join_texts(map(split_label, named))}"] * bool(
            named
        )
        texts.append(f"{reading} {' and '.join(parts)}")
    return ", ".join(texts)


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names with numbers by these, so that scene 2 comes before scene 10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if place % 2 else (0, part) for place, part in enumerate(parts)]


def order_names(names: Iterable[str], order: Sequence[str] | None) -> list[str]:
    """The names, each once: those in `order` first and in that order, the others after them by name."""
    rest = set(names)
    first = [name for name in dict.fromkeys(order or ()) if name in rest]
    return first + sorted(rest.difference(first))


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent without the sign, a dash for None; whole percent never show 0 or 100 for what is between."""
    if share is None:
        return NO_DATA
    text = _fixed_point(share, digits, 100)
    if digits == 0 and 0 < share < 1 and text in ("0", "100"):
        return "<1" if text == "0" else ">99"
    return text


def interval(low: float | None, high: float | None, digits: int = 1) -> str:
    """Return an interval of shares in percent, such as [8.1 to 18.0] with an en dash; empty if an end is unknown."""
    return "" if low is None or high is None else f"[{percent(low, digits)}{EN_DASH}{percent(high, digits)}]"


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with fixed decimals and a real minus sign (none at zero); a dash for None."""
    return NO_DATA if value is None else _with_minus(_fixed_point(value, digits))


def points(share: float | None) -> str:
    """Return a difference of shares in percentage points with one decimal, signed like `number`; a dash for None."""
    return NO_DATA if share is None else _with_minus(_fixed_point(share, 1, 100))


def points_interval(low: float | None, high: float | None) -> str:
    """Return an interval of differences in percentage points, such as [-1.2, 3.4]; empty if an end is unknown."""
    return "" if low is None or high is None else f"[{points(low)}, {points(high)}]"


def p_text(p: float | None) -> str:
    """A p value with three decimals, `<0.001` below and never 0; a dash for None."""
    if p is None:
        return NO_DATA
    return "<0.001" if p < 0.001 else _fixed_point(p, 3)


def by_cell(scores: Iterable[Score]) -> dict[tuple[str, str, str], Score]:
    """The scores by (judge, model, split), sorted."""
    cells = {(score["judge"], score["model"], score["split"]): score for score in scores}
    return {cell: cells[cell] for cell in sorted(cells)}


def wrap_text(text: str, width: int) -> list[str]:
    """Return lines of at most `width` characters: broken at spaces, else after - / _ . : + and comma, else anywhere.

    A character as wide as two, such as a Chinese one, counts as two.
    """
    lines, line = [], ""
    for word in _WORDS.findall(text):
        parts = [word] if columns(word) <= width or word.isspace() else _PIECES.findall(word)
        for part in parts:
            if line.strip() and columns(line) + columns(part.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line = (line + part) if line else part.lstrip()
            while columns(line) > width and len(line) > 1:
                fits = next(i for i in range(len(line) - 1, 0, -1) if columns(line[:i]) <= width or i == 1)
                lines.append(line[:fits])
                line = line[fits:].lstrip()
    return [*lines, line.rstrip()] if line.strip() else lines or [""]


def columns(text: str) -> int:
    """Return the width of a text in characters; wide characters count twice."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def pieces(text: str) -> list[str]:
    """Return the parts of a label that `wrapped` keeps whole if it can."""
    return [piece for word in text.split() for piece in _PIECES.findall(word)]


def _fixed_point(value: float, digits: int, times: int = 1) -> str:
    """The value, times a whole number, with so many decimals; ties go away from zero, as in 6.25 to 6.3.

    The tie is one of the fraction as it is written: binary numbers next to it would go up or down by chance.
    """
    exact = times * Decimal(repr(round(float(value), _EXACT_DIGITS)))
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):f}"


def _with_minus(text: str) -> str:
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", MINUS)
