"""Tables in LaTeX with booktabs and siunitx; nothing that a user wrote can become a command.

siunitx aligns numbers; what follows a number goes into a second column.
"""

import itertools
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from refusal_eval.report.paper.display import MINUS, wrap_text
from refusal_eval.report.paper.latex_text import definitions, latex_escaped
from refusal_eval.report.paper.markup import Table, number_parts

# A table of more lines than this, with its notes, does not fit a page.
LINES_PER_PAGE = 45
GAP = 8.0  # points between two columns of a table
PANEL_GAP = 16.0  # and between two halves of one
# Columns are set a little closer than usual.
_SIZE = "\\footnotesize\\setlength{\\tabcolsep}{4pt}"
# Names of rows are broken after this many characters, where one column names a row and where several do.
KEY_WIDTH, NARROW_KEY_WIDTH = 28, 16
_ONE_COLUMN = " longtable needs one column: put \\onecolumn before it, or the table into a one-column appendix."
_SHORT = 6  # characters of a cell without a number, such as "<0.001", allowed in a column of numbers
# Widths of characters in Computer Modern at the size of tables, as shares of an em: of narrow ones, of capitals and of
# others that are wide, of those as wide as high, and of all others, such as digits.
_EM = 8.5  # points
_CLASSES = ((" .,:;!|'`()[]{}/ijlftrI", 0.33), ("mwMW%@&+=<>~^_#$\u2212\u2020\u2021\u00a7", 0.85))
_CAPITAL, _SQUARE, _OTHER = 0.75, 1.0, 0.5
_BOLD = 1.15


@dataclass(frozen=True)
class LatexColumn:
    """One column of a table in LaTeX."""

    letters: str  # in the preamble of the tabular
    head: str  # its head, finished
    cells: Sequence[str]  # its cells, finished
    width: float  # of its widest line, in points, about
    is_pair: bool = False  # whether it is two columns to LaTeX


@dataclass(frozen=True)
class LatexPage:
    """The page that a table goes onto: widths in points.

    `columns` are those of its text; None where that is not known, and a table is set to suit both one and two.
    """

    line: float = 455.0  # of an A4 page with margins of 2.5 cm
    columns: int | None = None
    column: float | None = None  # the width of one of two columns


_POINTS = 72.27 / 2.54  # of a centimetre


def page_of(paper: Mapping[str, float] | None) -> LatexPage:
    """Return the page of a paper whose widths (`page`, `column`) are in centimetres; one for any paper without."""
    if paper is None:
        return LatexPage()
    line, column = _POINTS * paper["page"], _POINTS * paper["column"]
    return LatexPage(line, 2 if column < line else 1, column)


def latex(table: Table, page: LatexPage = LatexPage()) -> str:
    """The table as a float or, where its rows do not fit a page, a `longtable`; caption above, notes below.

    Columns beyond `per_block`, or beyond the width of a page, follow in blocks below each other, in floats of their
    own where one page does not hold them all. A long table that is narrow enough is set in two halves side by side. The
    first line says which packages it needs (booktabs, siunitx, longtable), and that a longtable needs a single column.
    The label is tab:NAME.
    """
    label = "tab:" + re.sub(r"[^A-Za-z0-9]+", "-", table.name).strip("-")
    blocks, rows = _blocks(table, page), range(len(table.rows))
    height = _height(table, rows)
    parts = []
    if height * len(blocks) <= LINES_PER_PAGE:
        bodies = [_tabular(table, block, rows) for block in blocks]
        parts.append(_float(table, bodies, _is_wide(table, blocks, page), _caption(table, label)))
    elif len(blocks) == 1 and (halves := _halves(table)) and 2 * _width(blocks) + PANEL_GAP <= page.line:
        both = "\\hfill\n".join(_tabular(table, blocks[0], half, "[t]") for half in halves)
        parts.append(_float(table, [both], page.columns != 1, _caption(table, label)))
    for number, block in enumerate(blocks if not parts else (), 1):
        part = f" (part {number} of {len(blocks)})" if len(blocks) > 1 else ""
        caption = _caption(table, label if number == 1 else f"{label}-{number}", part)
        long, wide = height > LINES_PER_PAGE, _is_wide(table, [block], page)
        parts.append(
            _longtable(table, block, caption) if long else _float(table, [_tabular(table, block, rows)], wide, caption)
        )
    text = "\n".join(parts)
    used = {"booktabs": True, "siunitx": "S[" in text, "longtable": "{longtable}" in text}
    packages = ",".join(name for name, needed in used.items() if needed)
    alone = "" if page.columns == 1 else _ONE_COLUMN * used["longtable"]
    return f"% Needs \\usepackage{{{packages}}}.{alone}\n{definitions(text)}{text}"


def _blocks(table: Table, page: LatexPage) -> list[list[LatexColumn]]:
    """Return the blocks of columns that are typeset below each other, each headed by the columns that name the rows."""
    columns = [column(table, i) for i in range(table.headings, len(table.header))]
    names, others = columns[: table.keys - table.headings], columns[table.keys - table.headings :]
    room = page.line - sum(one.width + GAP for one in names)
    sizes = block_sizes([one.width for one in others], table.groups or [""] * len(others), room, table.per_block)
    ends = list(itertools.accumulate(sizes, initial=0))
    return [[*names, *others[start:end]] for start, end in itertools.pairwise(ends)] or [names]


def block_sizes(widths: Sequence[float], groups: Sequence[str], room: float, most: int | None = None) -> list[int]:
    """Return how many columns each block has: as few groups as can be are cut, blocks are few, and then of like size.

    Args:
        widths: of the columns.
        groups: the group of each column.
        room: for the columns of a block.
        most: columns of a block.
    """
    # The best way to break the columns behind each place: groups cut, blocks, unevenness; and the sizes.
    best: list[tuple[tuple[int, int, int], list[int]]] = [((0, 0, 0), [])]
    for start in reversed(range(len(widths))):
        ways = []
        for end in range(start + 1, len(widths) + 1):
            fits = sum(widths[start:end]) + GAP * (end - start - 1) <= room and end - start <= (most or len(widths))
            if not fits and end > start + 1:
                break
            (cut, count, uneven), sizes = best[len(widths) - end]
            cut += end < len(widths) and groups[end - 1] == groups[end]
            ways.append(((cut, count + 1, uneven + (end - start) ** 2), [end - start, *sizes]))
        best.append(min(ways))
    return best[-1][1]


def _width(blocks: Sequence[Sequence[LatexColumn]]) -> float:
    """Return the width of the widest block."""
    return max(sum(one.width for one in block) + GAP * (len(block) - 1) for block in blocks)


def _halves(table: Table) -> tuple[range, range] | None:
    """Return the rows of a table in two halves, parted at a heading where there are some; None if they fit no page."""
    starts = [rows[0] for _, rows in table.sections()] if table.headings else range(len(table.rows))
    ways = [(range(start), range(start, len(table.rows))) for start in starts if start]
    halves = min(ways, key=lambda way: max(_height(table, half) for half in way), default=None)
    return halves if halves and max(_height(table, half) for half in halves) <= LINES_PER_PAGE else None


def _caption(table: Table, label: str, part: str = "") -> str:
    return f"\\caption{{{latex_escaped(table.caption + part)}}}\\label{{{label}}}"


def _float(table: Table, tabulars: Sequence[str], wide: bool, caption: str) -> str:
    name = "table*" if wide else "table"
    bodies = "\n\n\\medskip\n".join(tabulars)
    start = f"\\begin{{{name}}}[tbp]\n\\centering\n{caption}\n\\smallskip\n{_SIZE}\n"
    return f"{start}{bodies}\n{_notes(table)}\\end{{{name}}}\n"


def _tabular(table: Table, columns: Sequence[LatexColumn], rows: Sequence[int], place: str = "") -> str:
    body = f"{_head(columns)}\n{_rows(table, columns, rows)}\n\\bottomrule"
    return f"\\begin{{tabular}}{place}{_letters(columns)}\n{body}\n\\end{{tabular}}"


def _longtable(table: Table, columns: Sequence[LatexColumn], caption: str) -> str:
    head = _head(columns)
    return (
        f"{{{_SIZE}\n\\begin{{longtable}}{_letters(columns)}\n{caption} \\\\\n{head}\n\\endfirsthead\n"
        f"{head}\n\\endhead\n\\bottomrule\n\\endfoot\n{_rows(table, columns, range(len(table.rows)))}\n"
        f"\\end{{longtable}}\n{_notes(table)}}}\n"
    )


def _letters(columns: Sequence[LatexColumn]) -> str:
    return "{@{}" + "".join(column.letters for column in columns) + "@{}}"


def _head(columns: Sequence[LatexColumn]) -> str:
    return f"\\toprule\n{' & '.join(column.head for column in columns)} \\\\\n\\midrule"


def _rows(table: Table, columns: Sequence[LatexColumn], rows: Sequence[int]) -> str:
    # Where a name takes several lines it must be seen where the next one begins.
    tall = any("\\begin{tabular}" in column.cells[row] for column in columns for row in rows)
    between = "\n\\addlinespace[2pt]\n" if tall else "\n"
    span = sum(1 + column.is_pair for column in columns)
    parts: list[str] = []
    for heading, all_of_it in table.sections():
        own = [" & ".join(column.cells[row] for column in columns) + r" \\" for row in all_of_it if row in rows]
        if heading and own:
            line = f"\\multicolumn{{{span}}}{{@{{}}l@{{}}}}{{\\textit{{{latex_escaped(heading)}}}}} \\\\"
            own = ["\\addlinespace[3pt]" * bool(parts) + line, *own]
        parts += [between.join(own)] if own else []
    return between.join(parts)


def _height(table: Table, rows: Sequence[int]) -> int:
    """Lines of the header, the headings and these rows."""
    own = [max(len(key_lines(table, cell)) for cell in table.rows[row][table.headings : table.keys]) for row in rows]
    headings = sum(1 for heading, of in table.sections() if heading and any(row in rows for row in of))
    return sum(own) + headings + max(cell.count("\n") + 1 for cell in table.header)


def _is_wide(table: Table, blocks: Sequence[Sequence[LatexColumn]], page: LatexPage) -> bool:
    """Tell whether a table spans both columns of a page."""
    if page.columns is None:  # table* spans both columns of a two-column page, and is a plain table elsewhere
        return max(map(len, blocks)) > table.keys - table.headings + 2
    return page.columns > 1 and _width(blocks) > (page.column or 0.0)


def _notes(table: Table) -> str:
    if not table.notes:
        return ""
    lines = "\\\\\n".join(latex_escaped(note) for note in table.notes)
    box = "\\par\\smallskip\\noindent\n\\begin{minipage}{\\linewidth}\\raggedright\\scriptsize\n"
    return f"{box}{lines}\n\\end{{minipage}}\n"


# ---------------------------------------------------------------- columns


def column(table: Table, i: int) -> LatexColumn:
    """Return a table's column `i` as LaTeX."""
    texts = [row[i] for row in table.rows]
    bold = {row for row, j in table.bold if j == i}
    head_width = max(map(points, table.header[i].split("\n")))
    if i < table.keys:
        width = max([head_width, *(points(line) for text in texts for line in key_lines(table, text))])
        cells = [_bold(_lines(key_lines(table, text), table.align[i], "t"), n in bold) for n, text in enumerate(texts)]
        return LatexColumn(table.align[i], _head_of(table, i, table.align[i]), cells, width)
    if table.align[i] == "r" and is_numeric(texts):
        return _numbers(table, i, texts, bold, head_width)
    width = max([head_width, *map(points, texts)])
    cells = [_bold(latex_escaped(text), n in bold) for n, text in enumerate(texts)]
    return LatexColumn(table.align[i], _head_of(table, i, table.align[i]), cells, width)


def points(text: str) -> float:
    """Return the approximate printed width of a text in points."""
    return _EM * sum(map(_share, text))


def _share(character: str) -> float:
    known = next((share for characters, share in _CLASSES if character in characters), None)
    if known is not None:
        return known
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0xFFFF:
        return _SQUARE
    return _CAPITAL if character.isupper() or ord(character) > 0x24F else _OTHER


def is_numeric(texts: Sequence[str]) -> bool:
    """Tell whether a column holds numbers and otherwise only short cells such as a dash."""
    numbers = [number_parts(text) is not None for text in texts]
    return any(numbers) and all(ok or len(text) <= _SHORT for ok, text in zip(numbers, texts, strict=True))


def key_lines(table: Table, text: str) -> list[str]:
    """Wrap the text of a cell that names a row."""
    return wrap_text(text, KEY_WIDTH if table.keys - table.headings == 1 else NARROW_KEY_WIDTH)


def _numbers(table: Table, i: int, texts: Sequence[str], bold: Collection[int], head_width: float) -> LatexColumn:
    """A column of siunitx and, where something follows the numbers, a second one for it."""
    parts = [number_parts(text) for text in texts]
    found = [number for number, _ in filter(None, parts)]
    pair = any(rest for _, rest in filter(None, parts))
    cells = []
    for n, (text, part) in enumerate(zip(texts, parts, strict=True)):
        # A cell in braces is no number to siunitx.
        first = f"{{{latex_escaped(text)}}}" if part is None else part[0].replace(MINUS, "-")
        second = f" & {latex_escaped(part[1]) if part else ''}" if pair else ""
        cells.append((f"\\bfseries {first}" if n in bold else first) + second.rstrip())
    # All numbers take the room of the widest, and so does what follows them.
    firsts = [points(text if part is None else part[0]) for text, part in zip(texts, parts, strict=True)]
    width = max(firsts, default=0.0) * (_BOLD if bold else 1.0)
    width += max((points(f" {rest}") for _, rest in filter(None, parts)), default=0.0) if pair else 0.0
    letters = f"S[{_options(found, bool(bold))}]" + ("@{~}l" if pair else "")
    head = _head_of(table, i, "c")
    head = f"\\multicolumn{{2}}{{c}}{{{head}}}" if pair else f"{{{head}}}"
    return LatexColumn(letters, head, cells, max(head_width, width), pair)


def _options(numbers: Sequence[str], bold: bool) -> str:
    """The widths of the numbers before and after the point, and what bold ones need."""
    wholes, _, decimals = zip(*(number.lstrip("+-" + MINUS).partition(".") for number in numbers), strict=True)
    sign = "-" if any(number[0] in "+-" + MINUS for number in numbers) else ""
    options = [f"table-format={sign}{max(map(len, wholes))}.{max(map(len, decimals))}"]
    if any(number.startswith("+") for number in numbers):
        options.append("retain-explicit-plus")
    if bold:
        options += ["detect-weight", "mode=text"]
    return ",".join(options)


def _bold(text: str, bold: bool) -> str:
    return f"\\textbf{{{text}}}" if bold else text


def _head_of(table: Table, i: int, align: str) -> str:
    return _lines(table.header[i].split("\n"), align, "b")


def _lines(lines: Sequence[str], align: str, place: str) -> str:
    safe = [latex_escaped(line) for line in lines]
    if len(safe) == 1:
        return safe[0]
    return f"\\begin{{tabular}}[{place}]{{@{{}}{align}@{{}}}}" + r" \\ ".join(safe) + r"\end{tabular}"
