"""Tables in LaTeX with booktabs; nothing that a user wrote can become a command."""

from __future__ import annotations

import re
from collections.abc import Sequence

from refusal_eval.display import wrapped
from refusal_eval.markup import Table

# A table of more lines than this, with its notes, does not fit a page.
LINES_PER_PAGE = 45
# Names of rows are broken after this many characters, where one column names a row and where several do.
KEY_WIDTH, NARROW_KEY_WIDTH = 28, 16
# Columns stand a little closer than usual.
_SIZE = "\\footnotesize\\setlength{\\tabcolsep}{4pt}"

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # babel makes the quotation mark a command in some languages.
    '"': r"\symbol{34}",
    # After the end of a row, a bracket or star would be read as an argument of that end.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "\u2013": "--",
    "\u2014": "---",
    "\u2212": "$-$",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "§": r"\S{}",
    "κ": r"$\kappa$",
    "±": r"$\pm$",
    "\u00a0": "~",
}

# Between these pairs TeX would join two characters to one.
_JOINTS = re.compile(r"(?<=-)(?=-)|(?<=')(?=')|(?<=`)(?=`)|(?<=,)(?=,)|(?<=[?!])(?=`)")


def latex_escaped(text: str) -> str:
    """The text as LaTeX prints it: every special character is escaped, control characters become spaces."""
    return "{}".join("".join(_printed(character) for character in part) for part in _JOINTS.split(text))


def latex(table: Table) -> str:
    """The table as a float or, where its rows do not fit a page, a `longtable`; caption above, notes below.

    Columns beyond `per_block` follow in blocks below each other, in floats of their own where one page does not hold
    them all. The first line says which packages it needs (booktabs, perhaps longtable). The label is tab:NAME.
    """
    label = "tab:" + re.sub(r"[^A-Za-z0-9]+", "-", table.name).strip("-")
    columns = range(table.keys, len(table.header))
    width = table.per_block or max(1, len(columns))
    blocks = [[*range(table.keys), *columns[i : i + width]] for i in range(0, len(columns), width)]
    blocks = blocks or [list(range(table.keys))]
    height = _height(table)
    if height * len(blocks) <= LINES_PER_PAGE:
        return "% Needs \\usepackage{booktabs}.\n" + _float(table, blocks, _caption(table, label))
    parts = []
    for number, block in enumerate(blocks, 1):
        part = f" (part {number} of {len(blocks)})" if len(blocks) > 1 else ""
        caption = _caption(table, label if number == 1 else f"{label}-{number}", part)
        long = height > LINES_PER_PAGE
        parts.append(_longtable(table, block, caption) if long else _float(table, [block], caption))
    return "% Needs \\usepackage{booktabs,longtable}.\n" + "\n".join(parts)


def _printed(character: str) -> str:
    return _ESCAPES.get(character) or (character if character.isprintable() else " ")


def _caption(table: Table, label: str, part: str = "") -> str:
    return f"\\caption{{{latex_escaped(table.caption + part)}}}\\label{{{label}}}"


def _float(table: Table, blocks: Sequence[Sequence[int]], caption: str) -> str:
    # table* spans both columns of a two-column page, and is a plain table elsewhere.
    name = "table*" if max(len(block) for block in blocks) > table.keys + 2 else "table"
    tabulars = "\n\n\\medskip\n".join(_tabular(table, block) for block in blocks)
    start = f"\\begin{{{name}}}[tb]\n\\centering\n{caption}\n\\smallskip\n{_SIZE}\n"
    return f"{start}{tabulars}\n{_notes(table)}\\end{{{name}}}\n"


def _tabular(table: Table, columns: Sequence[int]) -> str:
    rows = "\n".join(_row(table, row, columns) for row in table.rows)
    return (
        f"\\begin{{tabular}}{_columns(table, columns)}\n{_head(table, columns)}\n{rows}\n\\bottomrule\n\\end{{tabular}}"
    )


def _longtable(table: Table, columns: Sequence[int], caption: str) -> str:
    head = _head(table, columns)
    rows = "\n".join(_row(table, row, columns) for row in table.rows)
    return (
        f"{{{_SIZE}\n\\begin{{longtable}}{_columns(table, columns)}\n{caption} \\\\\n{head}\n\\endfirsthead\n"
        f"{head}\n\\endhead\n\\bottomrule\n\\endfoot\n{rows}\n\\end{{longtable}}\n{_notes(table)}}}\n"
    )


def _columns(table: Table, columns: Sequence[int]) -> str:
    return "{@{}" + "".join(table.align[i] for i in columns) + "@{}}"


def _head(table: Table, columns: Sequence[int]) -> str:
    cells = " & ".join(_lines(table.header[i].split("\n"), table.align[i], "b") for i in columns)
    return f"\\toprule\n{cells} \\\\\n\\midrule"


def _key_lines(table: Table, text: str) -> list[str]:
    return wrapped(text, KEY_WIDTH if table.keys == 1 else NARROW_KEY_WIDTH)


def _height(table: Table) -> int:
    """Lines of the header and the rows."""
    rows = [max(len(_key_lines(table, cell)) for cell in row[: table.keys]) for row in table.rows]
    return sum(rows) + max(cell.count("\n") + 1 for cell in table.header)


def _row(table: Table, row: Sequence[str], columns: Sequence[int]) -> str:
    cells = []
    for i in columns:
        key = i < table.keys
        cells.append(_lines(_key_lines(table, row[i]), table.align[i], "t") if key else latex_escaped(row[i]))
    return " & ".join(cells) + r" \\"


def _lines(lines: Sequence[str], align: str, place: str) -> str:
    safe = [latex_escaped(line) for line in lines]
    if len(safe) == 1:
        return safe[0]
    return f"\\begin{{tabular}}[{place}]{{@{{}}{align}@{{}}}}" + r" \\ ".join(safe) + r"\end{tabular}"


def _notes(table: Table) -> str:
    if not table.notes:
        return ""
    lines = "\\\\\n".join(latex_escaped(note) for note in table.notes)
    box = "\\par\\smallskip\\noindent\n\\begin{minipage}{\\linewidth}\\raggedright\\scriptsize\n"
    return f"{box}{lines}\n\\end{{minipage}}\n"
