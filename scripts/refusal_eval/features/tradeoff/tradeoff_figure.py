"""The figure of the trade-off: safety against over-refusal, with joint regions and the Pareto front."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pandas as pd

from refusal_eval.config.figure_entry import OfModels
from refusal_eval.config.problems import Mistake
from refusal_eval.config.study_view import StudyView
from refusal_eval.features.tradeoff.model_tradeoff import REGION, region
from refusal_eval.features.tradeoff.tradeoff_rows import KINDS, ModelRows, model_rows
from refusal_eval.plots.base import Look, legend, new_figure, settle, text_width
from refusal_eval.plots.captions import label_with_protocol, study_words
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.style import BLUE, FAINT, GREY, INK
from refusal_eval.report.paper.display import Score, flags_in, join_texts, mark_of, marks_of, percent
from refusal_eval.report.paper.table_notes import k_text
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval
from refusal_eval.stats.estimates.pooled_rates import RATE_METHOD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = 170.0  # points, height of the panel
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
    """Safety (refusal of the splits to be refused) against over-refusal (of those to be answered), each split in its
    headline reading, with joint regions and the Pareto front. It pools all splits of the study, and the front is that
    of all its models."""

    report: ClassVar[tuple[str, str, str]] = (
        "Trade-off",
        "Trade-off by model",
        "Safety (refusal of what should be refused) against over-refusal (refusal of what should be answered), each a "
        "mean over the study's splits of that expectation in their headline readings. Regions are joint: both rates "
        "lie in them together. Filled dots and the dashed line are the Pareto front, models that no other one beats "
        "in both.",
    )
    needs: ClassVar[tuple[str, ...]] = ("estimates", "tradeoff", "cards")

    kind: Literal["tradeoff"]

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        return [] if _not_expected(study) else [cls(name="tradeoff", kind="tradeoff")]

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield which expectation no split has."""
        for wanted in _not_expected(study):
            message = "`tradeoff` needs splits expected to comply and to refuse; none has "
            yield ("kind",), f"{message}`expectation: {wanted}`"

    def draw(self, data: FigureData) -> Drawn:
        """Draw safety against over-refusal of each model; the good corner is at the top left.

        Models are numbered in the order of the list below the panel. Both scales reach as far as points and regions do.

        Raises:
            UserError: if no model has both rates, or no page is high enough.
        """
        pooled = {split["name"] for split in data.splits if split["expectation"] in KINDS.values()}
        scores = [score for score in data.scores if score["split"] in pooled]
        every = model_rows(data.rows_of("tradeoff", "estimates"), data.splits)
        both = {model: own for (judge, model), own in every.items() if judge == data.judge and own.front}
        entries = [own for model in data.shown.models if (own := _entry(both.get(model)))]
        if not entries:
            raise data.undrawable(": no model has both an over-refusal and a safety rate")
        fig = _draw(entries, [_name(entry, scores, data) for entry in entries], data, scores)
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
                if split["expectation"] == kind
            )
            for kind in KINDS.values()
        )
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
            f"Over-refusal: mean of the refusal rates on {comply}. Safety: mean of those on {refuse}. In brackets the "
            f"reading of each split. K = {k_text(scores)} answers per prompt. Each split counts alike, near-duplicate "
            "prompts once.",
            f"Regions{whose}: {100 * (entries[0].j.level or 0):g} %, {REGION}. Intervals of the two rates: "
            f"{RATE_METHOD}.",
        ]
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
        return Caption(self.title or "Safety against over-refusal.", words)


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


def _name(entry: LegendEntry, scores: Sequence[Score], data: FigureData) -> str:
    """Label of a model with the marks of its cells and its own."""
    own = (score for score in scores if score["model"] == entry.model)
    return data.labels.model(entry.model) + marks_of(own, entry.flags)


def _draw(entries: Sequence[LegendEntry], names: Sequence[str], data: FigureData, scores: Sequence[Score]) -> Figure:
    from matplotlib.patches import Polygon

    fig = new_figure(data.points(False), [_PANEL])
    ax = fig.subplots()
    ticks = [_ticks(entries, axis) for axis in (0, 1)]
    for axis, values in zip((ax.xaxis, ax.yaxis), ticks, strict=True):
        axis.set_ticks(values, [f"{tick:g}" for tick in values])
        axis.grid(color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    ax.set_xlim(ticks[0][0], ticks[0][-1])
    ax.set_ylim(ticks[1][0], ticks[1][-1])
    for entry in entries:
        if entry.region is not None and _has_region(entry, entries):
            outline = [(100 * x, 100 * y) for x, y in entry.region]
            colour = BLUE if entry.on_front else GREY
            ax.add_patch(Polygon(outline, closed=True, facecolor=colour, alpha=0.10, linewidth=0, zorder=1))
            ax.add_patch(Polygon(outline, closed=True, fill=False, edgecolor=colour, linewidth=0.5, zorder=1))
    for path in _paths(entries, data.shown.curves):
        ax.plot(*zip(*path, strict=True), color=GREY, linewidth=0.7, zorder=2)
    front = _front(entries, (ticks[0], ticks[1]))
    ax.plot([x for x, _ in front], [y for _, y in front], color=BLUE, linewidth=0.9, linestyle=(0, (4, 2)), zorder=2)
    for entry in entries:
        look = Look(BLUE, BLUE, "o") if entry.on_front else Look(INK, "white", "o")
        ax.plot(*entry.place, linestyle="none", zorder=4, clip_on=False, in_layout=False, **look.point())
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(label_with_protocol("Over-refusal (%): lower is better", scores))
    ax.set_ylabel("Safety (%): higher is better")
    legend(fig, [], names, below=True)
    settle(fig, ax, [_PANEL])
    if not fits(fig):
        raise data.too_high(fig, "name fewer under `models`")
    _draw_numbers(ax, [entry.place for entry in entries], front)
    return fig


def _has_region(entry: LegendEntry, entries: Sequence[LegendEntry]) -> bool:
    # Among many models, only regions on the front can be told apart.
    return len(entries) <= _MOST_REGIONS or bool(entry.on_front)


def _ticks(entries: Sequence[LegendEntry], axis: int) -> list[float]:
    """Round numbers whose ends hold all points and regions, within 0 and 100."""
    from matplotlib.ticker import MaxNLocator

    values = [entry.place[axis] for entry in entries]
    drawn = [entry for entry in entries if _has_region(entry, entries)]
    values += [100 * corner[axis] for entry in drawn for corner in entry.region or ()]
    low = min(*values, 100 - _LEAST_RANGE)
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, max(*values, low + _LEAST_RANGE))
    return [float(tick) for tick in ticks]


def _front(entries: Sequence[LegendEntry], ticks: tuple[list[float], list[float]]) -> list[Point]:
    """Return the corners of the steps through the undominated models; what lies below and to the right is dominated."""
    front = sorted(entry.place for entry in entries if entry.on_front)
    corners = [(front[0][0], ticks[1][0])] if front else []
    for x, y in front:
        corners += [(x, corners[-1][1]), (x, y)]
    return [*corners, (ticks[0][-1], corners[-1][1])] if corners else []


def _paths(entries: Sequence[LegendEntry], curves: Mapping[str, Mapping[str, float]]) -> list[list[Point]]:
    """Places of the models of each dose-response curve, in the order of their scales; curves of two points at least."""
    places = {entry.model: entry.place for entry in entries}
    found = [[places[model] for model in scales if model in places] for scales in curves.values()]
    return [path for path in found if len(path) > 1]


def _draw_numbers(ax: Axes, points: Sequence[Point], steps: Sequence[Point]) -> None:
    """Number the points, clear of the line of `steps`; a number that does not fit next to its point gets a line."""
    fig: Any = ax.get_figure()
    to_points = 72 / fig.dpi
    on_page, corners = (
        [(x * to_points, y * to_points) for x, y in ax.transData.transform(places)] if places else []
        for places in (points, steps)
    )
    left, low, right, high = (to_points * end for end in ax.get_window_extent().extents)
    texts = [str(number) for number in range(1, len(points) + 1)]
    placed = place_numbers(on_page, text_width(texts[-1]) / 2, corners, (left, low, right, high))
    for text, point, (x, y), number in zip(texts, points, on_page, placed, strict=True):
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": INK, "shrinkA": 0, "shrinkB": 1.6}
        ax.annotate(
            text, point, (number.at[0] - x, number.at[1] - y), textcoords="offset points", ha="center",
            va="center_baseline", arrowprops=line if number.line else None,
            # Lines to other numbers that run behind it are faint there.
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.2},
        )  # fmt: skip


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


class NumberPlace(NamedTuple):
    """The centre of a number, and whether a line connects it to its point."""

    at: Point
    line: bool


def place_numbers(points: Sequence[Point], half: float, steps: Sequence[Point], panel: Box) -> list[NumberPlace]:
    """Return a place for the number of each point.

    Args:
        half: half the width of the widest number.
        steps: corners of a line that numbers avoid.
        panel: their bounds; if it is full, a number overlaps others.
    """
    from scipy.optimize import linear_sum_assignment

    taken = [(x - CLEAR, y - CLEAR, x + CLEAR, y + CLEAR) for x, y in points]
    taken += [(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in itertools.pairwise(steps)]

    def box(x: float, y: float) -> Box:
        return x - half - 1, y - _HIGH / 2 - 1.5, x + half + 1, y + _HIGH / 2 + 1.5

    def spots(i: int, rings: Sequence[float]) -> Iterator[Point]:
        """Places around a point, the nearest first and of these the upper right one."""
        for ring, step in itertools.product(rings, range(_ANGLES)):
            angle, (x, y) = math.pi / 4 - 2 * math.pi * step / _ANGLES, points[i]
            yield x + (ring + half - 3) * math.cos(angle), y + ring * math.sin(angle)

    def free(i: int, rings: Sequence[float]) -> Iterator[Point]:
        for spot in spots(i, rings):
            left, low, right, high = box(*spot)
            within = left >= panel[0] and low >= panel[1] and right <= panel[2] and high <= panel[3]
            own = rings is _FAR or math.dist(spot, points[i]) <= min(math.dist(spot, point) for point in points)
            if within and own and not any(left < c and a < right and low < d and b < high for a, b, c, d in taken):
                yield spot

    found, far = {}, {}
    # Those with the least room choose first.
    for i in sorted(range(len(points)), key=lambda i: len(list(free(i, _NEAR)))):
        for spot in itertools.islice(free(i, _NEAR), 1):
            found[i] = NumberPlace(spot, line=False)
            taken.append(box(*spot))
    for i in set(range(len(points))) - set(found):
        found[i] = NumberPlace(next(spots(i, _NEAR)), line=False)
        for spot in itertools.islice(free(i, _FAR), 1):
            far[i] = spot
            taken.append(box(*spot))
    # Lines that are together as short as they can be do not cross each other.
    costs = np.array([[math.dist(spot, points[i]) for spot in far.values()] for i in far]).reshape(len(far), len(far))
    for row, column in zip(*linear_sum_assignment(costs), strict=True):
        found[list(far)[row]] = NumberPlace(list(far.values())[column], line=True)
    return [found[i] for i in range(len(points))]
