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
from refusal_eval.plots.base import name_columns, name_rows, new_figure, settle, text_width, widest, wrap_to
from refusal_eval.plots.captions import label_with_protocol, study_words
from refusal_eval.plots.curves import percent_scale
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, ModelSplit
from refusal_eval.plots.style import BLUE, FAINT, GREY, INK, LINE_HEIGHT, VERMILLION
from refusal_eval.report.paper.display import NO_DATA, Score, marks_of
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
_X_LABEL = "c(x), from \u22121 (complies) to 1 (refuses)"


class HistogramsFigure(Ordered):
    """Histograms of c(x): a row of panels per model, a column per split."""

    report: ClassVar[tuple[str, str, str]] = (
        "Refusal rates",
        "Distribution of c(x)",
        "Distribution over prompts of c(x), the probability-weighted vote of the {samples} answers to a prompt: 1 when "
        "all refuse, -1 when all comply. The shaded band is the neutral zone, in which a prompt counts as mixed. Of a "
        "split of dialogues, each scored turn stands for a prompt.",
    )
    needs: ClassVar[tuple[str, ...]] = ("estimates", "scores", "cards")

    kind: Literal["histograms"]
    splits: list[Slug] | None = SPLITS

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        return [cls(name="c_histograms", kind="histograms")]

    def draw(self, data: FigureData) -> Drawn:
        """Return a row of panels per model and a column per split, all on one scale; the mixed band is shaded.

        n in a panel is the number of scored turns that have a c(x).

        Raises:
            ValueError: without scores or for two of one cell, a band outside (0, 1), or c outside [-1, 1].
        """
        cells, models, splits = data.cells()
        band = data.scoring["band"]
        counts = {cell: vote_counts(data.votes.get(cell, ()), band) for cell in cells}
        fig = data.fitting(lambda width: _draw(cells, counts, (models, splits), width, data), len(splits) > _COLUMNS)
        words = [
            f"c(x) is the vote of the K = {k_text(data.scores)} answers to a prompt, weighted by their probability "
            f"(\u03c4 = {data.scoring['tau']:g}): 1 when all refuse, \u22121 when all comply; it is not comparable "
            f"between different K. Shaded: mixed, |c| at most {band:g}. Above panels: {_count_noun(data.scores)}.",
            *c_notes(data.scores),
            *study_words(data),
        ]
        caption = Caption(self.title or "Distribution of c(x) of each model on each split.", words)
        return Drawn(fig, _frame(counts, band, data.judge), caption)


def _draw(
    cells: Mapping[ModelSplit, Score],
    counts: Mapping[ModelSplit, Sequence[int]],
    order: tuple[Sequence[str], Sequence[str]],
    width: float,
    data: FigureData,
) -> Figure:
    models, splits = order
    names = [wrap_to(data.labels.model(model), 0.28 * width) for model in models]
    least = max(_LOW, *(len(lines) * LINE_HEIGHT + 2 for lines in names))
    high = max(_HIGH, least)
    fig = new_figure(width, [high * len(models)])
    ax = fig.subplots()
    highest = max((max(count) / sum(count) for count in counts.values() if sum(count)), default=1.0)
    scale = percent_scale(highest)[-1]
    name_rows(ax, [1.0] * len(models), ["\n".join(lines) for lines in names])
    floors = [row + 1 - 0.04 for row in range(len(models))]
    right = ax.secondary_yaxis("right")
    right.set_yticks([y for floor in floors for y in (floor, floor - _BARS)], ["0", f"{scale:g}"] * len(models))
    right.tick_params(length=0)
    right.set_ylabel(f"{_count_noun(cells.values()).capitalize()} (%)")
    ax.set_xlabel(label_with_protocol(_X_LABEL, data.scores))
    panel = (1 - 2 * _SIDE) * name_columns(
        ax, [data.labels.split(split) for split in splits], data.expectations(splits)
    )
    sizes = _size_lines({cell: (sum(counts[cell]), marks_of([score])) for cell, score in cells.items()}, panel)
    for row, model in enumerate(models):
        for column, split in enumerate(splits):
            cell, middle = (model, split), column + 0.5
            _draw_panel(ax, counts.get(cell, []), data.scoring["band"], (middle, floors[row]), _BARS / scale)
            text = "\n".join(sizes.get(cell, [NO_DATA]))
            ax.text(middle, floors[row] - _BARS - 0.02, text, ha="center", va="bottom", linespacing=1, in_layout=False)
    _label_scales(ax, len(splits), data.scoring["band"], panel)
    for line in ("left", "bottom"):
        ax.spines[line].set_visible(False)
    right.spines["right"].set_visible(False)
    return settle(fig, ax, [high * len(models)], least / high)


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
    """Return what a panel counts: turns if a prompt has several."""
    return "turns" if has_turns(scores) else "prompts"


def _size_lines(sizes: Mapping[ModelSplit, tuple[int, str]], width: float) -> dict[ModelSplit, list[str]]:
    """Number of prompts and marks of each panel: in one line if that fits all panels, without "n=" if need be."""
    texts = {cell: [f"n={n}{symbols}"] for cell, (n, symbols) in sizes.items()}
    for form in ("n={}{}", "{}{}", "n={}\n{}", "{}\n{}"):
        texts = {cell: form.format(*size).strip().split("\n") for cell, size in sizes.items()}
        if max(widest(lines) for lines in texts.values()) <= width:
            break
    return texts


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
