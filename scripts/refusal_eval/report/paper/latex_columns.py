"""How the columns of a table stand in LaTeX: numbers aligned by siunitx, what follows a number in a second column."""

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from refusal_eval.report.paper.display import MINUS, wrapped
from refusal_eval.report.paper.latex_text import latex_escaped
from refusal_eval.report.paper.markup import Table, number_parts

# Names of rows are broken after this many characters, where one column names a row and where several do.
KEY_WIDTH, NARROW_KEY_WIDTH = 28, 16
_SHORT = 6  # characters of a cell without a number, such as "<0.001", that may stand in a column of numbers


# Widths of characters in Computer Modern at the size of tables, as shares of an em: of narrow ones, of capitals and of
# others that are wide, of those as wide as high, and of all others, such as digits.
_EM = 8.5  # points
_CLASSES = ((" .,:;!|'`()[]{}/ijlftrI", 0.33), ("mwMW%@&+=<>~^_#$\u2212\u2020\u2021\u00a7", 0.85))
_CAPITAL, _SQUARE, _OTHER = 0.75, 1.0, 0.5
_BOLD = 1.15


@dataclass(frozen=True)
class Column:
    """One column of a table in LaTeX."""

    letters: str  # in the preamble of the tabular
    head: str  # its head, finished
    cells: Sequence[str]  # its cells, finished
    width: float  # of its widest line, in points, about


def column(table: Table, i: int) -> Column:
    """Return a table's column `i` as LaTeX."""
    texts = [row[i] for row in table.rows]
    bold = {row for row, j in table.bold if j == i}
    head_width = max(map(points, table.header[i].split("\n")))
    if i < table.keys:
        width = max([head_width, *(points(line) for text in texts for line in key_lines(table, text))])
        cells = [_bold(_lines(key_lines(table, text), table.align[i], "t"), n in bold) for n, text in enumerate(texts)]
        return Column(table.align[i], _head(table, i, table.align[i]), cells, width)
    if table.align[i] == "r" and is_numeric(texts):
        return _numbers(table, i, texts, bold, head_width)
    width = max([head_width, *map(points, texts)])
    cells = [_bold(latex_escaped(text), n in bold) for n, text in enumerate(texts)]
    return Column(table.align[i], _head(table, i, table.align[i]), cells, width)


def points(text: str) -> float:
    """Return about how wide a text is in print, in points."""
    return _EM * sum(map(_share, text))


def _share(character: str) -> float:
    known = next((share for characters, share in _CLASSES if character in characters), None)
    if known is not None:
        return known
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0xFFFF:
        return _SQUARE
    return _CAPITAL if character.isupper() or ord(character) > 0x24F else _OTHER


def is_numeric(texts: Sequence[str]) -> bool:
    """Whether a column holds numbers and, beside them, only short cells such as a dash."""
    numbers = [number_parts(text) is not None for text in texts]
    return any(numbers) and all(ok or len(text) <= _SHORT for ok, text in zip(numbers, texts, strict=True))


def key_lines(table: Table, text: str) -> list[str]:
    """Return the lines of a cell that names a row."""
    return wrapped(text, KEY_WIDTH if table.keys == 1 else NARROW_KEY_WIDTH)


def _numbers(table: Table, i: int, texts: Sequence[str], bold: Collection[int], head_width: float) -> Column:
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
    head = _head(table, i, "c")
    return Column(
        letters, f"\\multicolumn{{2}}{{c}}{{{head}}}" if pair else f"{{{head}}}", cells, max(head_width, width)
    )


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


def _head(table: Table, i: int, align: str) -> str:
    return _lines(table.header[i].split("\n"), align, "b")


def _lines(lines: Sequence[str], align: str, place: str) -> str:
    safe = [latex_escaped(line) for line in lines]
    if len(safe) == 1:
        return safe[0]
    return f"\\begin{{tabular}}[{place}]{{@{{}}{align}@{{}}}}" + r" \\ ".join(safe) + r"\end{tabular}"
