"""The figure of the trade-off: refusal of what should be declined against refusal of what should be answered.

With joint regions and the Pareto front.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import OfModels
from refusal_eval.config.problems import Mistake
from refusal_eval.config.study_view import StudyView
from refusal_eval.features.tradeoff.model_tradeoff import REGION, region
from refusal_eval.features.tradeoff.tradeoff_rows import KINDS, ModelRows, model_rows, other_axes
from refusal_eval.plots.base import (
    Look,
    legend,
    legend_height,
    new_figure,
    settle,
    widest,
    width_of,
    wrap_into,
    wrap_to,
)
from refusal_eval.plots.captions import everywhere_words, label_with_protocol, short_words, study_words, within
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.shared_marks import shared_flags
from refusal_eval.plots.style import BLUE, FAINT, GREY, INK, LINE_HEIGHT
from refusal_eval.report.paper.display import Score, clean, flags_in, join_texts, mark_of, percent
from refusal_eval.report.paper.table_notes import k_text
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval
from refusal_eval.stats.estimates.pooled_rates import RATE_METHOD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIDE = 220.0  # points, height and width of the panel
_AROUND = 42.0  # points left and right of the panel, about
_MOST_NAMES = 8  # models that are named at their points; more are numbered
_NAME = 84.0  # points, the widest line of a name
_FRONT = "#7FB8D8"  # fainter than points
ATTACKS_LABEL = "Attacks that fail, 1 \u2212 ASR (%) \u2191"
X_LABEL, Y_LABEL = "Refusal of what should be answered (%) \u2193", "Refusal of what should be declined (%) \u2191"
_LEAST_KEY = 90.0  # points right of the panel that its list needs
_LEAST_RANGE = 5.0  # percent on a scale
_MOST_REGIONS = 8  # models that all have their region drawn

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top

# Positions of the numbers of points, in points of the page.
CLEAR = 2.2  # around a point, where no number may be
_HIGH = 5.6  # height of a digit
_NEAR = (6.5, 9.5)  # distances at which a number is seen to belong to its point
_FAR = tuple(range(14, 240, 5))  # at these a line leads from it to its point
_ANGLES = 24


class TradeoffFigure(OfModels):
    """Refusal of what should be declined against refusal of what should be answered, each split in its headline
    reading, with joint regions and the Pareto front. It pools all splits of the study, and the front is that of all its
    models."""

    report: ClassVar[tuple[str, str]] = ("Trade-off", "Trade-off by model")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "tradeoff", "cards")

    kind: Literal["tradeoff"]
    axes: Literal["refusals", "attacks"] = Field(
        "refusals",
        description="What over-refusal is weighed against: refusals of what should be declined, or 1 - ASR of the "
        "study's `attacks`.",
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        return [] if _not_expected(study) else [cls(name="tradeoff", kind="tradeoff")]

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield which expectation no split has."""
        for wanted in _not_expected(study) if self.axes == "refusals" else ():
            message = "`tradeoff` needs splits expected to comply and to refuse; none has "
            yield ("kind",), f"{message}`expectation: {wanted}`"

    def draw(self, data: FigureData) -> Drawn:
        """Draw both rates of each model; the good corner is at the top left.

        Up to eight models are named at their points if there is room; else they are numbered, and a list names them.
        Both scales are the same and reach as far as points and regions do.

        Raises:
            UserError: if no model has both rates, or no page is high enough.
        """
        attacks = self.axes == "attacks"
        shown = ["comply"] if attacks else list(KINDS.values())
        pooled = {split["name"] for split in data.splits if split["expectation"] in shown}
        scores = [score for score in data.scores if score["split"] in pooled]
        every = model_rows(data.rows_of("tradeoff", "estimates"), data.splits, attacks)
        both = {model: own for (judge, model), own in every.items() if judge == data.judge and own.front}
        entries = [own for model in data.shown.models if (own := _entry(both.get(model)))]
        if not entries:
            raise data.undrawable(": no model has both rates, of what should be answered and what should be declined")
        everywhere = shared_flags({*flags_in(_own(entry, scores)), *entry.flags} for entry in entries)
        names = [_name(entry, scores, everywhere, data) for entry in entries]
        label = ATTACKS_LABEL if attacks else Y_LABEL
        fig = _draw(entries, names, data, scores, label, named=True) if len(entries) <= _MOST_NAMES else None
        fig = fig or _draw(entries, names, data, scores, label, named=False)
        assert fig is not None
        return Drawn(fig, _frame(entries), self._caption(scores, entries, len(both), data))

    def _caption(
        self, scores: Sequence[Score], entries: Sequence[LegendEntry], in_all: int, data: FigureData
    ) -> Caption:
        show = data.labels
        readings = {score["split"]: score["headline"] for score in scores}
        comply, refuse = (
            join_texts(
                f"{show.split(split['name'])} ({readings[split['name']]})"
                for split in data.splits
                if split["expectation"] == kind and split["name"] in readings
            )
            for kind in KINDS.values()
        )
        found = data.found("tradeoff")
        other = f"Should be declined: mean of those on {refuse}."
        against = other_axes(found, show)
        if self.axes == "attacks":
            attacked = join_texts(show.split(name) for name in found["attacks"]["splits"])
            kinds = join_texts(clean(kind).replace("_", " ") for kind in found["attacks"]["succeeds"])
            judge = show.judge(found["attacks"]["judge"])
            other = (
                f"Attacks on {attacked} succeed where {judge} finds an answer {kinds}; blocked answers are failures."
            )
            against = []
        front = [entry for entry in entries if entry.on_front]
        shared = [entry for entry in front if entry.front_share is not None]
        shares = [
            f"{show.model(entry.model)} {percent(entry.front_share, digits=0)} %{mark_of(entry.front_flags)}"
            for entry in shared
        ]
        whose = "" if len(entries) <= _MOST_REGIONS else " (of models on the front)"
        own_flags = (flag for entry in entries for flag in entry.flags)
        flags = flags_in(scores, (*own_flags, *(flag for entry in shared for flag in entry.front_flags)))
        words = [
            f"Should be answered: mean of the refusal rates on {comply}. {other} In brackets the reading of each "
            f"split. K = {k_text(scores)} answers per prompt. Each split counts alike, near-duplicate prompts once.",
            f"Regions{whose}: {100 * (entries[0].j.level or 0):g} %, {REGION}. Intervals of the two rates: "
            f"{RATE_METHOD}.",
        ]
        words += against
        if front:
            words.append(
                "Dashed line and filled dots: the Pareto front. By these rates no other model does at least as well in "
                "both and better in one, whether or not it is distinguishable"
                + (f"; share of resamples in which a model is on it: {join_texts(shares)}." if shares else ".")
            )
        if any(mark_of(entry.front_flags) for entry in shared):
            words.append("A mark at a share is that of any model that decides it.")
        if _paths(entries, data.shown.curves):
            words.append("Grey lines lead through models that differ in the scale of their intervention only.")
        if len(entries) < in_all:
            words.append(
                f"Shown are {len(entries)} of the study's {in_all} models; the front and the shares are those of all "
                f"{in_all}, so that a dot can be hollow since a model that is not shown beats it."
            )
        drawn = {entry.model for entry in entries}
        if lacking := [show.model(model) for model in data.shown.models if model not in drawn]:
            words.append(f"Without a rate of both kinds, and so not shown: {join_texts(lacking)}.")
        words += study_words(data, scores, [split for split in data.shown.splits if split in readings], flags)
        everywhere = shared_flags({*flags_in(_own(entry, scores)), *entry.flags} for entry in entries)
        words += everywhere_words(everywhere)
        attacks = self.axes == "attacks"
        title = self.title or ("Over-refusal and attacks that fail." if attacks else "Refusals wanted and unwanted.")
        over = "of what should be answered, and of attacks" if attacks else "of each expectation"
        what = f"Mean rates (%) over the splits {over}; regions {100 * (entries[0].j.level or 0):g} % joint"
        needed = short_words(data, what, scores, flags, everywhere)
        further = list(against)
        further += ["Filled, dashed: Pareto front of the point estimates."] if front else []
        return Caption(title, words, within(title, needed, further))


class LegendEntry(NamedTuple):
    """What is drawn of a model."""

    over: NumberInterval
    safe: NumberInterval
    j: Estimate
    correlation: float
    on_front: bool
    front_share: float | None
    front_flags: Sequence[str]
    region: list[list[float]] | None

    @property
    def model(self) -> str:
        return str(self.j.model)

    @property
    def flags(self) -> Sequence[str]:
        # Those of J are also those of its place.
        return self.j.flags

    @property
    def place(self) -> Point:
        """The position of its dot, in percent."""
        return 100 * self.over.value, 100 * self.safe.value


def _entry(rows: ModelRows | None) -> LegendEntry | None:
    """What is drawn of a model; None without both rates. Its region is an outline of numbers of the results table."""
    if rows is None or not (rows.over_refusal and rows.safety and rows.correlation and rows.front):
        return None
    over, safe = (NumberInterval(row.value or 0.0, row.low, row.high) for row in (rows.over_refusal, rows.safety))
    correlation, level = rows.correlation.value or 0.0, rows.youden_j.level
    outline = None if level is None else region(over, safe, correlation, level)
    share = None if rows.front_share is None else rows.front_share.value
    return LegendEntry(over, safe, rows.youden_j, correlation, bool(rows.on_front), share, rows.front.flags, outline)


def _not_expected(study: StudyView) -> list[str]:
    """Which of the two expectations no split has."""
    found = {split.expectation for split in study.splits.values()}
    return [wanted for wanted in ("comply", "refuse") if wanted not in found]


def _own(entry: LegendEntry, scores: Sequence[Score]) -> list[Score]:
    return [score for score in scores if score["model"] == entry.model]


def _name(entry: LegendEntry, scores: Sequence[Score], everywhere: Collection[str], data: FigureData) -> str:
    """Label of a model with the marks of its cells and its own."""
    flags = flags_in(_own(entry, scores), entry.flags)
    return data.labels.model(entry.model) + mark_of(flags - set(everywhere))


def _draw(
    entries: Sequence[LegendEntry],
    names: Sequence[str],
    data: FigureData,
    scores: Sequence[Score],
    label: str,
    *,
    named: bool,
) -> Figure | None:
    """Draw the models, named at their points or numbered; None where there is no room for a name."""
    from matplotlib.patches import Polygon

    width = data.points(wide=len(entries) > _MOST_NAMES)
    most = _SIDE if data.figure.width is None else 2 * _SIDE
    fig = new_figure(width, [most])
    ax = fig.subplots()
    ticks = _ticks(entries)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.grid(color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    ax.set_xlim(ticks[0], ticks[-1])
    ax.set_ylim(ticks[0], ticks[-1])
    for entry in entries:
        if entry.region is not None and _has_region(entry, entries):
            outline = [(100 * x, 100 * y) for x, y in entry.region]
            colour = BLUE if entry.on_front else GREY
            ax.add_patch(Polygon(outline, closed=True, facecolor=colour, alpha=0.10, linewidth=0, zorder=1))
            ax.add_patch(Polygon(outline, closed=True, fill=False, edgecolor=colour, linewidth=0.4, zorder=1))
    for path in _paths(entries, data.shown.curves):
        ax.plot(*zip(*path, strict=True), color=GREY, linewidth=0.7, zorder=2)
    front = _front(entries, ticks)
    look: dict[str, Any] = {"color": _FRONT, "linewidth": 0.6, "linestyle": (0, (4, 2))}
    ax.plot([x for x, _ in front], [y for _, y in front], **look, zorder=2)
    for entry in entries:
        mark = Look(BLUE, BLUE, "o") if entry.on_front else Look(INK, "white", "o")
        ax.plot(*entry.place, linestyle="none", zorder=4, clip_on=False, in_layout=False, **mark.point())
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(label_with_protocol(X_LABEL, scores))
    ax.set_ylabel("\n".join(wrap_to(label, min(most, width - _AROUND))))
    below = False
    if named:
        texts = ["\n".join(wrap_into(name, len(wrap_to(name, _NAME)))) for name in names]
    else:
        texts = [str(number) for number in range(1, len(names) + 1)]
        beside = width - most - _AROUND
        below = beside < _LEAST_KEY or legend_height(names, beside) > most
        legend(fig, [], names, below=below, right=None if below else beside)
    side = width_of(ax)
    spare = max(0.0, side - most)
    if spare and not below:  # a square panel needs no wider figure
        fig.set_figwidth((width - spare) / 72)
        side, spare = width_of(ax), 0.0
    settle(fig, ax, [side - spare])
    if spare:  # the list below it does
        left, bottom, wide, high = ax.get_position().bounds
        ax.set_position((left + spare / 2 / width, bottom, wide - spare / width, high))
    if not fits(fig):
        raise data.too_high(fig, "name fewer under `models`")
    return fig if _draw_texts(ax, texts, [entry.place for entry in entries], front) or not named else None


def _has_region(entry: LegendEntry, entries: Sequence[LegendEntry]) -> bool:
    # Among many models, only regions on the front can be told apart.
    return len(entries) <= _MOST_REGIONS or bool(entry.on_front)


def _ticks(entries: Sequence[LegendEntry]) -> list[float]:
    """Round numbers whose ends hold all points and regions, within 0 and 100, for both scales."""
    from matplotlib.ticker import MaxNLocator

    drawn = [entry for entry in entries if _has_region(entry, entries)]
    values = [number for entry in entries for number in entry.place]
    values += [100 * number for entry in drawn for corner in entry.region or () for number in corner]
    low = min(*values, 100 - _LEAST_RANGE)
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, max(*values, low + _LEAST_RANGE))
    return [float(tick) for tick in ticks]


def _front(entries: Sequence[LegendEntry], ticks: Sequence[float]) -> list[Point]:
    """Return the corners of the steps through the undominated models; what lies below and to the right is dominated."""
    front = sorted(entry.place for entry in entries if entry.on_front)
    corners = [(front[0][0], ticks[0])] if front else []
    for x, y in front:
        corners += [(x, corners[-1][1]), (x, y)]
    return [*corners, (ticks[-1], corners[-1][1])] if corners else []


def _paths(entries: Sequence[LegendEntry], curves: Mapping[str, Mapping[str, float]]) -> list[list[Point]]:
    """Places of the models of each dose-response curve, in the order of their scales; curves of two points at least."""
    places = {entry.model: entry.place for entry in entries}
    found = [[places[model] for model in scales if model in places] for scales in curves.values()]
    return [path for path in found if len(path) > 1]


def _draw_texts(ax: Axes, texts: Sequence[str], points: Sequence[Point], steps: Sequence[Point]) -> bool:
    """Write a name or number at each point, clear of the line of `steps`; one that does not fit there gets a line.

    Tell whether there was room for all of them.
    """
    fig: Any = ax.get_figure()
    to_points = 72 / fig.dpi
    on_page, corners = (
        [(x * to_points, y * to_points) for x, y in ax.transData.transform(places)] if places else []
        for places in (points, steps)
    )
    left, low, right, high = (to_points * end for end in ax.get_window_extent().extents)
    lines = [text.split("\n") for text in texts]
    halves = [(widest(found) / 2, (_HIGH + LINE_HEIGHT * (len(found) - 1)) / 2) for found in lines]
    placed = place_texts(on_page, halves, corners, (left, low, right, high))
    for text, point, (x, y), place in zip(texts, points, on_page, placed, strict=True):
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": INK, "shrinkA": 0, "shrinkB": 1.6}
        ax.annotate(
            text, point, (place.at[0] - x, place.at[1] - y), textcoords="offset points", ha="center",
            va="center_baseline" if "\n" not in text else "center", arrowprops=line if place.line else None,
            in_layout=False,
            # Lines to other names that run behind it are faint there.
            bbox={"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.2},
        )  # fmt: skip
    return all(place.clear for place in placed)


def _frame(entries: Sequence[LegendEntry]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for entry in sorted(entries, key=lambda entry: entry.model):
        row: dict[str, Any] = {"judge": entry.j.judge, "model": entry.model}
        for name, number in (("over_refusal", entry.over), ("safety", entry.safe), ("youden_j", entry.j)):
            row |= {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}
        row |= {name: getattr(entry, name) for name in ("correlation", "on_front", "front_share")}
        row |= {name: getattr(entry.j, name) for name in ("n_prompts", "n_clusters")}
        outline = " ".join(f"{x:.4f},{y:.4f}" for x, y in entry.region or ())
        rows.append(row | {"flags": entry.flags, "region": outline})
    return pd.DataFrame(rows, dtype=object)


class NamePlace(NamedTuple):
    """The centre of a text, whether a line connects it to its point, and whether it is clear of all else."""

    at: Point
    line: bool
    clear: bool = True


def place_texts(
    points: Sequence[Point], halves: Sequence[Point], steps: Sequence[Point], panel: Box
) -> list[NamePlace]:
    """Return a place for the text of each point.

    Args:
        halves: half the width and half the height of each text.
        steps: corners of a line that texts avoid.
        panel: their bounds; if it is full, a text overlaps others.
    """
    from scipy.optimize import linear_sum_assignment

    taken = [(x - CLEAR, y - CLEAR, x + CLEAR, y + CLEAR) for x, y in points]
    taken += [(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in itertools.pairwise(steps)]

    def box(i: int, x: float, y: float) -> Box:
        half, high = halves[i]
        return x - half - 1, y - high - 1.5, x + half + 1, y + high + 1.5

    def spots(i: int, rings: Sequence[float]) -> Iterator[Point]:
        """Places around a point, the nearest first and of these the upper right one."""
        (x, y), (half, high) = points[i], halves[i]
        for ring, step in itertools.product(rings, range(_ANGLES)):
            angle = math.pi / 4 - 2 * math.pi * step / _ANGLES
            yield x + (ring + half - 3) * math.cos(angle), y + (ring + high - _HIGH / 2) * math.sin(angle)

    def free(i: int, rings: Sequence[float]) -> Iterator[Point]:
        for spot in spots(i, rings):
            left, low, right, high = found = box(i, *spot)
            within = left >= panel[0] and low >= panel[1] and right <= panel[2] and high <= panel[3]
            own = rings is _FAR or _distance(found, points[i]) <= min(_distance(found, point) for point in points)
            if within and own and not any(left < c and a < right and low < d and b < high for a, b, c, d in taken):
                yield spot

    found, far = {}, {}
    # Those with the least room choose first.
    for i in sorted(range(len(points)), key=lambda i: len(list(free(i, _NEAR)))):
        for spot in itertools.islice(free(i, _NEAR), 1):
            found[i] = NamePlace(spot, line=False)
            taken.append(box(i, *spot))
    for i in set(range(len(points))) - set(found):
        found[i] = NamePlace(next(spots(i, _NEAR)), line=False, clear=False)
        for spot in itertools.islice(free(i, _FAR), 1):
            far[i] = spot
            taken.append(box(i, *spot))
    if len({halves[i] for i in far}) > 1:  # texts of other sizes would not fit each other's places
        return [NamePlace(far[i], line=True) if i in far else found[i] for i in range(len(points))]
    # Lines that are together as short as they can be do not cross each other.
    costs = np.array([[math.dist(spot, points[i]) for spot in far.values()] for i in far]).reshape(len(far), len(far))
    for row, column in zip(*linear_sum_assignment(costs), strict=True):
        found[list(far)[row]] = NamePlace(list(far.values())[column], line=True)
    return [found[i] for i in range(len(points))]


def _distance(box: Box, point: Point) -> float:
    """From a point to the nearest edge of a box; 0 within it."""
    (left, low, right, high), (x, y) = box, point
    return math.hypot(max(left - x, 0.0, x - right), max(low - y, 0.0, y - high))
