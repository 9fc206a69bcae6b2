"""The figure of a study's weighted votes: a histogram of c(x) for every model and split."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pandas as pd

from refusal_eval.config.figure_entry import SPLITS, Ordered
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.plots.captions import k_text, protocol_tag, study_words
from refusal_eval.plots.curves import percent_scale
from refusal_eval.plots.figure_data import Caption, Cell, Drawn, FigureData
from refusal_eval.plots.layout import (
    EDGE,
    ColumnLabels,
    axes_at,
    numbers_inside,
    page,
    put,
    put_upright,
    text_width,
    widest,
    wrap_to,
)
from refusal_eval.plots.style import BLUE, COLUMN_WIDTH, FAINT, GREY, LINE_HEIGHT, PAGE_HEIGHT, VERMILLION, styled
from refusal_eval.report.paper.display import NO_DATA, Score, marks_of
from refusal_eval.report.paper.table_notes import blocked_notes
from refusal_eval.report.results.cells import has_turns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIDE_BINS = 5  # bins on either side of the one in the middle
_SCALE_WIDTH, _SCALE_HEIGHT = 30.0, 21.0  # points for the numbers and names of the scales
_HIGHEST, _LOWEST = 40.0, 14.0  # points for the bars of a panel
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
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cells", "cards")

    kind: Literal["histograms"]
    splits: list[Slug] | None = SPLITS

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one in every study."""
        return [cls(name="c_histograms", kind="histograms")]

    def draw(self, data: FigureData) -> Drawn:
        """Return a row of panels per model and a column per split, all on one scale; the mixed band is shaded.

        n in a panel is the number of prompts (of dialogues: scored turns) that have a c(x).

        Raises:
            ValueError: without scores or for two of one cell, a band outside (0, 1), or c outside [-1, 1].
        """
        cells, models, splits = data.cells()
        band = data.scoring["band"]
        counts = {cell: vote_counts(data.votes.get(cell, ()), band) for cell in cells}
        fig = data.fitting(lambda width: _draw(cells, counts, (models, splits), width, data), len(splits) > _COLUMNS)
        words = [
            f"c(x) is the vote of the K = {k_text(data.scores)} answers to a prompt, weighted by their probability: 1 "
            f"when all refuse, \u22121 when all comply; it is not comparable between different K. Shaded: mixed, |c| "
            f"at most {band:g}. Above panels: {_counted(data.scores)}.",
            *blocked_notes(data.scores),
            *study_words(data),
        ]
        caption = Caption(self.title or "Distribution of c(x) of each model on each split.", words)
        return Drawn(fig, _frame(counts, band, data.judge), caption)


def _draw(
    cells: Mapping[Cell, Score],
    counts: Mapping[Cell, Sequence[int]],
    order: tuple[Sequence[str], Sequence[str]],
    width: float,
    data: FigureData,
) -> Figure:
    models, splits = order
    show, band = data.labels, data.scoring["band"]
    with styled():
        # Names of models stand beside the panels of a wide figure, and above them in a narrow one.
        beside = width > COLUMN_WIDTH
        room = (0.28 if len(splits) <= 6 else 0.2) * width if beside else width - 2 * EDGE - _SCALE_WIDTH
        names = [wrap_to(show.model(model), room, bold=not beside) for model in models]
        left = EDGE + _SCALE_WIDTH + (max(widest(lines) for lines in names) + 4 if beside else 0)
        gap = 5.0 if len(splits) <= 12 else 3.0
        pitch = (width - left - EDGE + gap) / len(splits)
        panel = pitch - gap
        centres = [left + i * pitch + panel / 2 for i in range(len(splits))]
        head = ColumnLabels([show.split(split) for split in splits], pitch, data.expected(splits))
        sizes = _size_lines({cell: (sum(counts[cell]), marks_of([score])) for cell, score in cells.items()}, panel)
        tag = protocol_tag(data.scores)
        top = EDGE + head.height
        below = _SCALE_HEIGHT + len(tag) * LINE_HEIGHT + EDGE
        titles = [3 if beside else len(lines) * LINE_HEIGHT + 8 for lines in names]
        text = LINE_HEIGHT * max(len(lines) for lines in sizes.values()) + 2
        free = (PAGE_HEIGHT - top - below - sum(titles)) / len(models) - text
        height = text + min(_HIGHEST, max(_LOWEST, free))
        heights = [max(height, len(lines) * LINE_HEIGHT + 2) if beside else height for lines in names]
        end = top + sum(titles) + sum(heights)
        fig, sheet = page(width, end + below)
        head.draw(sheet, centres, top)
        highest = max((max(count) / sum(count) for count in counts.values() if sum(count)), default=1.0)
        scale, y = percent_scale(highest)[-1], top
        for model, lines, title, height in zip(models, names, titles, heights, strict=True):
            if beside:
                middle = y + title + (height - len(lines) * LINE_HEIGHT) / 2
                put(sheet, left - _SCALE_WIDTH, middle, lines, align="right")
            else:
                put(sheet, left, y + 4, lines, bold=True)
            y += title
            for i, split in enumerate(splits):
                cell = (model, split)
                ax = axes_at(fig, left + i * pitch, y, panel, height)
                ax.set_ylim(0, scale * height / (height - text))
                _draw_panel(ax, counts.get(cell, []), band, scale)
                _label_scales(ax, scale, panel, outer=(i == 0, model == models[-1]))
                put(sheet, centres[i], y + 1, sizes.get(cell, [NO_DATA]), align="center")
            y += height
        put(sheet, (centres[0] + centres[-1]) / 2, end + 11, [_X_LABEL], align="center")
        y_label = f"{_counted(cells.values()).capitalize()} (%)"
        put_upright(sheet, left - _SCALE_WIDTH + 6, (top + end + text_width(y_label)) / 2, [y_label])
        put(sheet, EDGE, end + _SCALE_HEIGHT, tag)
        return fig


def vote_counts(values: Iterable[float], band: float = 0.1) -> list[int]:
    """Prompts in each of 11 bins of c, from -1 to 1: five that comply, the mixed band [-band, band], five that refuse.

    The outermost bins reach half a bin beyond -1 and 1. At a band of 0.1 all bins are 0.2 wide, and the values that
    five equal votes can give lie in the middle of theirs.

    Raises:
        ValueError: for a band outside (0, 1) or c outside [-1, 1].
    """
    step = _bin_width(band)
    counts = [0] * (2 * _SIDE_BINS + 1)
    for c in values:
        if not -1 <= c <= 1:
            raise ValueError(f"c = {c} is not between -1 and 1")
        steps = min(_SIDE_BINS, math.ceil((abs(c) - band) / step)) if abs(c) > band else 0
        counts[_SIDE_BINS + (steps if c > 0 else -steps)] += 1
    return counts


def _bin_width(band: float) -> float:
    if not 0 < band < 1:
        raise ValueError("band must lie between 0 and 1")
    return (1 - band) / (_SIDE_BINS - 0.5)


def _ends_of_bins(band: float) -> list[tuple[float, float]]:
    """Lower and upper end of each bin, from -1 to 1."""
    step = _bin_width(band)
    upper = [(band + i * step, band + (i + 1) * step) for i in range(_SIDE_BINS)]
    return [(-high, -low) for low, high in reversed(upper)] + [(-band, band), *upper]


def _frame(counts: Mapping[Cell, Sequence[int]], band: float, judge: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for (model, split), numbers in sorted(counts.items()):
        for (low, high), number in zip(_ends_of_bins(band), numbers, strict=True):
            names = {"judge": judge, "model": model, "split": split}
            rows.append(names | {"c_from": max(-1.0, low), "c_to": min(1.0, high), "n": number})
    return pd.DataFrame(rows, dtype=object)


def _counted(scores: Iterable[Score]) -> str:
    """What a panel counts; a prompt that is no dialogue has one turn."""
    return "turns" if has_turns(scores) else "prompts"


def _size_lines(sizes: Mapping[Cell, tuple[int, str]], width: float) -> dict[Cell, list[str]]:
    """Number of prompts and marks of each panel: in one line if that fits all panels, without "n=" if need be."""
    texts = {cell: [f"n={n}{symbols}"] for cell, (n, symbols) in sizes.items()}
    for form in ("n={}{}", "{}{}", "n={}\n{}", "{}\n{}"):
        texts = {cell: form.format(*size).strip().split("\n") for cell, size in sizes.items()}
        if max(widest(lines) for lines in texts.values()) <= width:
            break
    return texts


def _draw_panel(ax: Axes, counts: Sequence[int], band: float, scale: float) -> None:
    ax.bar(-band, scale, 2 * band, align="edge", color=FAINT, linewidth=0)
    total, bins = sum(counts), _ends_of_bins(band)
    for number, count in enumerate(counts):
        low, high = bins[number]
        colour = GREY if number == _SIDE_BINS else VERMILLION if number > _SIDE_BINS else BLUE
        if count:
            ax.bar(low, 100 * count / total, high - low, align="edge", color=colour, edgecolor="white", linewidth=0.3)
    ax.set_xlim(bins[0][0], bins[-1][1])
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines["left"].set_bounds(0, scale)


def _label_scales(ax: Axes, scale: float, width: float, outer: tuple[bool, bool]) -> None:
    """Numbers only at the left and the lower edge of the figure (`outer`), inside the width of their panel."""
    first_column, last_row = outer
    minus, one = "\u22121", "1"
    if width > 2.5 * text_width(minus):
        numbers = [minus, "0", one]
    else:
        numbers = [minus, "", one] if width > text_width(minus) + text_width(one) + 2 else ["", "0", ""]
    ax.set_xticks([-1, 0, 1], numbers if last_row else [""] * 3)
    y_ticks = [0, scale / 2, scale]
    ax.set_yticks(y_ticks, [f"{tick:g}" for tick in y_ticks] if first_column else [""] * 3)
    if width < 40:
        numbers_inside(ax)
