"""Small multiples: a grid of equal panels, each with a title above it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from refusal_eval.plots.layout import EDGE, axes_at, put, put_upright, text_width, wrap_to
from refusal_eval.plots.style import LINE_HEIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GAP = 9.0  # points between panels that stand side by side
_BELOW = 12.0  # points below a panel for the numbers of its scale
_BETWEEN = 6.0  # points more between two rows of panels
_TITLE_GAP = 3.0


class PanelGrid:
    """Places of panels, from left to right and then down.

    Attributes:
        boxes: x, y, width and height of each panel in points, from the top left of the grid.
        width, height: of the whole grid, titles and numbers of scales included.
    """

    def __init__(self, titles: Sequence[Sequence[str]], width: float, height: float, narrowest: float) -> None:
        """Lay panels of `height` points out over `width`, none narrower than `narrowest` unless `width` is.

        A title is a list of paragraphs; the first is bold.
        """
        most = max(1, int((width + _GAP) // (narrowest + _GAP)))
        rows = -(-len(titles) // most)
        self.width = width
        self.columns = -(-len(titles) // rows)  # rows of nearly equal length
        panel = (width - (self.columns - 1) * _GAP) / self.columns
        self.titles = [
            [(line, i == 0) for i, text in enumerate(texts) for line in wrap_to(text, panel, bold=i == 0)]
            for texts in titles
        ]
        self.boxes: list[tuple[float, float, float, float]] = []
        y = 0.0
        for start in range(0, len(titles), self.columns):
            lines = max(len(found) for found in self.titles[start : start + self.columns])
            y += lines * LINE_HEIGHT + _TITLE_GAP
            for column in range(min(self.columns, len(titles) - start)):
                self.boxes.append((column * (panel + _GAP), y, panel, height))
            y += height + _BELOW + _BETWEEN
        self.height = y - _BETWEEN

    def first_column(self, index: int) -> bool:
        """Whether a panel stands at the left edge."""
        return index % self.columns == 0

    def draw(self, fig: Figure, sheet: Axes, left: float, top: float) -> Iterator[Axes]:
        """Draw the title of each panel just above it; yield the axes of each."""
        for lines, (x, y, width, height) in zip(self.titles, self.boxes, strict=True):
            start = top + y - _TITLE_GAP - len(lines) * LINE_HEIGHT
            for number, (line, bold) in enumerate(lines):
                put(sheet, left + x, start + number * LINE_HEIGHT, [line], bold=bold)
            yield axes_at(fig, left + x, top + y, width, height)

    def label_axes(self, sheet: Axes, corner: tuple[float, float], below: str, beside: str = "") -> None:
        """Name the axes of all panels together, below the grid that has its upper left corner there and at its left."""
        left, top = corner
        end = top + self.height
        put(sheet, left + self.width / 2, end, [below], align="center")
        if beside:
            middle = (top + self.boxes[0][1] + end - _BELOW + text_width(beside)) / 2
            put_upright(sheet, EDGE + LINE_HEIGHT / 2, middle, [beside])
