"""Panels of curves with intervals: what refusal does over turns, and c(x) over its temperature."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from refusal_eval.config.figure_entry import MOST_CURVES
from refusal_eval.plots.captions import protocol_tag
from refusal_eval.plots.figure_data import Cell, FigureData, Row
from refusal_eval.plots.layout import EDGE, page, put, text_width
from refusal_eval.plots.panels import LOOKS, Legend, Look, PanelGrid
from refusal_eval.plots.style import FAINT, GREY, LINE_HEIGHT, styled
from refusal_eval.report.paper.display import marks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_HEIGHTS = (76.0, 62.0, 50.0, 42.0)  # points; the first with which a page has room
_NARROWEST = 92.0
_SCALE_WIDTH = 30.0  # points left of the panels
_DODGE = 0.5  # of the distance of two points, for all series together


class Point(NamedTuple):
    """One point of a curve; `place` counts the points of the horizontal axis from 0."""

    place: int
    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True)
class Chart:
    """What curves are drawn over and against."""

    x_label: str  # name of the horizontal axis
    places: Sequence[str]  # its labels, one for each place
    y_label: str  # name of the vertical axis
    y_ticks: Sequence[float]  # its numbers; the first and last are its ends
    mark: int | None = None  # the place with a line through it, None for none
    intervals: bool = True  # whether intervals are drawn


def points_of(rows: Sequence[Row], place: Callable[[Row], int], factor: float) -> dict[Cell, list[Point]]:
    """Return the points of each (model, split), from the left.

    Args:
        rows: of estimates; those without a value have no point.
        place: of a row on the horizontal axis.
        factor: 100 for percent.
    """
    found: dict[Cell, list[Point]] = {}
    for row in sorted(rows, key=place):
        if row["value"] is not None:
            low, high = (None if end is None else factor * end for end in (row["low"], row["high"]))
            point = Point(place(row), factor * row["value"], low, high)
            found.setdefault((row["model"], row["split"]), []).append(point)
    return found


def percent_scale(highest: float) -> list[float]:
    """Ticks in percent from 0 to the first of 20, 40, 60, 80 and 100 that a share does not exceed."""
    end = next((end for end in (20, 40, 60, 80, 100) if 100 * highest <= end), 100)
    return [0, end / 2, end]


def highest(rows: Sequence[Row], intervals: bool = True) -> float:
    """The highest value, or end of an interval; 0 without any."""
    names = ("value", "high") if intervals else ("value",)
    return max((row[name] for row in rows for name in names if row[name] is not None), default=0.0)


def draw_curves(points: Mapping[Cell, Sequence[Point]], chart: Chart, data: FigureData) -> Figure:
    """Draw a panel for each split, or for each model where models are too many to be told apart in a panel.

    One column wide for up to two panels, else as wide as the page.

    Args:
        points: of each (model, split).
        chart: the axes.
        data: of the figure.

    Raises:
        UserError: if there are too many models and splits, or no page is high enough.
    """
    titles, curves, names = _panels(points, data)
    with styled():
        width, tag = data.points(len(titles) > 2), protocol_tag(data.scores)
        left = EDGE + _SCALE_WIDTH
        looks = dict(zip(names, LOOKS, strict=False))
        legend = Legend([*names.values()] if len(names) > 1 else [], width - 2 * EDGE)
        top = EDGE + legend.height + (4 if legend.height else 0)
        for tall in _PANEL_HEIGHTS:
            grid = PanelGrid(titles, width - left - EDGE, tall, _NARROWEST)
            end = top + grid.height
            height = end + (1 + len(tag)) * LINE_HEIGHT + EDGE
            if data.fits(height):
                break
        else:
            raise data.too_high(height, "name fewer under `models` or `splits`")
        fig, sheet = page(width, height)
        legend.draw(sheet, EDGE, EDGE)
        for index, (ax, series) in enumerate(zip(grid.draw(fig, sheet, left, top), curves, strict=True)):
            _draw_panel(ax, series, looks, chart)
            _label_axes(ax, chart, grid.boxes[index][2], grid.first_column(index))
        grid.label_axes(sheet, (left, top), chart.x_label, chart.y_label)
        put(sheet, EDGE, end + LINE_HEIGHT, tag)
        return fig


def _panels(
    points: Mapping[Cell, Sequence[Point]], data: FigureData
) -> tuple[list[list[str]], list[dict[str, Sequence[Point]]], dict[str, str]]:
    """Titles of panels, the curves of each by series, and the labels of the series."""
    models, splits, show = data.models_in_order(), data.shown.splits, data.labels
    expected = dict(zip(splits, data.expected(splits), strict=True))
    if len(models) <= MOST_CURVES:
        titles = [[show.split(split) + _marked("split", split, data), f"({expected[split]})"] for split in splits]
        curves = [{model: points.get((model, split), []) for model in models} for split in splits]
        return titles, curves, {model: show.model(model) for model in models}
    if len(splits) <= MOST_CURVES:
        titles = [[show.model(model) + _marked("model", model, data)] for model in models]
        curves = [{split: points.get((model, split), []) for split in splits} for model in models]
        return titles, curves, {split: f"{show.split(split)} ({expected[split]})" for split in splits}
    raise data.undrawable(
        f" would have {len(models)} models and {len(splits)} splits, and a panel shows at most {MOST_CURVES} curves "
        "that can be told apart: name fewer under `models` or `splits`"
    )


def _marked(by: str, name: str, data: FigureData) -> str:
    """Marks of the cells of a panel."""
    return marks_of(score for score in data.scores if score[by] == name)


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
