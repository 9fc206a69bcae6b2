"""Tables in LaTeX with booktabs and siunitx; nothing that a user wrote can become a command."""

import re
from collections.abc import Sequence

from refusal_eval.report.paper.latex_columns import Column, column, key_lines
from refusal_eval.report.paper.latex_text import definitions, latex_escaped
from refusal_eval.report.paper.markup import Table

# A table of more lines than this, with its notes, does not fit a page.
LINES_PER_PAGE = 45
# Points of a line of an A4 page with margins of 2.5 cm, and of the space between two columns.
LINE, GAP = 455.0, 8.0
# Columns stand a little closer than usual.
_SIZE = "\\footnotesize\\setlength{\\tabcolsep}{4pt}"


def latex(table: Table) -> str:
    """The table as a float or, where its rows do not fit a page, a `longtable`; caption above, notes below.

    Columns beyond `per_block`, or beyond the width of a page, follow in blocks below each other, in floats of their
    own where one page does not hold them all. The first line says which packages it needs (booktabs, siunitx,
    longtable). The label is tab:NAME.
    """
    label = "tab:" + re.sub(r"[^A-Za-z0-9]+", "-", table.name).strip("-")
    blocks = _blocks(table)
    height = _height(table)
    parts = []
    if height * len(blocks) <= LINES_PER_PAGE:
        parts.append(_float(table, blocks, _caption(table, label)))
    for number, block in enumerate(blocks if not parts else (), 1):
        part = f" (part {number} of {len(blocks)})" if len(blocks) > 1 else ""
        caption = _caption(table, label if number == 1 else f"{label}-{number}", part)
        long = height > LINES_PER_PAGE
        parts.append(_longtable(table, block, caption) if long else _float(table, [block], caption))
    text = "\n".join(parts)
    used = {"booktabs": True, "siunitx": "S[" in text, "longtable": "{longtable}" in text}
    packages = ",".join(name for name, needed in used.items() if needed)
    return f"% Needs \\usepackage{{{packages}}}.\n{definitions(text)}{text}"


def _blocks(table: Table) -> list[list[Column]]:
    """The columns that stand side by side, with those that name the rows in front of each block."""
    columns = [column(table, i) for i in range(len(table.header))]
    keys = columns[: table.keys]
    blocks = [list(keys)]
    for one in columns[table.keys :]:
        own = len(blocks[-1]) - len(keys)
        width = sum(other.width + GAP for other in blocks[-1]) + one.width
        if own and (own == table.per_block or width > LINE):
            blocks.append(list(keys))
        blocks[-1].append(one)
    return blocks


def _caption(table: Table, label: str, part: str = "") -> str:
    return f"\\caption{{{latex_escaped(table.caption + part)}}}\\label{{{label}}}"


def _float(table: Table, blocks: Sequence[Sequence[Column]], caption: str) -> str:
    # table* spans both columns of a two-column page, and is a plain table elsewhere.
    name = "table*" if max(len(block) for block in blocks) > table.keys + 2 else "table"
    tabulars = "\n\n\\medskip\n".join(_tabular(block) for block in blocks)
    start = f"\\begin{{{name}}}[tb]\n\\centering\n{caption}\n\\smallskip\n{_SIZE}\n"
    return f"{start}{tabulars}\n{_notes(table)}\\end{{{name}}}\n"


def _tabular(columns: Sequence[Column]) -> str:
    return f"\\begin{{tabular}}{_letters(columns)}\n{_head(columns)}\n{_rows(columns)}\n\\bottomrule\n\\end{{tabular}}"


def _longtable(table: Table, columns: Sequence[Column], caption: str) -> str:
    head = _head(columns)
    return (
        f"{{{_SIZE}\n\\begin{{longtable}}{_letters(columns)}\n{caption} \\\\\n{head}\n\\endfirsthead\n"
        f"{head}\n\\endhead\n\\bottomrule\n\\endfoot\n{_rows(columns)}\n\\end{{longtable}}\n{_notes(table)}}}\n"
    )


def _letters(columns: Sequence[Column]) -> str:
    return "{@{}" + "".join(column.letters for column in columns) + "@{}}"


def _head(columns: Sequence[Column]) -> str:
    return f"\\toprule\n{' & '.join(column.head for column in columns)} \\\\\n\\midrule"


def _rows(columns: Sequence[Column]) -> str:
    rows = [" & ".join(cells) + r" \\" for cells in zip(*(column.cells for column in columns), strict=True)]
    # Where a name takes several lines it must be seen where the next one begins.
    tall = any("\\begin{tabular}" in cell for column in columns for cell in column.cells)
    return ("\n\\addlinespace[2pt]\n" if tall else "\n").join(rows)


def _height(table: Table) -> int:
    """Lines of the header and the rows."""
    rows = [max(len(key_lines(table, cell)) for cell in row[: table.keys]) for row in table.rows]
    return sum(rows) + max(cell.count("\n") + 1 for cell in table.header)


def _notes(table: Table) -> str:
    if not table.notes:
        return ""
    lines = "\\\\\n".join(latex_escaped(note) for note in table.notes)
    box = "\\par\\smallskip\\noindent\n\\begin{minipage}{\\linewidth}\\raggedright\\scriptsize\n"
    return f"{box}{lines}\n\\end{{minipage}}\n"
