"""Tables as HTML, for a page that anyone can open: the rows, marks and notes of the other forms, and no other number.

Numbers are aligned as in LaTeX: what follows a number has a column of its own or, in a wide table, a line of its own.
"""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from refusal_eval.core.texts import visible
from refusal_eval.report.paper.answer_page import CellLink
from refusal_eval.report.paper.display import ALL_MARKS, NO_DATA
from refusal_eval.report.paper.markup import Table, number_parts

_MOST_BESIDE = 4  # columns of numbers with intervals that have room for both on one line
_SHORT = 6  # characters of a cell without a number, such as "<0.001", that stands where numbers do
_SHORT_NAME = 24  # characters of a name that stays on one line
_SIDES = {"l": "left", "c": "middle", "r": "right"}


@dataclass(frozen=True)
class _Column:
    """How one column is shown.

    Attributes:
        side: where its text stands, and `begins` where a group of columns does.
        key: whether it names the rows.
        parted: whether what follows a number has a column of its own.
    """

    side: str
    key: bool
    parted: bool


def html_table(table: Table, link: CellLink | None = None) -> str:
    """Return the table as a `figure`, caption above and notes below; labels cannot turn into markup.

    Args:
        link: where a cell leads that is about answers; None for a table without links.
    """
    columns, stacked = _columns(table)
    head = "".join(map(_head, table.header[table.headings :], columns))
    notes = "".join(f"<p>{html_escaped(note)}</p>\n" for note in table.notes)
    return (
        f'<figure class="tabular">\n<figcaption><p><b>{html_escaped(table.caption)}</b></p></figcaption>\n'
        f'<div class="wide"><table class="{"stacked" if stacked else "beside"}">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{_rows(table, columns, link)}</tbody>\n</table></div>\n"
        f'<div class="notes">\n{notes}</div>\n</figure>\n'
    )


def _columns(table: Table) -> tuple[list[_Column], bool]:
    """Return the columns below the headings, and whether what follows a number stands on a line of its own."""
    shown = range(table.headings, len(table.header))
    wide = {i for i in shown if any(_rest(row[i]).startswith(("[", "(")) for row in table.rows)}
    stacked = len(wide) > _MOST_BESIDE
    groups = ["", *table.groups] if table.groups else [""] * (len(table.header) - table.keys + 1)
    columns = []
    for i in shown:
        begins = i > table.keys and groups[i - table.keys] != groups[i - table.keys + 1]
        side = _SIDES[table.align[i]] + " begins" * begins
        columns.append(_Column(side, i < table.keys, not stacked and i in wide))
    return columns, stacked


def html_escaped(text: str) -> str:
    """The text with all that means something in HTML made harmless; line breaks stay breaks, codes show the unseen."""
    return html.escape(visible(text)).replace("\n", "<br>")


def _head(text: str, column: _Column) -> str:
    name, bracket, rest = text.rpartition("\n(") if "\n(" in text else (text, "", "")
    small = f"<small>{html_escaped(f'({rest}')}</small>" if bracket else ""
    side, span = column.side, ""
    if column.parted:
        side, span = side.replace("right", "middle"), ' colspan="2"'
    return f'<th scope="col" class="{side}"{span}>{html_escaped(name)}{small}</th>'


def _rows(table: Table, columns: Sequence[_Column], link: CellLink | None) -> str:
    lines = []
    addresses = {place: link(cell) for place, cell in table.about.items()} if link else {}
    span = sum(1 + column.parted for column in columns)
    for heading, rows in table.sections():
        if heading:
            title = html_escaped(heading)
            lines.append(f'<tr class="heading"><th colspan="{span}" scope="rowgroup">{title}</th></tr>\n')
        above: Sequence[str] = ()
        for number in rows:
            row, names = table.rows[number][table.headings :], table.keys - table.headings
            # Names that the row above has as well; the last one always is its own.
            same = next((i for i in range(names - 1) if above[i] != row[i]), names - 1) if above else 0
            group = ' class="group"' * bool(names > 1 and above and not same)
            bold = {i - table.headings for of, i in table.bold if of == number}
            cells = [
                _cell(row[i], column, i in bold, i < same, addresses.get((number, i + table.headings)))
                for i, column in enumerate(columns)
            ]
            lines.append(f"<tr{group}>{''.join(cells)}</tr>\n")
            above = row
    return "".join(lines)


def _cell(cell: str, column: _Column, bold: bool, again: bool, address: str | None) -> str:
    strong: Callable[[str], str] = "<b>{}</b>".format if bold else "{}".format
    if column.key:
        style = column.side + " short" * (len(cell) <= _SHORT_NAME) + " again" * again
        return f'<th scope="row" class="{style}">{strong(html_escaped(cell))}</th>'
    number, rest = number_parts(cell) or (cell, "")
    shown = strong(html_escaped(number))
    if address and cell not in ("", NO_DATA):
        shown = f'<a class="answers" href="{html.escape(address)}">{shown}</a>'
    if column.parted:
        if not rest and number_parts(cell) is None and len(cell) > _SHORT:
            return f'<td colspan="2" class="{column.side}">{shown}</td>'
        return f'<td class="{column.side} number">{shown}</td><td class="rest">{html_escaped(rest)}</td>'
    aside = rest.rstrip(ALL_MARKS)
    marks = rest[len(aside) :]
    shown += f'<span class="marks">{html_escaped(marks)}</span>' * bool(marks)
    shown += f'<span class="line">{html_escaped(aside)}</span>' * bool(aside)
    return f'<td class="{column.side}">{shown}</td>'


def _rest(cell: str) -> str:
    return (number_parts(cell) or ("", ""))[1]
