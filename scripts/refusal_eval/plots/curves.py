"""Panels of curves with intervals: what refusal does over turns, and c(x) over its temperature."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from refusal_eval.config.figure_entry import MOST_CURVES
from refusal_eval.plots.base import (
    ARROWS,
    LOOKS,
    PLAIN,
    draw_mark,
    legend,
    name_axes,
    panels,
    settle,
    text_width,
    width_of,
)
from refusal_eval.plots.captions import everywhere_words, label_with_protocol
from refusal_eval.plots.figure_data import FigureData, ModelSplit, ResultRow, fits
from refusal_eval.plots.shared_marks import shared_flags
from refusal_eval.plots.style import FAINT, GREY
from refusal_eval.report.paper.display import MINUS, join_texts, mark_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HIGH, _LOW = 76.0, 42.0  # points, the height of a panel, and the least where a page has no room
_NARROWEST = 92.0
MOST_WITH_INTERVALS = 3  # curves in a panel
NO_INTERVALS = f"Intervals are left out where a panel has more than {MOST_WITH_INTERVALS} curves; the CSV has them."
_FEW_ROWS = 3  # of panels that a page always has room for


@dataclasses.dataclass(frozen=True)
class Chart:
    """What curves are drawn over and against."""

    x_label: str  # name of the horizontal axis
    places: Sequence[str]  # its labels, one for each place
    place: Callable[[ResultRow], int]  # the place of a row of estimates, from 0
    y_label: str  # name of the vertical axis
    y_ticks: Sequence[float]  # its numbers; the first and last are its ends
    factor: float = 100  # of values, for percent
    mark: int | None = None  # the place with a line through it, None for none
    intervals: bool = True  # whether intervals are drawn
    at: Sequence[float] | None = None  # where the places lie on the axis; None for evenly
    dodge: float = 0.0  # the part of the distance of two places over which curves lie side by side
    plain: str | None = None  # the name of what all curves share at the marked place, drawn once; None for nothing

    @property
    def positions(self) -> Sequence[float]:
        return range(len(self.places)) if self.at is None else self.at

    @property
    def gap(self) -> float:
        """The smallest distance between neighbours."""
        return min((b - a for a, b in itertools.pairwise(self.positions)), default=1.0)


def percent_scale(highest: float) -> list[float]:
    """Ticks in percent from 0 to the first of 20, 40, 60, 80 and 100 that a share does not exceed."""
    end = next((end for end in (20, 40, 60, 80, 100) if 100 * highest <= end), 100)
    return [0, end / 2, end]


def highest(rows: Sequence[ResultRow], intervals: bool = True) -> float:
    """The highest value, or end of an interval; 0 without any."""
    names = ("value", "high") if intervals else ("value",)
    return max((row[name] for row in rows for name in names if row[name] is not None), default=0.0)


def draw_curves(
    rows: Sequence[ResultRow], chart: Chart, data: FigureData, curves: Sequence[str] | None = None
) -> Figure:
    """Draw a panel for each split, or for each model if a panel could not show all models distinctly.

    One column wide for up to two panels, else as wide as the page.

    Args:
        rows: of estimates, whose marks follow the title of their panel; one without a value is a gap in a curve.
        curves: names of curves of several models, at most `MOST_CURVES`; rows have theirs as `curve`. None where each
            model is one.

    Raises:
        UserError: if there are too many models and splits, or no page is high enough.
    """
    names = {"model": data.models_in_order(), "split": data.shown.splits, "curve": list(curves or ())}
    panel, curve = ("split", "model") if len(names["model"]) <= MOST_CURVES else ("model", "split")
    if curves is not None:
        panel, curve = "split", "curve"
    if len(names[curve]) > MOST_CURVES:
        raise data.undrawable(
            f" would have {len(names['model'])} models and {len(names['split'])} splits, and a panel shows at most "
            f"{MOST_CURVES} curves that can be told apart: name fewer under `models` or `splits`"
        )
    expected = zip(names["split"], data.expectations(names["split"]), strict=True)
    labels = {  # by noun, as a model and a split may have one name
        "split": [f"{data.labels.split(split)} ({what}{ARROWS.get(what, '')})" for split, what in expected],
        "model": [data.labels.model(model) for model in names["model"]],
        "curve": names["curve"],
    }
    everywhere = unmarked(rows)
    titles = [
        label + mark_of({flag for row in rows if row[panel] == name for flag in row["flags"]} - everywhere)
        for name, label in zip(names[panel], labels[panel], strict=True)
    ]
    fig, axes, columns = panels(titles, data.points(len(titles) > 2), _HIGH, _NARROWEST)
    samples = [look.sample(line=True) for look in LOOKS[: len(names[curve])]]
    if chart.plain is not None:
        legend(fig, [*samples, PLAIN.sample()], [*labels[curve], chart.plain])
    elif len(names[curve]) > 1:
        legend(fig, samples, labels[curve])
    for ax, title in zip(axes, names[panel], strict=True):
        in_panel = [row for row in rows if row[panel] == title]
        _draw_panel(ax, [[row for row in in_panel if row[curve] == name] for name in names[curve]], chart)
    below, in_rows = label_with_protocol(chart.x_label, data.scores), -(-len(axes) // columns)
    name_axes(fig, axes, columns, below, chart.y_label, _HIGH if in_rows <= _FEW_ROWS else _LOW)
    _label_places(axes, chart)
    settle(fig, axes[0], [_HIGH] * in_rows, _LOW / _HIGH)
    if not fits(fig):
        raise data.too_high(fig, "name fewer under `models` or `splits`")
    return fig


def unmarked(rows: Sequence[ResultRow]) -> set[str]:
    """Return the flags that nearly all points have, which mark no title."""
    return shared_flags(row["flags"] for row in rows)


def titles_words(rows: Sequence[ResultRow]) -> list[str]:
    """Say whose the marks at titles of panels are, as a sentence for the caption; none without marks."""
    everywhere = unmarked(rows)
    marked = any(mark_of(set(row["flags"]) - everywhere) for row in rows)
    return [*(["A mark at a title applies to at least one point below it."] * marked), *everywhere_words(everywhere)]


def gaps_words(
    rows: Sequence[ResultRow], data: FigureData, cells: Iterable[ModelSplit] = (), part: str = "at some points"
) -> list[str]:
    """Name the cells without any value, then those with some, as sentences for the caption.

    Args:
        cells: further cells (model, split) that the figure should show, which may have no row.
        part: where cells that have some values lack others.
    """
    known: dict[ModelSplit, list[bool]] = {cell: [] for cell in cells}
    for row in rows:
        known.setdefault((row["model"], row["split"]), []).append(row["value"] is not None)
    found = []
    for start, wanted in (("Without a number, and so not shown", False), (f"Without a number {part}", True)):
        names = [
            f"{data.labels.model(model)} on {data.labels.split(split)}"
            for (model, split), there in known.items()
            if any(there) == wanted and not (there and all(there))
        ]
        found += [f"{start}: {join_texts(names)}."] if names else []
    return found


def _draw_panel(ax: Axes, series: Sequence[Sequence[ResultRow]], chart: Chart) -> None:
    for tick in chart.y_ticks[1:]:
        ax.axhline(tick, color=FAINT, linewidth=0.5, zorder=0)
    if chart.mark is not None:
        ax.axvline(chart.positions[chart.mark], color=GREY, linewidth=0.7, linestyle=(0, (3, 2)), zorder=1)
    shared: dict[str, ResultRow] = {}
    for number, (rows, look) in enumerate(zip(series, LOOKS, strict=False)):
        shift = chart.gap * chart.dodge * ((number + 0.5) / len(series) - 0.5)
        found = sorted(rows, key=chart.place)
        places = [chart.positions[chart.place(row)] + shift for row in found]
        values = [math.nan if row["value"] is None else chart.factor * row["value"] for row in found]
        ax.plot(places, values, **look.line(), clip_on=False, in_layout=False, zorder=2)  # whole at 0 and 100 %
        for place, row in zip(places, found, strict=True):
            if chart.plain is not None and chart.place(row) == chart.mark:
                shared[row["model"]] = row
                continue
            ends = (row["low"], row["high"]) if chart.intervals else ()
            draw_mark(ax, look, row["value"], ends, place, upright=True, factor=chart.factor)
    for row in shared.values():
        at = chart.positions[chart.place(row)]
        draw_mark(ax, PLAIN, row["value"], (row["low"], row["high"]), at, upright=True, factor=chart.factor)
    ax.set_xlim(chart.positions[0] - chart.gap / 2, chart.positions[-1] + chart.gap / 2)
    ax.set_ylim(chart.y_ticks[0], chart.y_ticks[-1])
    ax.set_yticks(chart.y_ticks, [f"{tick:g}".replace("-", MINUS) for tick in chart.y_ticks])


def _label_places(axes: Sequence[Axes], chart: Chart) -> None:
    """Label the places: all of them if there is room, without the zero before a point if need be; else the marked one
    first, then the ends, then from left to right.
    """
    positions = chart.positions
    step = width_of(axes[0]) / (positions[-1] - positions[0] + chart.gap)
    short = [text.replace("0.", ".") if text.startswith(("0.", MINUS + "0.")) else text for text in chart.places]
    forms = [list(chart.places), short]
    order = sorted(range(len(short)), key=lambda i: (i != chart.mark, i not in (0, len(short) - 1), i))
    fitting = (form for form in forms if len(_fitting(form, range(len(form)), positions, step)) == len(form))
    places = next(fitting, forms[0])
    if places is forms[0] and chart.at is None and chart.mark is None:
        order = list(every_nth(chart, step))
    shown = _fitting(places, order, positions, step)
    for ax in axes:
        ax.set_xticks(positions, [text if i in shown else "" for i, text in enumerate(places)])


def _fitting(places: Sequence[str], order: Sequence[int], positions: Sequence[float], step: float) -> set[int]:
    """Return the places whose labels have room next to those that come before them in an order."""
    ends: list[tuple[float, float]] = []
    shown = set()
    for i in order:
        half = text_width(places[i]) / 2 + 1.5
        left, right = step * positions[i] - half, step * positions[i] + half
        if all(right <= low or left >= high for low, high in ends):
            ends.append((left, right))
            shown.add(i)
    return shown


def every_nth(chart: Chart, step: float) -> range:
    """Return the places that have labels, the same number of them left out between any two."""
    places = chart.places
    fitting = (n for n in range(1, len(places)) if all(text_width(text) + 3 <= n * step for text in places[::n]))
    return range(0, len(places), next(fitting, len(places)))
