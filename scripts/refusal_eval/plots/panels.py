"""Small multiples, a grid of equal panels with a title above each, and the looks and legends of the series in them.

Series are told apart by marker, line and colour, so that grey paper is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from refusal_eval.plots.layout import EDGE, axes_at, put, put_upright, text_width, widest, wrap_to
from refusal_eval.plots.style import BLUE, COLUMN_WIDTH, INK, LINE_HEIGHT, VERMILLION

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


_MARK = 15.0  # points for the mark before a name in a legend
_SPACE = 11.0  # points between two names
_LONG = 12  # texts


class Look(NamedTuple):
    """How a series is drawn; `inside` is the colour within its marker."""

    colour: str
    inside: str
    marker: str
    dash: Any

    def point(self) -> dict[str, Any]:
        """Arguments of `Axes.plot` for its markers."""
        size = {"o": 3.6, "s": 3.3, "D": 3.0, "*": 5.2, "P": 4.2, "X": 4.0}.get(self.marker, 3.8)
        edge = {"markeredgecolor": self.colour, "markeredgewidth": 0.8}
        return {"marker": self.marker, "markerfacecolor": self.inside, "markersize": size, **edge}

    def line(self) -> dict[str, Any]:
        """Arguments of `Axes.plot` for its line."""
        return {"color": self.colour, "linewidth": 1.0, "linestyle": self.dash}


_SOLID, _DASHED, _DOTTED, _MIXED = "-", (0, (4, 1.6)), (0, (1, 1.2)), (0, (4, 1.4, 1, 1.4))
# Colours of Okabe & Ito; filled and open markers alternate, so that neighbours differ without colour too.
LOOKS = (
    Look(BLUE, BLUE, "o", _SOLID),
    Look(VERMILLION, "white", "s", _DASHED),
    Look(INK, INK, "^", _DOTTED),
    Look("#009E73", "white", "D", _MIXED),
    Look("#CC79A7", "#CC79A7", "v", _SOLID),
    Look(INK, "white", "P", _DASHED),
    Look("#E69F00", "#E69F00", "X", _DOTTED),
    Look("#56B4E9", "white", "*", _MIXED),
)


class Legend:
    """Names of series with their looks, as many on a line as fit `width` points."""

    def __init__(self, names: Sequence[str], width: float, looks: Sequence[Look] = LOOKS) -> None:
        """Lay the names out."""
        self._placed: list[tuple[float, float, list[str], Look]] = []
        x, y, lines_here = 0.0, 0.0, 1
        for name, look in zip(names, looks, strict=False):
            lines = wrap_to(name, width - _MARK)
            needed = _MARK + widest(lines)
            if x and x + needed > width:
                x, y, lines_here = 0.0, y + lines_here * LINE_HEIGHT, 1
            self._placed.append((x, y, lines, look))
            lines_here = max(lines_here, len(lines))
            x += needed + _SPACE
        self.height = y + lines_here * LINE_HEIGHT if names else 0.0

    def draw(self, sheet: Axes, left: float, top: float, line: bool = True) -> None:
        """Draw it; `line` says whether series are lines or only markers."""
        for x, y, lines, look in self._placed:
            at, middle = left + x, top + y + 4.2
            if line:
                sheet.plot([at, at + 11], [middle, middle], **look.line())
            sheet.plot([at + 5.5], [middle], linestyle="none", **look.point())
            put(sheet, at + _MARK, top + y, lines)


def draw_marks(sheet: Axes, x: float, y: float, marks: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Draw a legend on one line: for each series its mark (arguments of `Axes.plot`) and its words."""
    for words, mark in marks:
        sheet.plot([x + 4], [y + 4.2], linestyle="none", **mark)
        put(sheet, x + 9, y, [words])
        x += 17 + text_width(words)


class Key:
    """Texts with a mark before each, from above and then in as many columns as fit `width` points.

    Attributes:
        height: of all in points.
    """

    def __init__(self, texts: Sequence[str], width: float, indent: float, most: int) -> None:
        """Lay the texts out, `indent` points behind the left end of their marks, in at most that many columns."""
        wide = max((text_width(text) for text in texts), default=0.0) + indent + _SPACE
        columns = max(1, min(int(width // wide), len(texts), most))
        if columns == 1 and len(texts) > _LONG and width > COLUMN_WIDTH:
            columns = 2  # of broken texts, which are shorter than one of whole ones
        self._step, self._indent = width / columns, indent
        self._lines = [wrap_to(text, self._step - indent - (_SPACE if columns > 1 else 0)) for text in texts]
        self._rows = -(-len(texts) // columns)
        tallest = [max(len(lines) for lines in self._lines[row :: self._rows]) for row in range(self._rows)]
        self._starts = [sum(tallest[:row]) * LINE_HEIGHT for row in range(self._rows)]
        self.height = sum(tallest) * LINE_HEIGHT

    def draw(self, sheet: Axes, left: float, top: float) -> Iterator[tuple[float, float]]:
        """Draw the texts; yield where the mark of each has its upper left corner."""
        for index, lines in enumerate(self._lines):
            column, row = divmod(index, self._rows)
            x, y = left + column * self._step, top + self._starts[row]
            put(sheet, x + self._indent, y, lines)
            yield x, y
