"""Panels of curves with intervals: what refusal does over turns, and c(x) over its temperature."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refusal_eval.core.errors import UserError
from refusal_eval.plots.layout import EDGE, axes_at, page, put, put_upright, text_width
from refusal_eval.plots.panels import PanelGrid
from refusal_eval.plots.plot import Plot
from refusal_eval.plots.series import LOOKS, MOST, Legend, Look
from refusal_eval.plots.style import FAINT, GREY, LINE_HEIGHT, styled
from refusal_eval.report.paper.display import Score, marks_of

_PANEL_HEIGHTS = (76.0, 62.0, 50.0, 42.0)  # points; the first with which a page has room
_NARROWEST = 92.0
_SCALE_WIDTH = 30.0  # points left of the panels
_DODGE = 0.5  # of the distance of two points, for all series together


Cell = tuple[str, str]


class Point(NamedTuple):
    """One point of a curve; `place` counts the points of the horizontal axis from 0."""

    place: int
    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True)
class Chart:
    """What curves are drawn over and against.

    Attributes:
        x_label: name of the horizontal axis.
        places: its labels, one for each place.
        y_label: name of the vertical axis.
        y_ticks: its numbers; the first and last are its ends.
        mark: the place with a line through it, None for none.
        intervals: whether intervals are drawn.
        tag: lines at the foot of the figure.
    """

    x_label: str
    places: Sequence[str]
    y_label: str
    y_ticks: Sequence[float]
    mark: int | None = None
    intervals: bool = True
    tag: Sequence[str] = ()


def arranged(models: Sequence[str], splits: Sequence[str], plot: Plot) -> tuple[Sequence[str], Sequence[str], bool]:
    """Return what has a panel each, what is a series in it, and whether panels are splits.

    Models are the series as long as they can be told apart, else splits.

    Raises:
        UserError: if there are too many of both.
    """
    if len(models) <= MOST:
        return splits, models, True
    if len(splits) <= MOST:
        return models, splits, False
    raise UserError(
        f"figure `{plot.name}` would have {len(models)} models and {len(splits)} splits, and a panel shows at most "
        f"{MOST} curves that can be told apart: name fewer under `models` or `splits`"
    )


def in_panels(
    points: Mapping[Cell, Sequence[Point]], scores: Sequence[Score], models: Sequence[str], plot: Plot
) -> tuple[list[list[str]], list[dict[str, Sequence[Point]]], dict[str, str]]:
    """Return titles of panels, the curves of each by series, and the labels of the series, for `draw_curves`.

    Args:
        points: of each (model, split).
        scores: of the cells that are shown.
        models: in their order.
        plot: what is asked.

    Raises:
        UserError: if there are too many models and splits.
    """
    panels, series, by_split = arranged(models, plot.splits, plot)
    show, expected = plot.labels, {score["split"]: score["expectation"] for score in scores}
    if by_split:
        names = [show.split(split) + _marked(scores, "split", split) for split in panels]
        titles = [[name, f"({expected.get(split, '')})"] for name, split in zip(names, panels, strict=True)]
        curves = [{model: points.get((model, split), []) for model in series} for split in panels]
        return titles, curves, {model: show.model(model) for model in series}
    titles = [[show.model(model) + _marked(scores, "model", model)] for model in panels]
    curves = [{split: points.get((model, split), []) for split in series} for model in panels]
    return titles, curves, {split: f"{show.split(split)} ({expected.get(split, '')})" for split in series}


def _marked(scores: Sequence[Score], by: str, name: str) -> str:
    """Marks of the cells of a panel."""
    return marks_of(score for score in scores if score[by] == name)


def draw_curves(
    titles: Sequence[Sequence[str]],
    curves: Sequence[Mapping[str, Sequence[Point]]],
    names: Mapping[str, str],
    chart: Chart,
    plot: Plot,
) -> Figure:
    """Draw a panel for each title; one column wide for up to two panels, else as wide as the page.

    Args:
        titles: paragraphs over each panel.
        curves: of each panel, by series.
        names: labels of all series, in the order of their looks.
        chart: the axes.
        plot: what is asked.

    Raises:
        UserError: if no page is high enough.
    """
    with styled():
        width = plot.points(len(titles) > 2)
        left = EDGE + _SCALE_WIDTH
        looks = dict(zip(names, LOOKS, strict=False))
        legend = Legend([*names.values()] if len(names) > 1 else [], width - 2 * EDGE)
        top = EDGE + legend.height + (4 if legend.height else 0)
        for tall in _PANEL_HEIGHTS:
            grid = PanelGrid(titles, width - left - EDGE, tall, _NARROWEST)
            end = top + grid.height
            height = end + (1 + len(chart.tag)) * LINE_HEIGHT + EDGE
            if plot.fits(height):
                break
        else:
            raise plot.too_high(height, "name fewer under `models` or `splits`")
        fig, sheet = page(width, height)
        legend.draw(sheet, EDGE, EDGE)
        grid.draw_titles(sheet, left, top)
        for index, ((x, y, panel, tall), series) in enumerate(zip(grid.boxes, curves, strict=True)):
            ax = axes_at(fig, left + x, top + y, panel, tall)
            _draw_panel(ax, series, looks, chart)
            _label_axes(ax, chart, panel, grid.first_column(index))
        put(sheet, left + (width - left - EDGE) / 2, end, [chart.x_label], align="center")
        first, words = top + grid.boxes[0][1], text_width(chart.y_label)
        put_upright(sheet, EDGE + LINE_HEIGHT / 2, (first + end - 12 + words) / 2, [chart.y_label])
        put(sheet, EDGE, end + LINE_HEIGHT, chart.tag)
        return fig


def _draw_panel(ax: Axes, series: Mapping[str, Sequence[Point]], looks: Mapping[str, Look], chart: Chart) -> None:
    low, high = chart.y_ticks[0], chart.y_ticks[-1]
    for tick in chart.y_ticks[1:]:
        ax.axhline(tick, color=FAINT, linewidth=0.5, zorder=0)
    if chart.mark is not None:
        ax.axvline(chart.mark, color=GREY, linewidth=0.7, linestyle=(0, (3, 2)), zorder=1)
    step = _DODGE / max(1, len(looks))
    for number, (name, look) in enumerate(looks.items()):
        points = series.get(name, ())
        shift = (number - (len(looks) - 1) / 2) * step
        places = [point.place + shift for point in points]
        for place, point in zip(places, points, strict=True):
            if chart.intervals and point.low is not None and point.high is not None:
                ends = [max(low, point.low), min(high, point.high)]
                ax.plot([place, place], ends, color=look.colour, linewidth=0.7, solid_capstyle="butt", zorder=2)
        values = [point.value for point in points]
        ax.plot(places, values, **look.line(), zorder=2)
        ax.plot(places, values, linestyle="none", **look.point(), clip_on=False, zorder=3)
    ax.set_xlim(-0.5, len(chart.places) - 0.5)
    ax.set_ylim(low, high)
    ax.spines[["top", "right"]].set_visible(False)


def _label_axes(ax: Axes, chart: Chart, width: float, first: bool) -> None:
    """Label as many places as there is room for, the same number of them left out between any two."""
    places = range(len(chart.places))
    step = width / len(chart.places)
    fitting = (n for n in range(1, len(chart.places)) if _room(chart.places[::n], n * step))
    every = next(fitting, len(chart.places))
    shown = [chart.places[i] if i % every == 0 else "" for i in places]
    ax.set_xticks(list(places), shown)
    texts = [f"{tick:g}".replace("-", "\u2212") for tick in chart.y_ticks]
    ax.set_yticks(list(chart.y_ticks), texts if first else [""] * len(texts))


def _room(texts: Sequence[str], step: float) -> bool:
    return all(text_width(text) + 3 <= step for text in texts)
