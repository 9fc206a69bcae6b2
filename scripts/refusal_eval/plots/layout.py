"""Placing text and axes on a page whose unit is the point, so that nothing overlaps and nothing is cut off."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from refusal_eval.plots.style import COLUMN_WIDTH, INK, LINE_HEIGHT, PAGE_WIDTH, TEXT_SIZE, font_families
from refusal_eval.report.paper.display import Labels, Score, by_cell, ordered, pieces, wrapped

_BASELINE = 6.4  # points from the top of a line to its baseline
_PAD = 4.0
EDGE = 4.0  # points of white around a figure
HINTED = 1.02  # in PNGs text is a little wider than its outlines, which are measured
_MOST_LINES = 5  # of a level column label


def page(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of that size in points, and axes without ticks that cover it, measured in points from the top left."""
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


def figure_width(columns: int) -> float:
    """Width in points: one column of a paper for up to three columns of cells, else the whole page."""
    return COLUMN_WIDTH if columns <= 3 else PAGE_WIDTH


def one_judge(
    scores: Iterable[Score], models: Sequence[str] | None, splits: Sequence[str] | None
) -> tuple[dict[tuple[str, str], Score], list[str], list[str]]:
    """The scores of a figure by (model, split), and the orders of its models and splits.

    Raises:
        ValueError: without scores, for scores of several judges, or two of one cell.
    """
    found = by_cell(scores)
    if len({judge for judge, _, _ in found}) != 1:
        raise ValueError("a figure needs scores of exactly one judge")
    cells = {(model, split): score for (_, model, split), score in found.items()}
    return cells, ordered((model for model, _ in cells), models), ordered((split for _, split in cells), splits)


class ColumnLabels:
    """Labels of columns, one per split with what is expected there: level if they fit their columns, else upright."""

    def __init__(self, splits: Sequence[str], scores: Iterable[Score], labels: Labels, width: float) -> None:
        """Lay the labels out over columns of `width` points."""
        expected = {score["split"]: score["expectation"] for score in scores}
        level = [[*wrap_to(labels.split(s), width - _PAD), f"({expected[s]})"] for s in splits]
        names = [piece for split in splits for piece in pieces(labels.split(split))]
        fits = widest([*names, *(lines[-1] for lines in level)]) <= width - _PAD
        self.upright = not fits or max(len(lines) for lines in level) > _MOST_LINES
        room = max(1, int(width / LINE_HEIGHT))
        texts = [f"{labels.split(s)} ({expected[s]})" for s in splits]
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
