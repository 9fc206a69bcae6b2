"""The figure of a study's categories: a forest with the refusal rate of every model in each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refusal_eval.core.errors import UserError
from refusal_eval.plots.captions import cell_words, judge_words, rates_words
from refusal_eval.plots.forest import Line, draw_mark, scale_in_percent
from refusal_eval.plots.layout import EDGE, HINTED, axes_at, page, put, widest, wrap_to
from refusal_eval.plots.model_rows import ModelRows
from refusal_eval.plots.panels import PanelGrid
from refusal_eval.plots.plot import Caption, Drawn, Plot, chosen_scores, models_in_order
from refusal_eval.plots.series import LOOKS, Legend
from refusal_eval.plots.shown_estimates import Row, chosen_rows, highest, percent_scale
from refusal_eval.plots.style import COLUMN_WIDTH, FAINT, LINE_HEIGHT, styled
from refusal_eval.plots.tags import protocol_tag
from refusal_eval.report.paper.display import Score, headline, mark_of, marks_of, notes_of
from refusal_eval.report.paper.frames import Card
from refusal_eval.stats.estimates.scores import derived_flags, score_flags

ESTIMAND = "refusal_rate"
ALL = "All"
_TOGETHER, _APART = 3, 8  # models that share a panel, and that have a panel each; more are rows
_ROW, _MARK = 11.0, 5.0  # points for a row, and for each further mark in it
_NARROWEST = 70.0  # points of a panel
_HEAD = 4.0  # points above the name of a split


def category_forest(scores: Sequence[Score], rows: Iterable[Row], cards: Iterable[Card], plot: Plot) -> Drawn:
    """Refusal rate and interval of each category of each split, and of the whole split, for every model.

    Up to three models share a panel and up to eight have a panel each; more are the rows of a panel for each category.
    Of a split with many categories those with the most prompts are shown: as many as asked for and as fit a page; the
    highest mean rate stands first.

    Args:
        scores: the study's.
        rows: its estimates.
        cards: of the judge.
        plot: what is asked.

    Raises:
        UserError: without categories, or where no page is high enough.
    """
    chosen = chosen_scores(scores, plot)
    readings = {score["split"]: score["headline"] for score in chosen}
    wanted = {"estimand": ESTIMAND, "judge": plot.judge, "model": plot.models, "split": plot.splits, "parameter": None}
    of_categories = [
        row
        for row in chosen_rows(rows, **wanted)
        if row["category"] is not None and row["value"] is not None and row["reading"] == readings.get(row["split"])
    ]
    if not of_categories:
        raise UserError(f"figure `{plot.name}`: no prompt of its splits has a category")
    chosen = [score for score in chosen if score["split"] in {row["split"] for row in of_categories}]
    found = [*of_categories, *map(_whole, (score for score in chosen if headline(score)["rate"] is not None))]
    models, drawing = models_in_order(chosen, plot), ModelRows if len(plot.models) > _APART else _Forest
    for most in range(int(plot.options["most"]), 0, -1):
        lines = _lines(of_categories, chosen, most, plot)
        drawn = drawing(models, lines, found, plot, protocol_tag(chosen))
        if plot.fits(drawn.height):
            marks = notes_of(flag for row in of_categories for flag in row["flags"])
            caption = _caption(chosen, cards, _left_out(of_categories, lines, plot), marks, plot)
            return Drawn(drawn.draw(), _frame(of_categories), caption)
    raise plot.too_high(drawn.height, "name one of its `splits`, or fewer `models`")


class _Forest:
    """Where everything stands, and the drawing of it."""

    def __init__(
        self, models: Sequence[str], lines: Sequence[Line], rows: Sequence[Row], plot: Plot, tag: Sequence[str]
    ) -> None:
        self._plot, self._lines, self._tag = plot, lines, tag
        self._found = {(row["model"], row["split"], row["category"]): row for row in rows}
        self._panels = [list(models)] if len(models) <= _TOGETHER else [[model] for model in models]
        self._ticks = percent_scale(highest(rows))
        with styled():
            self._width = plot.points(len(self._panels) > 1)
            room = (0.42 if self._width == COLUMN_WIDTH else 0.26) * self._width
            plain = [wrap_to(line.text, room) for line in lines if not line.head]
            self._left = EDGE + HINTED * max(widest(text) for text in plain) + 6
            # The name of a split may reach over the first panel, which is empty at its height.
            wide = self._width - 2 * EDGE if len(self._panels) == 1 else self._left + _NARROWEST - EDGE
            self._texts = [wrap_to(line.text, wide if line.head else room, bold=line.head) for line in lines]
            marks = _ROW + _MARK * (len(self._panels[0]) - 1)
            self._heights = [
                (_HEAD if line.head else 0.0) + max(len(text) * LINE_HEIGHT, 0.0 if line.head else marks)
                for line, text in zip(lines, self._texts, strict=True)
            ]
            together = len(self._panels) == 1
            names = [plot.labels.model(model) for model in models]
            self._legend = Legend(names if together else [], self._width - 2 * EDGE)
            titles = [[] if together else [plot.labels.model(panel[0])] for panel in self._panels]
            self._grid = PanelGrid(titles, self._width - self._left - EDGE, sum(self._heights), _NARROWEST)
            self._top = EDGE + self._legend.height + (4 if self._legend.height else 0)
            self.height = self._top + self._grid.height + (1 + len(tag)) * LINE_HEIGHT + EDGE

    def draw(self) -> Figure:
        with styled():
            fig, sheet = page(self._width, self.height)
            self._legend.draw(sheet, EDGE, EDGE, line=False)
            self._grid.draw_titles(sheet, self._left, self._top)
            for index, (panel, (x, y, width, tall)) in enumerate(zip(self._panels, self._grid.boxes, strict=True)):
                if self._grid.first_column(index):
                    self._draw_texts(sheet, self._top + y)
                ax = axes_at(fig, self._left + x, self._top + y, width, tall)
                self._draw_panel(ax, panel)
            foot = self._top + self._grid.height
            middle = (self._left + self._width - EDGE) / 2
            put(sheet, middle, foot, ["Refusal rate (%)"], align="center")
            put(sheet, EDGE, foot + LINE_HEIGHT, self._tag)
            return fig

    def _draw_texts(self, sheet: Axes, y: float) -> None:
        for line, text, height in zip(self._lines, self._texts, self._heights, strict=True):
            if line.head:
                put(sheet, EDGE, y + _HEAD, text, bold=True)
            else:
                put(sheet, self._left - 6, y + (height - len(text) * LINE_HEIGHT) / 2, text, align="right")
            y += height

    def _draw_panel(self, ax: Axes, models: Sequence[str]) -> None:
        y = 0.0
        for line, height in zip(self._lines, self._heights, strict=True):
            if line.head:
                ax.axhspan(y, y + height, color="white", linewidth=0, zorder=1)
            else:
                first = y + height / 2 - _MARK * (len(models) - 1) / 2
                for number, model in enumerate(models):
                    look = LOOKS[number] if len(models) > 1 else LOOKS[0]
                    row = self._found.get((model, line.split, line.category))
                    draw_mark(ax, row, look, first + number * _MARK, thick=line.category is None)
                ax.axhline(y + height, color=FAINT, linewidth=0.4, zorder=0)
            y += height
        scale_in_percent(ax, self._ticks, y)


def _whole(score: Score) -> dict[str, Any]:
    """The rate of a whole split, as a row of estimates."""
    part = headline(score)
    names = {"model": score["model"], "split": score["split"], "category": None}
    return names | {"value": part["rate"], "low": part["low"], "high": part["high"]}


def _lines(rows: Sequence[Row], scores: Sequence[Score], most: int, plot: Plot) -> list[Line]:
    """Head, whole split and its categories, for each split that has any, with their marks."""
    lines = []
    for split in plot.splits:
        sizes: dict[str, int] = {}
        values: dict[str, list[float]] = {}
        flags: dict[str, set[str]] = {}
        for row in rows:
            if row["split"] == split:
                name = row["category"]
                sizes[name] = max(sizes.get(name, 0), row["n_prompts"] or 0)
                values.setdefault(name, []).append(row["value"])
                flags.setdefault(name, set()).update(row["flags"])
        if not sizes:
            continue
        kept = sorted(sizes, key=lambda name: (-sizes[name], name))[:most]
        means = {name: sum(values[name]) / len(values[name]) for name in kept}
        own = [score for score in scores if score["split"] == split]
        head, at_head = plot.labels.split(split) + marks_of(own), set(derived_flags(map(score_flags, own)))
        lines += [Line(head, split, None, head=True), Line(ALL, split, None)]
        lines += [
            Line(f"{plot.category(name)} ({sizes[name]}{mark_of(flags[name] - at_head)})", split, name)
            for name in sorted(kept, key=lambda name: (-means[name], name))
        ]
    return lines


def _left_out(rows: Sequence[Row], lines: Sequence[Line], plot: Plot) -> dict[str, int]:
    """Number of categories that are not shown, by split."""
    shown = {(line.split, line.category) for line in lines}
    missing = {(row["split"], row["category"]) for row in rows} - shown
    return {split: n for split in plot.splits if (n := sum(of == split for of, _ in missing))}


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    names = ("judge", "model", "split", "category", "reading", "value", "low", "high", "n_prompts", "n_clusters")
    kept = pd.DataFrame([{name: row[name] for name in names} for row in rows], dtype=object)
    return kept.sort_values(["model", "split", "category"])


def _caption(
    scores: Sequence[Score], cards: Iterable[Card], left_out: Mapping[str, int], marks: Sequence[str], plot: Plot
) -> Caption:
    words = ["In brackets: prompts; thick lines: the whole split."]
    words += [
        f"Not shown of {plot.labels.split(split)}: {n} {'category' if n == 1 else 'categories'} with fewer prompts."
        for split, n in left_out.items()
    ]
    words += [
        *rates_words(scores),
        *judge_words(scores, cards, plot.labels),
        *cell_words(scores, [s for s in plot.splits if any(x["split"] == s for x in scores)], plot.labels),
    ]
    words += [f"{note}." for note in marks if f"{note}." not in words]
    return Caption(plot.title or "Refusal rate by category.", words)
