"""The forest of many models: a panel for each category, in it a row for each model."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from refusal_eval.plots.forest import Line, draw_mark, scale_in_percent
from refusal_eval.plots.layout import EDGE, HINTED, axes_at, page, put, widest, wrap_to
from refusal_eval.plots.panels import PanelGrid
from refusal_eval.plots.plot import Plot
from refusal_eval.plots.series import LOOKS
from refusal_eval.plots.shown_estimates import Row, highest, percent_scale
from refusal_eval.plots.style import COLUMN_WIDTH, FAINT, LINE_HEIGHT, styled

_ROW = 9.4  # points
_NARROWEST = 70.0  # points of a panel


class ModelRows:
    """Where everything stands, and the drawing of it.

    Attributes:
        height: of the figure in points.
    """

    def __init__(
        self, models: Sequence[str], lines: Sequence[Line], rows: Sequence[Row], plot: Plot, tag: Sequence[str]
    ) -> None:
        """Lay it out.

        Args:
            models: in their order, from above.
            lines: heads of splits, whole splits and categories, in the order of the panels.
            rows: the rates, by model, split and category.
            plot: what is asked.
            tag: lines at the foot of the figure.
        """
        self._models, self._tag = models, tag
        self._panels = [line for line in lines if not line.head]
        self._found = {(row["model"], row["split"], row["category"]): row for row in rows}
        self._ticks = percent_scale(highest(rows))
        heads = {line.split: line.text for line in lines if line.head}
        with styled():
            self._width = plot.points(True)
            room = (0.42 if self._width == COLUMN_WIDTH else 0.26) * self._width
            self._names = [wrap_to(plot.labels.model(model), room) for model in models]
            self._heights = [max(_ROW, len(lines) * LINE_HEIGHT + 1.6) for lines in self._names]
            self._left = EDGE + HINTED * max(widest(lines) for lines in self._names) + 6
            # The name of a split stands over each of its panels where there are several splits, else once.
            several = len(heads) > 1
            titles = [[heads[line.split], line.text] if several else [line.text] for line in self._panels]
            self._grid = PanelGrid(titles, self._width - self._left - EDGE, sum(self._heights), _NARROWEST)
            alone = [] if several else list(heads.values())
            self._head = [line for text in alone for line in wrap_to(text, self._width - 2 * EDGE, bold=True)]
            self._top = EDGE + len(self._head) * LINE_HEIGHT
            self.height = self._top + self._grid.height + (1 + len(tag)) * LINE_HEIGHT + EDGE

    def draw(self) -> Figure:
        """Return the figure."""
        with styled():
            fig, sheet = page(self._width, self.height)
            put(sheet, EDGE, EDGE, self._head, bold=True)
            self._grid.draw_titles(sheet, self._left, self._top)
            for index, (line, (x, y, width, tall)) in enumerate(zip(self._panels, self._grid.boxes, strict=True)):
                ax = axes_at(fig, self._left + x, self._top + y, width, tall)
                at = 0.0
                for model, name, height in zip(self._models, self._names, self._heights, strict=True):
                    if self._grid.first_column(index):
                        above = self._top + y + at + (height - len(name) * LINE_HEIGHT) / 2
                        put(sheet, self._left - 6, above, name, align="right")
                    row = self._found.get((model, line.split, line.category))
                    draw_mark(ax, row, LOOKS[0], at + height / 2, thick=line.category is None)
                    at += height
                    ax.axhline(at, color=FAINT, linewidth=0.4, zorder=0)
                scale_in_percent(ax, self._ticks, at)
            foot = self._top + self._grid.height
            put(sheet, (self._left + self._width - EDGE) / 2, foot, ["Refusal rate (%)"], align="center")
            put(sheet, EDGE, foot + LINE_HEIGHT, self._tag)
            return fig
