"""The figure of the trade-off: safety against over-refusal, with joint regions and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from refusal_eval.core.errors import UserError
from refusal_eval.plots.captions import cell_words, judge_words
from refusal_eval.plots.layout import EDGE, axes_at, page, put, put_upright, text_width, wrap_to
from refusal_eval.plots.numbering import Box, numbered
from refusal_eval.plots.plot import Caption, Drawn, Plot, chosen_scores
from refusal_eval.plots.style import BLUE, COLUMN_WIDTH, FAINT, GREY, INK, LINE_HEIGHT, styled
from refusal_eval.plots.tags import protocol_tag
from refusal_eval.report.paper.display import Score, joined, mark_of, marks_of, percent
from refusal_eval.report.paper.frames import Card
from refusal_eval.stats.estimates.scores import score_flags

_PANEL = 170.0  # points, height of the panel
_MOST_REGIONS = 8  # models that all have their region drawn
_SCALE_WIDTH, _SCALE_HEIGHT = 31.0, 24.0

Point = tuple[float, float]


def trade_off_figure(scores: Sequence[Score], found: Mapping[str, Any], cards: Iterable[Card], plot: Plot) -> Drawn:
    """Safety against over-refusal of each model under one judge; the good corner is at the top left.

    Models are numbered in the order of the list below the panel. Both scales reach as far as points and regions do.

    Args:
        scores: the study's.
        found: the study's trade-off, see `tradeoff.study.study_trade_off`.
        cards: of the judge.
        plot: what is asked.

    Raises:
        UserError: if no model has both rates, or no page is high enough.
    """
    pooled = {split for kind in ("comply", "refuse") for split in found["splits"][kind]}
    chosen = [score for score in chosen_scores(scores, plot) if score["split"] in pooled]
    by_model = {entry["model"]: entry for entry in found["models"] if entry["judge"] == plot.judge}
    entries = [by_model[model] for model in plot.models if model in by_model]
    entries = [entry for entry in entries if entry["over_refusal"] and entry["safety"]]
    if not entries:
        raise UserError(f"figure `{plot.name}`: no model has both an over-refusal and a safety rate")
    with styled():
        names = [_name(entry, chosen, plot) for entry in entries]
        fig = _draw(entries, names, plot, protocol_tag(chosen))
    return Drawn(fig, _frame(entries), _caption(chosen, entries, found, cards, plot))


def _name(entry: Mapping[str, Any], scores: Sequence[Score], plot: Plot) -> str:
    """Label of a model with the marks of its cells and its own."""
    own = (score for score in scores if score["model"] == entry["model"])
    return plot.labels.model(entry["model"]) + marks_of(own, entry["flags"])


def _draw(entries: Sequence[Mapping[str, Any]], names: Sequence[str], plot: Plot, tag: Sequence[str]) -> Figure:
    width = plot.points(False)
    left = EDGE + _SCALE_WIDTH
    panel = width - left - EDGE - 4
    key = _Key(names, width - 2 * EDGE)
    top = EDGE + 4
    key_at = top + _PANEL + _SCALE_HEIGHT
    height = key_at + key.height + len(tag) * LINE_HEIGHT + EDGE
    if not plot.fits(height):
        raise plot.too_high(height, "name fewer under `models`")
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
    key.draw(sheet, EDGE, key_at)
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


def _numbers(sheet: Axes, points: Sequence[Point], steps: Sequence[Point], panel: Box) -> None:
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
            sheet.plot(*zip(*ends, strict=True), color=INK, linewidth=0.4, zorder=3)
        put(sheet, left, top - LINE_HEIGHT / 2, [text], align="center")


class _Key:
    """The names of the numbers, in as many columns as fit."""

    def __init__(self, names: Sequence[str], width: float) -> None:
        self._indent = text_width(str(len(names))) + 5
        wide = max(text_width(name) for name in names) + self._indent + 8
        # Two columns of broken names are shorter than one of whole ones where there are many.
        columns = max(1, min(int(width // wide), len(names), 3))
        if columns == 1 and len(names) > 12 and width > COLUMN_WIDTH:
            columns = 2
        self._step = width / columns
        self._lines = [wrap_to(name, self._step - self._indent - (8 if columns > 1 else 0)) for name in names]
        self._rows = -(-len(names) // columns)
        tallest = [max(len(lines) for lines in self._lines[row :: self._rows]) for row in range(self._rows)]
        self._starts = [sum(tallest[:row]) * LINE_HEIGHT for row in range(self._rows)]
        self.height = sum(tallest) * LINE_HEIGHT

    def draw(self, sheet: Axes, left: float, top: float) -> None:
        for index, lines in enumerate(self._lines):
            column, row = divmod(index, self._rows)
            x, y = left + column * self._step, top + self._starts[row]
            put(sheet, x + self._indent - 4, y, [str(index + 1)], align="right", bold=True)
            put(sheet, x + self._indent, y, lines)


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


def _caption(
    scores: Sequence[Score],
    entries: Sequence[Mapping[str, Any]],
    found: Mapping[str, Any],
    cards: Iterable[Card],
    plot: Plot,
) -> Caption:
    show = plot.labels
    readings = {score["split"]: score["headline"] for score in scores}
    comply, refuse = (
        joined(f"{show.split(split)} ({readings[split]})" for split in found["splits"][kind])
        for kind in ("comply", "refuse")
    )
    sizes = " or ".join(str(k) for k in sorted({score["samples"] for score in scores}))
    shares = [
        f"{show.model(entry['model'])} {percent(entry['front_share'], digits=0)} %{mark_of(entry['front_flags'])}"
        for entry in entries
        if entry["on_front"] and entry["front_share"] is not None
    ]
    whose = "" if len(entries) <= _MOST_REGIONS else " (of models on the front)"
    splits = [split for split in plot.splits if split in readings]
    flags = {flag for entry in entries for flag in (*entry["flags"], *entry["front_flags"])}
    flags |= {flag for score in scores for flag in score_flags(score)}
    words = [
        f"Over-refusal: mean of the refusal rates on {comply}. Safety: mean of those on {refuse}. In brackets "
        f"the reading of each split. K = {sizes} answers per prompt. Each split counts alike, near-duplicate prompts "
        "once.",
        f"Regions{whose}: {100 * found['level']:g} %, {found['region']}. Intervals of the two rates: "
        f"{found['method']}.",
        "Dashed line and filled dots: the Pareto front, models that no other one beats in both"
        + (f"; share of resamples in which a model is on it: {joined(shares)}." if shares else "."),
        *_not_shown(entries, found),
        *judge_words(scores, cards, show),
        *cell_words(scores, splits, show, flags=flags),
    ]
    return Caption(plot.title or "Safety against over-refusal.", words)


def _not_shown(entries: Sequence[Mapping[str, Any]], found: Mapping[str, Any]) -> list[str]:
    """Where the study has models that are not shown: whose front it is."""
    both = [
        entry
        for entry in found["models"]
        if entry["judge"] == entries[0]["judge"] and entry["over_refusal"] and entry["safety"]
    ]
    if len(both) == len(entries):
        return []
    return [
        f"Shown are {len(entries)} of the study's {len(both)} models; the front and the shares are those of all "
        f"{len(both)}, so that a dot can be hollow since a model that is not shown beats it."
    ]
