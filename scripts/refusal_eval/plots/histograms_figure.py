"""The figure of a study's weighted votes: a histogram of c(x) for every model and split."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from refusal_eval.config.figure_entry import SPLITS, Ordered
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.plots.base import legend, name_columns, name_rows, new_figure, settle, text_width, wrap_to
from refusal_eval.plots.captions import everywhere_words, label_with_protocol, short_words, study_words
from refusal_eval.plots.curves import percent_scale
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, ModelSplit
from refusal_eval.plots.shared_marks import shared_flags
from refusal_eval.plots.style import BLUE, FAINT, GREY, INK, LINE_HEIGHT, VERMILLION
from refusal_eval.report.paper.display import EN_DASH, NO_DATA, Score, mark_of
from refusal_eval.report.paper.table_notes import c_notes, k_text
from refusal_eval.report.results.cells import has_turns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIDE_BINS = 5  # bins on either side of the one in the middle
_HIGH, _LOW = 50.0, 26.0  # points, the height of a panel, and the least where a page has no room
_BARS = 0.62  # of the height of a panel; n is above
_SIDE = 0.06  # of the width of a column, left free on each side
_COLUMNS = 3  # splits that a narrow figure has room for
_MOST_HISTOGRAMS = 5  # models; of more only the shares of the three bands are drawn
_ROW, _BAR = 16.0, 9.0  # points, the height of a row of shares and of its bar
_BANDS = {"complying": BLUE, "mixed": GREY, "refusing": VERMILLION}
_X_LABEL = "c(x), from \u22121 (complies) to 1 (refuses)"


class HistogramsFigure(Ordered):
    """Histograms of c(x): a row of panels per model, a column per split; from six models on, shares of its bands."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Distribution of c(x)")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "scores", "cards")

    kind: Literal["histograms"]
    splits: list[Slug] | None = SPLITS

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        return [cls(name="c_histograms", kind="histograms")] if study.has_c else []

    def draw(self, data: FigureData) -> Drawn:
        """Return a row of panels per model and a column per split, all on one scale; the mixed band is shaded.

        Of more than five models only the shares of the three bands of c(x) are drawn, stacked. n below a split is the
        number of scored turns that have a c(x).

        Raises:
            ValueError: without scores or for two of one cell, a band outside (0, 1), or c outside [-1, 1].
        """
        cells, models, splits = data.cells()
        splits = splits if self.splits else data.by_expectation(splits)
        band = data.scoring["band"]
        counts = {cell: vote_counts(data.votes.get(cell, ()), band) for cell in cells}
        draw = _draw if len(models) <= _MOST_HISTOGRAMS else _draw_shares
        fig = data.fitting(lambda width: draw(cells, counts, (models, splits), width, data), len(splits) > _COLUMNS)
        everywhere = _everywhere(cells)
        words = [
            f"c(x) is the vote of the K = {k_text(data.scores)} answers to a prompt, weighted by their probability "
            f"(\u03c4 = {data.scoring['tau']:g}): 1 when all refuse, \u22121 when all comply; it is not comparable "
            f"between different K. Mixed: |c| at most {band:g}. n: {_count_noun(data.scores)} with a c.",
            *([] if draw is _draw else [f"Of more than {_MOST_HISTOGRAMS} models only the bands are drawn."]),
            *everywhere_words(everywhere),
            *c_notes(data.scores),
            *study_words(data),
        ]
        title = self.title or "Distribution of c(x) of each model on each split."
        what = f"c(x): weighted vote of a prompt's answers, mixed if |c| \u2264 {band:g}"
        caption = Caption(title, words, short_words(data, what, everywhere=everywhere))
        return Drawn(fig, _frame(counts, band, data.judge), caption)


def _everywhere(cells: Mapping[ModelSplit, Score]) -> set[str]:
    return shared_flags(score["flags"] for score in cells.values())


def _marks(cells: Mapping[ModelSplit, Score]) -> dict[ModelSplit, str]:
    everywhere = _everywhere(cells)
    return {cell: mark_of(set(score["flags"]) - everywhere) for cell, score in cells.items()}


def _draw(
    cells: Mapping[ModelSplit, Score],
    counts: Mapping[ModelSplit, Sequence[int]],
    order: tuple[Sequence[str], Sequence[str]],
    width: float,
    data: FigureData,
) -> Figure:
    models, splits = order
    names = [wrap_to(data.labels.model(model), 0.24 * width) for model in models]
    least = max(_LOW, *(len(lines) * LINE_HEIGHT + 2 for lines in names))
    high = max(_HIGH, least)
    fig = new_figure(width, [high * len(models)])
    ax = fig.subplots()
    _name_bands(fig)
    highest = max((max(count) / sum(count) for count in counts.values() if sum(count)), default=1.0)
    scale = percent_scale(highest)[-1]
    name_rows(ax, [1.0] * len(models), ["\n".join(lines) for lines in names])
    ax.tick_params(axis="y", pad=16)  # room for the scale
    floors = [row + 1 - 0.04 for row in range(len(models))]
    beside = ax.secondary_yaxis("left")
    beside.set_yticks([y for floor in floors for y in (floor, floor - _BARS)], ["0", f"{scale:g}"] * len(models))
    beside.tick_params(length=0, pad=1)
    beside.spines["left"].set_visible(False)
    ax.set_ylabel(f"{_count_noun(cells.values()).capitalize()} (%)")
    ax.set_xlabel(label_with_protocol(_X_LABEL, data.scores))
    panel = (1 - 2 * _SIDE) * _name_columns(ax, cells, counts, splits, data)
    marks = _marks(cells)
    for row, model in enumerate(models):
        for column, split in enumerate(splits):
            cell, middle = (model, split), column + 0.5
            _draw_panel(ax, counts.get(cell, []), data.scoring["band"], (middle, floors[row]), _BARS / scale)
            text = marks[cell] if sum(counts.get(cell, ())) else NO_DATA
            ax.text(middle, floors[row] - _BARS - 0.02, text, ha="center", va="bottom", linespacing=1, in_layout=False)
    _label_scales(ax, len(splits), data.scoring["band"], panel)
    for line in ("left", "bottom"):
        ax.spines[line].set_visible(False)
    return settle(fig, ax, [high * len(models)], least / high)


def _draw_shares(
    cells: Mapping[ModelSplit, Score],
    counts: Mapping[ModelSplit, Sequence[int]],
    order: tuple[Sequence[str], Sequence[str]],
    width: float,
    data: FigureData,
) -> Figure:
    """Draw, for each model and split, the shares of prompts whose c(x) complies, is mixed and refuses, as one bar."""
    models, splits = order
    names = [wrap_to(data.labels.model(model), 0.24 * width) for model in models]
    heights = [max(_ROW, len(lines) * LINE_HEIGHT + 3) for lines in names]
    fig = new_figure(width, heights)
    ax = fig.subplots()
    _name_bands(fig)
    middles = name_rows(ax, heights, ["\n".join(lines) for lines in names])
    step = _name_columns(ax, cells, counts, splits, data)
    marks = _marks(cells)
    room = max(map(text_width, marks.values()), default=0.0)
    start, wide = 3 / step, 1 - (8 + room) / step
    for y, model in zip(middles, models, strict=True):
        for column, split in enumerate(splits):
            found = counts.get((model, split), ())
            if not sum(found):
                ax.text(column + 0.5, y, NO_DATA, ha="center", va="center_baseline", in_layout=False)
                continue
            parts = (sum(found[:_SIDE_BINS]), found[_SIDE_BINS], sum(found[_SIDE_BINS + 1 :]))
            lengths = [wide * part / sum(found) for part in parts]
            starts = itertools.accumulate(lengths[:-1], initial=column + start)
            look: dict[str, Any] = {"facecolors": list(_BANDS.values()), "edgecolor": "white", "linewidth": 0.4}
            ax.broken_barh(list(zip(starts, lengths, strict=True)), (y - _BAR / 2, _BAR), **look)
            place = column + start + wide + 1 / step
            ax.text(place, y, marks[model, split], va="center_baseline", in_layout=False)
    ends = [(column + start, column + start + wide) for column in range(len(splits))]
    # Each number ends where its bar does, so that those of two bars do not meet.
    numbers = ["0", "100"] if wide * step > text_width("0") + text_width("100") + 1 else ["", ""]
    ax.set_xticks([end for pair in ends for end in pair], numbers * len(splits))
    for i, number in enumerate(ax.get_xticklabels()):
        number.set_horizontalalignment("right" if i % 2 else "left")
    ax.tick_params(axis="x", length=2)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_xlabel(label_with_protocol(f"{_count_noun(cells.values()).capitalize()} (%)", data.scores))
    return settle(fig, ax, [sum(heights)])


def _name_columns(
    ax: Axes,
    cells: Mapping[ModelSplit, Score],
    counts: Mapping[ModelSplit, Sequence[int]],
    splits: Sequence[str],
    data: FigureData,
) -> float:
    """Name the splits, with the number of prompts of each; of models with different ones, from the least on."""
    sizes = []
    for split in splits:
        found = sorted({sum(counts[cell]) for cell in cells if cell[1] == split})
        sizes.append(f"n={EN_DASH.join(str(size) for size in dict.fromkeys((found[0], found[-1])))}")
    return name_columns(ax, [data.labels.split(split) for split in splits], data.expectations(splits), sizes=sizes)


def _name_bands(fig: Figure) -> None:
    from matplotlib.patches import Patch

    legend(fig, [Patch(facecolor=colour) for colour in _BANDS.values()], list(_BANDS))


def vote_counts(values: Iterable[float], band: float = 0.1) -> list[int]:
    """Prompts in each of 11 bins of c, from -1 to 1: five that comply, the mixed band [-band, band], five that refuse.

    The outermost bins reach half a bin beyond -1 and 1. At a band of 0.1 all bins are 0.2 wide, and the values that
    five equal votes can give lie in the middle of theirs.

    Raises:
        ValueError: for c outside [-1, 1].
    """
    c = np.array(list(values), dtype=float)
    if np.any(outside := np.abs(c) > 1):
        raise ValueError(f"c = {c[outside][0]} is not between -1 and 1")
    steps = np.clip(np.ceil((np.abs(c) - band) / _bin_width(band)), 0, _SIDE_BINS)
    found: list[int] = np.bincount((_SIDE_BINS + np.sign(c) * steps).astype(int), minlength=2 * _SIDE_BINS + 1).tolist()
    return found


def _bin_width(band: float) -> float:
    return (1 - band) / (_SIDE_BINS - 0.5)


def _ends_of_bins(band: float) -> list[tuple[float, float]]:
    """Lower and upper end of each bin, from -1 to 1."""
    upper = [band + i * _bin_width(band) for i in range(_SIDE_BINS + 1)]
    return list(itertools.pairwise([*(-end for end in reversed(upper)), *upper]))


def _frame(counts: Mapping[ModelSplit, Sequence[int]], band: float, judge: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for (model, split), numbers in sorted(counts.items()):
        for (low, high), number in zip(_ends_of_bins(band), numbers, strict=True):
            names = {"judge": judge, "model": model, "split": split}
            rows.append(names | {"c_from": max(-1.0, low), "c_to": min(1.0, high), "n": number})
    return pd.DataFrame(rows, dtype=object)


def _count_noun(scores: Iterable[Score]) -> str:
    """Return what panels count: turns where a prompt has several."""
    turns = {has_turns([score]) for score in scores}
    return " or ".join(["prompts"] * (turns != {True}) + ["turns"] * (True in turns))


def _draw_panel(ax: Axes, counts: Sequence[int], band: float, place: tuple[float, float], percent_high: float) -> None:
    """Draw the bars of a panel that has c = 0 at `place`; one percent is `percent_high`."""
    (middle, floor), bins, wide = place, _ends_of_bins(band), _width_of_c(band)
    ax.bar(middle - band * wide, -_BARS, 2 * band * wide, floor, align="edge", color=FAINT, linewidth=0)
    found = [(*ends, count, number) for number, (ends, count) in enumerate(zip(bins, counts, strict=False)) if count]
    if found:
        lows, highs, numbers, places = (np.array(part) for part in zip(*found, strict=True))
        colours = [GREY if i == _SIDE_BINS else VERMILLION if i > _SIDE_BINS else BLUE for i in places]
        tall = -100 * percent_high * numbers / sum(counts)
        look: dict[str, Any] = {"align": "edge", "color": colours, "edgecolor": "white", "linewidth": 0.3}
        ax.bar(middle + lows * wide, tall, (highs - lows) * wide, floor, **look)
    ax.plot([middle + end * wide for end in (bins[0][0], bins[-1][1])], [floor, floor], color=INK, linewidth=0.6)


def _width_of_c(band: float) -> float:
    """Return the width of c from 0 to 1 in columns."""
    return (0.5 - _SIDE) / _ends_of_bins(band)[-1][1]


def _label_scales(ax: Axes, columns: int, band: float, width: float) -> None:
    """Number c below each column, with as many numbers as the width of a panel holds."""
    wide, ends = _width_of_c(band), text_width("\u22121") + text_width("1")
    between = (1 - 2 * wide) * width / (1 - 2 * _SIDE)  # from the 1 of a column to the -1 of the next
    both = width > ends + 4 and (columns == 1 or between > ends / 2 + 1)
    numbers = ["\u22121", "0" if width > 30 else "", "1"] if both else ["", "0", ""]
    ax.set_xticks([i + 0.5 + c * wide for i in range(columns) for c in (-1, 0, 1)], numbers * columns)
