"""Placing text and axes on a page whose unit is the point, so that nothing overlaps and nothing is cut off."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.plots.style import FAINT, INK, LINE_HEIGHT, RATE_COLOURS, TEXT_SIZE, font_families
from refusal_eval.report.paper.display import pieces, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Box = tuple[float, float, float, float]  # x, y, width and height in points

_BASELINE = 6.4  # points from the top of a line to its baseline
_PAD = 4.0
EDGE = 4.0  # points of white around a figure
HINTED = 1.02  # in PNGs text is a little wider than its outlines, which are measured
_INSET = 0.7  # points; half of what lies between two tiles, and of the line around them


def page(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of that size in points, and axes without ticks that cover it, measured in points from the top left."""
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width / 72, height / 72))
    sheet = fig.add_axes((0, 0, 1, 1))
    sheet.set_axis_off()
    sheet.set_zorder(1)  # its text stands above the panels
    sheet.set_xlim(0, width)
    sheet.set_ylim(height, 0)
    return fig, sheet


def axes_at(fig: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """New axes, in points from the top left of the page."""
    page_width, page_height = 72 * fig.get_size_inches()
    return fig.add_axes((x / page_width, 1 - (y + height) / page_height, width / page_width, height / page_height))


@functools.cache
def text_width(text: str, bold: bool = False) -> float:
    """Width in points of one line of text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=font_families(), size=TEXT_SIZE, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width)


def widest(lines: Sequence[str], bold: bool = False) -> float:
    """Width in points of the widest line."""
    return max((text_width(line, bold) for line in lines), default=0.0)


def wrap_to(text: str, width: float, bold: bool = False) -> list[str]:
    """Lines of at most `width` points (one character at least)."""
    for characters in range(len(text), 0, -1):
        lines = wrapped(text, characters)
        if widest(lines, bold) <= width:
            return lines
    return wrapped(text, 1)


def wrap_into(text: str, lines: int) -> list[str]:
    """At most `lines` lines, as short as possible without a break inside a word."""
    for characters in range(max(len(piece) for piece in pieces(text)), len(text)):
        found = wrapped(text, characters)
        if len(found) <= lines:
            return found
    return [text]


def put(
    sheet: Axes, x: float, y: float, lines: Sequence[str], *, align: str = "left", bold: bool = False, **style: Any
) -> None:
    """Lines of text below each other, the first with its top at `y`."""
    for number, line in enumerate(lines):
        sheet.text(
            x, y + _BASELINE + number * LINE_HEIGHT, line, ha=align, va="baseline",
            weight="bold" if bold else "normal", **{"color": INK, **style},
        )  # fmt: skip


def put_upright(sheet: Axes, x: float, y: float, lines: Sequence[str]) -> None:
    """Lines that run upwards from `y`, side by side with their middle at `x`."""
    left = x - len(lines) * LINE_HEIGHT / 2
    for number, line in enumerate(lines):
        baseline = left + _BASELINE + number * LINE_HEIGHT
        sheet.text(baseline, y, line, rotation=90, rotation_mode="anchor", ha="left", va="baseline", color=INK)


def numbers_inside(ax: Axes) -> None:
    """Let the first and last number of a horizontal scale end with it, so that they stay inside the figure."""
    labels = ax.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")


class ColumnLabels:
    """Labels of columns: level if they fit their columns, else upright."""

    def __init__(self, labels: Sequence[str], width: float, below: Sequence[str] = (), most_lines: int = 5) -> None:
        """Lay the labels out.

        Args:
            labels: one for each column.
            width: of a column in points.
            below: what stands below each label in brackets.
            most_lines: of a level label.
        """
        ends = [f"({text})" for text in below] or [""] * len(labels)
        level = [
            [*wrap_to(label, width - _PAD), *([end] if end else [])] for label, end in zip(labels, ends, strict=True)
        ]
        widths = [*(piece for label in labels for piece in pieces(label)), *ends]
        self.upright = widest(widths) > width - _PAD or max(len(lines) for lines in level) > most_lines
        room = max(1, int(width / LINE_HEIGHT))
        texts = [f"{label} {end}".rstrip() for label, end in zip(labels, ends, strict=True)]
        self.lines = [wrap_into(text, room) for text in texts] if self.upright else level
        tallest = max(widest(lines) if self.upright else len(lines) * LINE_HEIGHT for lines in self.lines)
        self.height = tallest + _PAD

    def draw(self, sheet: Axes, centres: Sequence[float], bottom: float) -> None:
        """Draw each label over its centre, its lower end just above `bottom`."""
        for centre, lines in zip(centres, self.lines, strict=True):
            if self.upright:
                put_upright(sheet, centre, bottom - _PAD / 2, lines)
            else:
                put(sheet, centre, bottom - _PAD / 2 - len(lines) * LINE_HEIGHT, lines, align="center")


class TileTable:
    """Rows of tiles, with a name before each row and a label above each column.

    Attributes:
        left, step: the left end of the tiles and the width of each, in points.
    """

    def __init__(self, width: float, names: Sequence[str], columns: Sequence[str], **head: Any) -> None:
        """Lay the names out; `head` has further arguments of `ColumnLabels`."""
        self._width, self._columns = width, range(len(columns))
        self._names = [wrap_to(name, 0.27 * width) for name in names]
        self.left = EDGE + HINTED * max(widest(lines) for lines in self._names) + 5
        self.step = (width - self.left - EDGE) / len(columns)
        self._head = ColumnLabels(columns, self.step, **head)

    def draw(
        self, tiles: Mapping[tuple[int, int], tuple[Sequence[str], float | None]], below: float = 0.0
    ) -> tuple[Figure, Axes, float]:
        """Draw tiles by row and column, as `tile` does; return figure, sheet, and where what stands below begins."""
        heights = []
        for row, name in enumerate(self._names):
            most = max(len(tiles[row, column][0]) for column in self._columns if (row, column) in tiles)
            heights.append(max(len(name), most) * LINE_HEIGHT + 6)
        y = EDGE + self._head.height
        fig, sheet = page(self._width, y + sum(heights) + below + EDGE)
        self._head.draw(sheet, [self.left + (column + 0.5) * self.step for column in self._columns], y)
        for row, (lines, height) in enumerate(zip(self._names, heights, strict=True)):
            put(sheet, self.left - 5, y + (height - len(lines) * LINE_HEIGHT) / 2, lines, align="right")
            for column in self._columns:
                if (row, column) in tiles:
                    tile(sheet, (self.left + column * self.step, y, self.step, height), *tiles[row, column])
            y += height
        return fig, sheet, y


def tile(sheet: Axes, box: Box, lines: Sequence[str], share: float | None) -> None:
    """Draw a tile with centred lines, the first bold; `share` from 0 to 1 is its darkness, None for an empty one.

    All tiles stand the same little distance from their neighbours, empty ones within a thin frame.
    """
    import matplotlib as mpl
    from matplotlib.patches import Rectangle

    x, y, width, height = box
    fill = None if share is None else mpl.colormaps[RATE_COLOURS](float(share))[:3]
    frame, inside_colour = (FAINT, "white") if fill is None else (fill, fill)
    inside = (x + _INSET, y + _INSET), width - 2 * _INSET, height - 2 * _INSET
    look: dict[str, Any] = {"facecolor": inside_colour, "edgecolor": frame, "linewidth": 0.6, "joinstyle": "miter"}
    sheet.add_patch(Rectangle(*inside, **look))
    ink = INK if fill is None else ink_on(fill)
    start = y + (height - len(lines) * LINE_HEIGHT) / 2
    put(sheet, x + width / 2, start, lines[:1], align="center", bold=True, color=ink)
    put(sheet, x + width / 2, start + LINE_HEIGHT, lines[1:], align="center", color=ink)


def ink_on(colour: str | tuple[float, float, float]) -> str:
    """Black or white, whichever is easier to read on a colour (its relative luminance: W3C, WCAG 2.2)."""
    from matplotlib.colors import to_rgb

    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return INK if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.21 else "white"
