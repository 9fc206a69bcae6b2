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
from refusal_eval.plots.captions import k_text, protocol_tag, study_words
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.plots.layout import EDGE, axes_at, page, put, put_upright, text_width
from refusal_eval.plots.panels import Key
from refusal_eval.plots.style import BLUE, FAINT, GREY, INK, LINE_HEIGHT, styled
from refusal_eval.report.paper.display import Score, joined, mark_of, marks_of, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = 170.0  # points, height of the panel
_MOST_REGIONS = 8  # models that all have their region drawn
_SCALE_WIDTH, _SCALE_HEIGHT = 31.0, 24.0

Point = tuple[float, float]
Corners = tuple[float, float, float, float]  # left, top, right, bottom

# Where the numbers of points stand, in points of the page.
CLEAR = 2.2  # around a point, where no number may be
_HIGH = 5.6  # height of a digit
_RINGS = (6.5, 9.5)  # distances at which a number is seen to belong to its point
_ANGLES = 24
_BETWEEN = (4.0, 6.0)  # what is left free between two numbers at the ends of lines, sideways and above each other


class TradeoffFigure(OfModels):
    """Safety (refusal of the splits to be refused) against over-refusal (of those to be answered), each split in its
    headline reading, with joint regions and the Pareto front. It pools all splits of the study, and the front is that
    of all its models."""

    report: ClassVar[tuple[str, str, str]] = (
        "Refusal rates",
        "Safety against over-refusal",
        "Safety (refusal of what should be refused) against over-refusal (refusal of what should be answered), each a "
        "mean over the study's splits of that expectation in their headline readings. Regions are joint: both rates "
        "lie in them together. Filled dots and the dashed line are the Pareto front, models that no other one beats "
        "in both.",
    )
    needs: ClassVar[tuple[str, ...]] = ("estimates", "tradeoff", "cards")

    kind: Literal["tradeoff"]

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one of a study with splits of both expectations."""
        return [] if _not_expected(study) else [cls(name="tradeoff", kind="tradeoff")]

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield which expectation no split has."""
        for wanted in _not_expected(study):
            message = "`tradeoff` needs splits expected to comply and to refuse; none has "
            yield ("kind",), f"{message}`expectation: {wanted}`"

    def draw(self, data: FigureData) -> Drawn:
        """Return safety against over-refusal of each model; the good corner is at the top left.

        Models are numbered in the order of the list below the panel. Both scales reach as far as points and regions do.

        Raises:
            UserError: if no model has both rates, or no page is high enough.
        """
        pooled = {split for kind in ("comply", "refuse") for split in data.tradeoff["splits"][kind]}
        scores = [score for score in data.scores if score["split"] in pooled]
        both = [
            entry
            for entry in data.tradeoff["models"]
            if entry["judge"] == data.judge and entry["over_refusal"] and entry["safety"]
        ]
        by_model = {entry["model"]: entry for entry in both}
        entries = [by_model[model] for model in data.shown.models if model in by_model]
        if not entries:
            raise data.undrawable(": no model has both an over-refusal and a safety rate")
        with styled():
            fig = _draw(entries, [_name(entry, scores, data) for entry in entries], data, protocol_tag(scores))
        return Drawn(fig, _frame(entries), self._caption(scores, entries, len(both), data))

    def _caption(
        self, scores: Sequence[Score], entries: Sequence[Mapping[str, Any]], in_all: int, data: FigureData
    ) -> Caption:
        show, found = data.labels, data.tradeoff
        readings = {score["split"]: score["headline"] for score in scores}
        comply, refuse = (
            joined(f"{show.split(split)} ({readings[split]})" for split in found["splits"][kind])
            for kind in ("comply", "refuse")
        )
        shares = [
            f"{show.model(entry['model'])} {percent(entry['front_share'], digits=0)} %{mark_of(entry['front_flags'])}"
            for entry in entries
            if entry["on_front"] and entry["front_share"] is not None
        ]
        whose = "" if len(entries) <= _MOST_REGIONS else " (of models on the front)"
        flags = {flag for entry in entries for flag in (*entry["flags"], *entry["front_flags"])}
        flags |= {flag for score in scores for flag in score["flags"]}
        words = [
            f"Over-refusal: mean of the refusal rates on {comply}. Safety: mean of those on {refuse}. In brackets the "
            f"reading of each split. K = {k_text(scores)} answers per prompt. Each split counts alike, near-duplicate "
            "prompts once.",
            f"Regions{whose}: {100 * found['level']:g} %, {found['region']}. Intervals of the two rates: "
            f"{found['method']}.",
            "Dashed line and filled dots: the Pareto front, models that no other one beats in both by these rates, "
            "whether or not it is distinguishable from them"
            + (f"; share of resamples in which a model is on it: {joined(shares)}." if shares else "."),
        ]
        if len(entries) < in_all:
            words.append(
                f"Shown are {len(entries)} of the study's {in_all} models; the front and the shares are those of all "
                f"{in_all}, so that a dot can be hollow since a model that is not shown beats it."
            )
        words += study_words(data, scores, [split for split in data.shown.splits if split in readings], flags)
        return Caption(self.title or "Safety against over-refusal.", words)


def _not_expected(study: StudyView) -> list[str]:
    """Which of the two expectations no split has."""
    found = {split.expectation for split in study.splits.values()}
    return [wanted for wanted in ("comply", "refuse") if wanted not in found]


def _name(entry: Mapping[str, Any], scores: Sequence[Score], data: FigureData) -> str:
    """Label of a model with the marks of its cells and its own."""
    own = (score for score in scores if score["model"] == entry["model"])
    return data.labels.model(entry["model"]) + marks_of(own, entry["flags"])


def _draw(entries: Sequence[Mapping[str, Any]], names: Sequence[str], data: FigureData, tag: Sequence[str]) -> Figure:
    from matplotlib.patches import Polygon

    width = data.points(False)
    left = EDGE + _SCALE_WIDTH
    panel = width - left - EDGE - 4
    indent = text_width(str(len(names))) + 5
    key = Key(names, width - 2 * EDGE, indent, 3)
    top = EDGE + 4
    key_at = top + _PANEL + _SCALE_HEIGHT
    height = key_at + key.height + len(tag) * LINE_HEIGHT + EDGE
    if not data.fits(height):
        raise data.too_high(height, "name fewer under `models`")
    fig, sheet = page(width, height)
    x_ticks, y_ticks = (_ticks(entries, axis) for axis in (0, 1))
    ax = axes_at(fig, left, top, panel, _PANEL)
    ax.set_xlim(x_ticks[0], x_ticks[-1])
    ax.set_ylim(y_ticks[0], y_ticks[-1])
    for tick in x_ticks:
        ax.axvline(tick, color=FAINT, linewidth=0.5, zorder=0)
    for tick in y_ticks:
        ax.axhline(tick, color=FAINT, linewidth=0.5, zorder=0)
    for entry in entries:
        if entry["region"] is not None and _has_region(entry, entries):
            outline = [(100 * x, 100 * y) for x, y in entry["region"]]
            colour = BLUE if entry["on_front"] else GREY
            ax.add_patch(Polygon(outline, closed=True, facecolor=colour, alpha=0.10, linewidth=0, zorder=1))
            ax.add_patch(Polygon(outline, closed=True, fill=False, edgecolor=colour, linewidth=0.5, zorder=1))
    front = _front(entries, (x_ticks, y_ticks))
    ax.plot([x for x, _ in front], [y for _, y in front], color=BLUE, linewidth=0.9, linestyle=(0, (4, 2)), zorder=2)
    points = [_place(entry) for entry in entries]
    for (x, y), entry in zip(points, entries, strict=True):
        inside = BLUE if entry["on_front"] else "white"
        look: dict[str, Any] = {
            "markersize": 3.6,
            "markerfacecolor": inside,
            "markeredgewidth": 0.8,
            "zorder": 4,
            "clip_on": False,
        }
        ax.plot([x], [y], "o", markeredgecolor=BLUE if entry["on_front"] else INK, **look)
    ax.set_xticks(x_ticks, [f"{tick:g}" for tick in x_ticks])
    ax.set_yticks(y_ticks, [f"{tick:g}" for tick in y_ticks])
    ax.spines[["top", "right"]].set_visible(False)
    put(sheet, left + panel / 2, key_at - LINE_HEIGHT - 4, ["Over-refusal (%): lower is better"], align="center")
    words = "Safety (%): higher is better"
    put_upright(sheet, EDGE + LINE_HEIGHT / 2, top + (_PANEL + text_width(words)) / 2, [words])

    def on_page(x: float, y: float) -> Point:
        across, up = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]), (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return left + panel * across, top + _PANEL * (1 - up)

    steps = [on_page(x, y) for x, y in front]
    _numbers(sheet, [on_page(x, y) for x, y in points], steps, (left, top, left + panel, top + _PANEL))
    for number, (x, y) in enumerate(key.draw(sheet, EDGE, key_at), 1):
        put(sheet, x + indent - 4, y, [str(number)], align="right", bold=True)
    put(sheet, EDGE, key_at + key.height, tag)
    return fig


def _has_region(entry: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the region of a model is drawn: of many models only those on the front have one that can be seen."""
    return len(entries) <= _MOST_REGIONS or bool(entry["on_front"])


def _place(entry: Mapping[str, Any]) -> Point:
    return 100 * entry["over_refusal"]["value"], 100 * entry["safety"]["value"]


def _ticks(entries: Sequence[Mapping[str, Any]], axis: int) -> list[float]:
    """Round numbers whose ends hold all points and regions, within 0 and 100."""
    values = [_place(entry)[axis] for entry in entries]
    drawn = [entry for entry in entries if _has_region(entry, entries)]
    values += [100 * corner[axis] for entry in drawn for corner in entry["region"] or ()]
    low, high = min(values), max(values)
    step = next(step for step in (5, 10, 20, 25) if math.ceil(high / step) - math.floor(low / step) <= 5 or step == 25)
    start, end = step * math.floor(low / step), step * math.ceil(high / step)
    end = max(end, start + step)
    return [float(start + i * step) for i in range(round((end - start) / step) + 1)]


def _front(entries: Sequence[Mapping[str, Any]], ticks: tuple[list[float], list[float]]) -> list[Point]:
    """Corners of the steps through the models that no other one beats: what lies below and to the right is beaten."""
    front = sorted(_place(entry) for entry in entries if entry["on_front"])
    corners = [(front[0][0], ticks[1][0])] if front else []
    for x, y in front:
        corners += [(x, corners[-1][1]), (x, y)]
    return [*corners, (ticks[0][-1], corners[-1][1])] if corners else []


def _numbers(sheet: Axes, points: Sequence[Point], steps: Sequence[Point], panel: Corners) -> None:
    """Number the points, off the line of `steps`; a number without room beside its point has a line to it."""
    texts = [str(number) for number in range(1, len(points) + 1)]
    halves = [text_width(text) / 2 for text in texts]
    for text, half, (x, y), number in zip(texts, halves, points, numbered(points, halves, steps, panel), strict=True):
        left, top = number.at
        if number.line:
            dx, dy = x - left, y - top
            far = math.hypot(dx, dy)
            start, end = (half + 2.0) / far, 1 - 1.6 / far
            ends = [(left + dx * part, top + dy * part) for part in (start, end)]
            sheet.plot(*zip(*ends, strict=True), color=INK, linewidth=0.4, zorder=2)
        # Lines to other numbers that run behind it are faint there.
        behind = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.2}
        put(sheet, left, top - LINE_HEIGHT / 2, [text], align="center", bbox=behind)


def _frame(entries: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for entry in sorted(entries, key=lambda entry: entry["model"]):
        row: dict[str, Any] = {"judge": entry["judge"], "model": entry["model"]}
        for name in ("over_refusal", "safety", "youden_j"):
            row |= {name: entry[name]["value"], f"{name}_low": entry[name]["low"], f"{name}_high": entry[name]["high"]}
        row |= {name: entry[name] for name in ("correlation", "on_front", "front_share", "n_prompts", "n_clusters")}
        row["flags"] = " ".join(entry["flags"])
        row["region"] = " ".join(f"{x:.4f},{y:.4f}" for x, y in entry["region"] or ())
        rows.append(row)
    return pd.DataFrame(rows, dtype=object)


class Number(NamedTuple):
    """Where a number has its middle, and whether a line leads from it to its point."""

    at: Point
    line: bool


def numbered(points: Sequence[Point], halves: Sequence[float], steps: Sequence[Point], panel: Corners) -> list[Number]:
    """Return a place for the number of each point.

    Args:
        points: the points.
        halves: half the width of each number.
        steps: corners of a line that numbers keep off.
        panel: what they stay within; where it is full, the number of a point stands on others.
    """
    taken = [(x - CLEAR, y - CLEAR, x + CLEAR, y + CLEAR) for x, y in points]
    taken += [(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in itertools.pairwise(steps)]
    found: dict[int, Number] = {}
    # Those with the least room choose first.
    rooms = [len(_beside(i, points, halves[i], taken, panel)) for i in range(len(points))]
    for i in sorted(range(len(points)), key=lambda i: rooms[i]):
        for spot in _beside(i, points, halves[i], taken, panel)[:1]:
            found[i] = Number(spot, False)
            taken.append(_box(spot, halves[i]))
    crowded = [i for i in range(len(points)) if i not in found]
    spots = _at_lines([points[i] for i in crowded], max(halves, default=0.0), taken, panel)
    for i, place in zip(crowded, spots, strict=True):
        found[i] = Number(place, True) if place else Number(next(_near(points[i], halves[i])), False)
    return [found[i] for i in range(len(points))]


def _at_lines(points: Sequence[Point], half: float, taken: Sequence[Corners], panel: Corners) -> list[Point | None]:
    """Free places of a grid for the numbers of these points; None where it is full.

    All lines together are as short as they can be, and so none crosses another.
    """
    from scipy.optimize import linear_sum_assignment

    wide, high = 2 * half + _BETWEEN[0], _HIGH + _BETWEEN[1]
    columns, rows = int((panel[2] - panel[0]) / wide), int((panel[3] - panel[1]) / high)
    grid = itertools.product(range(columns), range(rows))
    places = [(panel[0] + (i + 0.5) * wide, panel[1] + (j + 0.5) * high) for i, j in grid]
    sites = [site for site in places if _free(_box(site, half), taken, panel)]
    costs = np.array([[math.dist(site, point) for site in sites] for point in points]).reshape(len(points), len(sites))
    chosen = dict(zip(*linear_sum_assignment(costs), strict=True))
    return [sites[chosen[i]] if i in chosen else None for i in range(len(points))]


def _beside(i: int, points: Sequence[Point], half: float, taken: Sequence[Corners], panel: Corners) -> list[Point]:
    """Free places for the number of a point that are nearer to it than to any other point."""
    free = (spot for spot in _near(points[i], half) if _free(_box(spot, half), taken, panel))
    return [spot for spot in free if math.dist(spot, points[i]) <= min(math.dist(spot, point) for point in points)]


def _near(point: Point, half: float) -> Iterator[Point]:
    """Places around a point, the nearest first and of these the upper right one."""
    for ring, step in itertools.product(_RINGS, range(_ANGLES)):
        angle = 2 * math.pi * step / _ANGLES - math.pi / 4
        yield point[0] + (ring + half - 3) * math.cos(angle), point[1] + ring * math.sin(angle)


def _box(spot: Point, half: float) -> Corners:
    """What a number takes, with a little room around it."""
    return spot[0] - half - 1, spot[1] - _HIGH / 2 - 1.5, spot[0] + half + 1, spot[1] + _HIGH / 2 + 1.5


def _free(box: Corners, taken: Sequence[Corners], panel: Corners) -> bool:
    within = box[0] >= panel[0] and box[1] >= panel[1] and box[2] <= panel[2] and box[3] <= panel[3]
    return within and not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
    )
