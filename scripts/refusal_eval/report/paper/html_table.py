"""Tables as HTML, for a page that anyone can open: the rows, marks and notes of the other forms, and no other number.

Numbers are aligned as in LaTeX: what follows a number has a column of its own or, in a wide table, a line of its own.
"""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from refusal_eval.core.texts import visible
from refusal_eval.report.paper.markup import Table, number_parts

_MOST_BESIDE = 4  # columns of numbers with intervals that have room for both on one line
_SHORT = 6  # characters of a cell without a number, such as "<0.001", that stands where numbers do
_SIDES = {"l": "left", "c": "middle", "r": "right"}


@dataclass(frozen=True)
class _Column:
    """How one column is shown.

    Attributes:
        side: where its text stands.
        key: whether it names the rows.
        parted: whether what follows a number has a column of its own.
    """

    side: str
    key: bool
    parted: bool


def html_table(table: Table) -> str:
    """Return the table as a `figure`, caption above and notes below; labels cannot turn into markup."""
    rests = [any(_rest(row[i]).startswith(("[", "(")) for row in table.rows) for i in range(len(table.header))]
    stacked = sum(rests) > _MOST_BESIDE
    columns = [
        _Column(_SIDES[align], i < table.keys, not stacked and any(_rest(row[i]) for row in table.rows))
        for i, align in enumerate(table.align)
    ]
    style = "stacked" if stacked else "beside"
    head = "".join(_head(text, column) for text, column in zip(table.header, columns, strict=True))
    notes = "".join(f"<p>{html_escaped(note)}</p>\n" for note in table.notes)
    return (
        f'<figure class="table">\n<figcaption><p><b>{html_escaped(table.caption)}</b></p></figcaption>\n'
        f'<div class="wide"><table class="{style}">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{_rows(table, columns)}</tbody>\n</table></div>\n"
        f'<div class="notes">\n{notes}</div>\n</figure>\n'
    )


def html_escaped(text: str) -> str:
    """The text with all that means something in HTML made harmless; line breaks stay breaks, codes show the unseen."""
    return html.escape(visible(text)).replace("\n", "<br>")


def _head(text: str, column: _Column) -> str:
    name, bracket, rest = text.partition("\n(")
    small = f"<small>{html_escaped(f'({rest}')}</small>" if bracket else ""
    side, span = ("middle", ' colspan="2"') if column.parted else (column.side, "")
    return f'<th scope="col" class="{side}"{span}>{html_escaped(name)}{small}</th>'


def _rows(table: Table, columns: Sequence[_Column]) -> str:
    rows, above = [], None
    for number, row in enumerate(table.rows):
        keys = row[: table.keys]
        same = 0  # names that the row above has as well
        while above is not None and same < table.keys - 1 and above[same] == keys[same]:
            same += 1
        begins = table.keys > 1 and above is not None and not same
        cells = [
            _cell(cell, column, (number, i) in table.bold, again=i < same)
            for i, (cell, column) in enumerate(zip(row, columns, strict=True))
        ]
        group = ' class="group"' * begins
        rows.append(f"<tr{group}>{''.join(cells)}</tr>\n")
        above = keys
    return "".join(rows)


def _cell(cell: str, column: _Column, bold: bool, again: bool) -> str:
    strong: Callable[[str], str] = "<b>{}</b>".format if bold else "{}".format
    if column.key:
        return f'<th scope="row" class="{column.side}{" again" * again}">{strong(html_escaped(cell))}</th>'
    number, rest = number_parts(cell) or (cell, "")
    shown = strong(html_escaped(number))
    if column.parted:
        if not rest and number_parts(cell) is None and len(cell) > _SHORT:
            return f'<td colspan="2" class="{column.side}">{shown}</td>'
        return f'<td class="right number">{shown}</td><td class="rest">{html_escaped(rest)}</td>'
    kind = "line" if rest.startswith(("[", "(")) else "marks"
    shown += f'<span class="{kind}">{html_escaped(rest)}</span>' if rest else ""
    return f'<td class="{column.side}">{shown}</td>'


def _rest(cell: str) -> str:
    return (number_parts(cell) or ("", ""))[1]
