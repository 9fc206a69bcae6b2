"""Published figures out of a CSV: one row each, checked without knowing the study."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from refusal_eval.core.hints import nearest, nearest_name
from refusal_eval.core.texts import is_blank
from refusal_eval.report.results.dictionary import definition_of, definitions
from refusal_eval.stats.estimates.estimands import READINGS

REQUIRED = ("model", "split", "number", "value", "source")
OPTIONAL = ("category", "judge", "reading", "parameter", "unit", "note")
COLUMNS = (*REQUIRED, *OPTIONAL)
FILLED = ("model", "number", "value", "source")  # a number such as an accuracy on MMLU has no split
PERCENT, SHARE = "percent", "share"
HEADLINE = "headline"  # a reading, of pooled splits
_NUMBER = re.compile(r"[-+\u2212]?\d+(\.\d+)?")
_MISSPELT = 0.9  # a word that is so near to an estimand is taken for a misspelling of it
RowMistake = tuple[int, str]  # a line of the file, and what is wrong there


class Target(NamedTuple):
    """A published figure: `value` as the source writes it, in `unit`; every other column as it is in the file."""

    line: int
    model: str
    split: str
    number: str
    value: Decimal
    source: str
    category: str = ""
    judge: str = ""
    reading: str = ""
    parameter: str = ""
    unit: str = ""
    note: str = ""

    @property
    def is_estimand(self) -> bool:
        """Whether a results table may hold the same quantity."""
        return definition_of(self.number) is not None

    @property
    def is_share(self) -> bool:
        """Whether it is a share or a difference of shares, written as such or in percent."""
        definition = definition_of(self.number)
        shares = definition is not None and "share" in definition.unit
        return self.unit in (PERCENT, SHARE) or (not self.unit and (shares or definition is None))

    @property
    def plain_value(self) -> float:
        """The value in the unit of the results table: shares between 0 and 1."""
        return float(self.value / 100 if self.unit == PERCENT else self.value)


def read_targets(text: str) -> tuple[list[Target], list[RowMistake]]:
    """Return the rows of a CSV without a mistake in their own columns, and the mistakes of the others."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    targets, wrong = list[Target](), list[RowMistake]()
    before = 0
    header: list[str] = []
    try:
        for cells in reader:
            line, before = before + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                wrong += [(line, message) for message in _wrong_header(header)]
                if wrong:
                    return [], wrong
                continue
            if len(cells) != len(header):
                wrong.append((line, f"has {len(cells)} fields, and the header {len(header)}; quote a text with commas"))
                continue
            row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            messages = list(_wrong_row(row))
            wrong += [(line, message) for message in messages]
            if not messages:
                written = Decimal(row["value"].replace("\u2212", "-"))
                targets.append(Target(**row | {"line": line, "value": written}))  # type: ignore[arg-type]
    except csv.Error as error:
        return targets, [*wrong, (before + 1, f"is not valid CSV: {error}")]
    if not header:
        wrong.append((1, f"is empty; its first line names the columns {', '.join(REQUIRED)}"))
    return targets, wrong + list(_twice(targets))


def _wrong_header(header: Sequence[str]) -> Iterator[str]:
    for name in dict.fromkeys(header):
        if name not in COLUMNS:
            yield f"there is no column `{name}`{nearest(name, COLUMNS)}"
        elif header.count(name) > 1:
            yield f"the column `{name}` stands twice; leave one out"
    for name in REQUIRED:
        if name not in header:
            yield f"the column `{name}` is missing; the columns are {', '.join(REQUIRED)} and, if needed, " + ", ".join(
                OPTIONAL
            )


def _wrong_row(row: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with a row by itself."""
    for name in FILLED:
        if is_blank(row[name]):
            why = ": say where it is published, such as a paper's table" if name == "source" else ""
            yield f"`{name}` is empty{why}"
    if row["number"] and not is_blank(row["number"]):
        yield from _wrong_number(row)
    if row["value"] and not _NUMBER.fullmatch(row["value"]):
        yield f"`value` is {row['value']!r:.80}, which is not a number such as 0.27 or 27.4"
    elif row["value"] and _is_known(row):
        yield from _wrong_value(row)
    if row.get("reading") and row["reading"] not in (*READINGS, HEADLINE):
        yield f"there is no reading `{row['reading']}`{nearest(row['reading'], (*READINGS, HEADLINE))}"


def _is_known(row: Mapping[str, str]) -> bool:
    """Tell whether a row's number is an estimand, or another quantity that a note explains."""
    return definition_of(row["number"]) is not None or not is_blank(row.get("note", ""))


def _wrong_number(row: Mapping[str, str]) -> Iterator[str]:
    """Yield that a number is neither an estimand nor another quantity that a note explains."""
    number, known = row["number"], definitions()
    if definition_of(number) is not None:
        return
    explained = not is_blank(row.get("note", ""))
    close = nearest_name(number, known, _MISSPELT) if explained else nearest_name(number, known)
    if explained and close is None:
        return
    hint = f"; did you mean `{close}`?" if close else "."
    other = "" if explained else " If it is another quantity, say in `note` which"
    yield f"there is no number `{number}` in the data dictionary (docs/reference/estimands.md){hint}{other}"


def _wrong_value(row: Mapping[str, str]) -> Iterator[str]:
    """Yield a value that does not fit its unit: shares are between 0 and 1, and between 0 and 100 in percent."""
    number, unit = row["number"], row.get("unit", "")
    value, definition = float(row["value"].replace("\u2212", "-")), definition_of(number)
    if definition is not None and "share" not in definition.unit:
        if unit in (PERCENT, SHARE):
            yield f"`unit` is {unit}, and `{number}` is no share (its unit: {definition.unit}); leave `unit` out"
        return
    if definition is not None and unit not in ("", PERCENT, SHARE):
        yield f"`unit` is {unit!r:.40}, and `{number}` is a share: write `{SHARE}` or `{PERCENT}`"
    elif unit in ("", SHARE, PERCENT):
        most = 100 if unit == PERCENT else 1
        least = -most if definition is not None and "difference" in definition.unit else 0
        if not least <= value <= most:
            other = "" if unit == PERCENT else f"; write `{PERCENT}` under `unit` if it is one"
            free = ", or its own unit" if definition is None and unit == "" else ""
            yield f"`value` is {row['value']}, and a share is between {least} and {most}{other}{free}"


def _twice(targets: Sequence[Target]) -> Iterator[RowMistake]:
    first: dict[tuple[str, ...], int] = {}
    for target in targets:
        names = ("model", "split", "number", "category", "judge", "reading", "parameter", "source")
        key = tuple(getattr(target, name) for name in names)
        if key in first:
            yield target.line, f"the same number of the same source stands in line {first[key]}; leave one out"
        first.setdefault(key, target.line)
