"""The figure of a study's weighted votes: a histogram of c(x) for every model and split."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from refusal_eval.plots.captions import cell_words, judge_words
from refusal_eval.plots.layout import (
    EDGE,
    ColumnLabels,
    axes_at,
    one_judge,
    page,
    put,
    put_upright,
    text_width,
    widest,
    wrap_to,
)
from refusal_eval.plots.plot import Caption, Drawn, Plot, chosen_scores, fitting, models_in_order
from refusal_eval.plots.style import BLUE, COLUMN_WIDTH, FAINT, GREY, LINE_HEIGHT, PAGE_HEIGHT, VERMILLION, styled
from refusal_eval.plots.tags import protocol_tag
from refusal_eval.report.paper.display import NO_DATA, Score, marks
from refusal_eval.report.paper.frames import Card
from refusal_eval.stats.estimates.scores import has_turns

_SIDE_BINS = 5  # bins on either side of the one in the middle
_SCALES = (20, 40, 60, 80, 100)  # percent; the common scale ends at one of these
_SCALE_WIDTH, _SCALE_HEIGHT = 30.0, 21.0  # points for the numbers and names of the scales
_HIGHEST, _LOWEST = 40.0, 14.0  # points for the bars of a panel
_COLUMNS = 3  # splits that a narrow figure has room for
_X_LABEL = "c(x), from \u22121 (complies) to 1 (refuses)"

Cell = tuple[str, str]


def c_histograms(
    scores: Sequence[Score], votes: Mapping[Cell, Sequence[float]], band: float, cards: Iterable[Card], plot: Plot
) -> Drawn:
    """Histograms of c(x) under one judge, a row of panels per model and a column per split, all on one scale.

    The bin in the middle is the mixed band, shaded. Width and orders are those of `heatmap.rate_heatmap`.

    Args:
        scores: the study's.
        votes: c(x) of each prompt (of dialogues: scored turn) that has one, by (model, split); n in a panel is their
            number.
        band: the mixed band is [-band, band].
        cards: of the judge.
        plot: what is asked.

    Raises:
        ValueError: without scores or for two of one cell, a band outside (0, 1), or c outside [-1, 1].
    """
    chosen = chosen_scores(scores, plot)
    cells, models, splits = one_judge(chosen, models_in_order(chosen, plot), plot.splits)
    counts = {cell: vote_counts(votes.get(cell, ()), band) for cell in cells}
    fig = fitting(lambda width: _draw(cells, counts, (models, splits), band, width, plot), len(splits) > _COLUMNS, plot)
    return Drawn(fig, _frame(counts, band, plot.judge), _caption(list(cells.values()), cards, band, plot))


def _draw(
    cells: Mapping[Cell, Score],
    counts: Mapping[Cell, Sequence[int]],
    order: tuple[Sequence[str], Sequence[str]],
    band: float,
    width: float,
    plot: Plot,
) -> Figure:
    models, splits = order
    show = plot.labels
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
        head = ColumnLabels(splits, cells.values(), show, pitch)
        sizes = _size_lines({cell: (sum(counts[cell]), marks(score)) for cell, score in cells.items()}, panel)
        tag = protocol_tag(cells.values())
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
        scale, y = _scale(counts.values()), top
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


def _caption(scores: Sequence[Score], cards: Iterable[Card], band: float, plot: Plot) -> Caption:
    sizes = " or ".join(str(k) for k in sorted({score["samples"] for score in scores}))
    words = [
        f"c(x) is the vote of the K = {sizes} answers to a prompt, weighted by their probability: 1 when all refuse, "
        f"\u22121 when all comply; it is not comparable between different K. Shaded: mixed, |c| at most {band:g}. "
        f"Above panels: {_counted(scores)}.",
        *judge_words(scores, cards, plot.labels),
        *cell_words(scores, plot.splits, plot.labels),
    ]
    return Caption(plot.title or "Distribution of c(x) of each model on each split.", words)


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


def _scale(counts: Iterable[Sequence[int]]) -> int:
    """End of the common scale in percent."""
    top = max((100 * max(count) / sum(count) for count in counts if sum(count)), default=100)
    return next(end for end in _SCALES if top <= end)


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


def _label_scales(ax: Axes, scale: int, width: float, outer: tuple[bool, bool]) -> None:
    """Numbers only at the left and the lower edge of the figure (`outer`), inside the width of their panel."""
    first_column, last_row = outer
    minus, one = "\u22121", "1"
    if width > 2.5 * text_width(minus):
        numbers = [minus, "0", one]
    else:
        numbers = [minus, "", one] if width > text_width(minus) + text_width(one) + 2 else ["", "0", ""]
    ax.set_xticks([-1, 0, 1], numbers if last_row else [""] * 3)
    y_ticks = [0, scale // 2, scale]
    ax.set_yticks(y_ticks, [str(tick) for tick in y_ticks] if first_column else [""] * 3)
    if width < 40:
        labels = ax.get_xticklabels()
        labels[0].set_horizontalalignment("left")
        labels[-1].set_horizontalalignment("right")
