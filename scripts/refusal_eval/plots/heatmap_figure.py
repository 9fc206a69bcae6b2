"""The figure of a study's refusal rates: a heatmap with the numbers in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from refusal_eval.plots.captions import cell_words, judge_words, rates_words
from refusal_eval.plots.layout import (
    EDGE,
    HINTED,
    ColumnLabels,
    axes_at,
    one_judge,
    page,
    put,
    text_width,
    widest,
    wrap_to,
)
from refusal_eval.plots.plot import Caption, Drawn, Plot, chosen_scores, fitting, models_in_order
from refusal_eval.plots.style import LINE_HEIGHT, RATE_COLOURS, styled
from refusal_eval.plots.tags import protocol_tag
from refusal_eval.plots.tiles import tile
from refusal_eval.report.paper.display import EN_DASH, NO_DATA, Score, headline, interval, marks, percent
from refusal_eval.report.paper.frames import Card
from refusal_eval.stats.estimates.scores import score_flags

_SCALE_HEIGHT = 32.0  # points below the cells, for the colour scale
_SIDE = 3.0  # points left free in a cell, both sides together
_COLUMNS = 3  # splits that a narrow figure has room for

Cells = Mapping[tuple[str, str], Score]


def rate_heatmap(scores: Sequence[Score], cards: Iterable[Card], plot: Plot) -> Drawn:
    """Headline refusal rates of one judge: a row per model, a column per split, rate and interval in each cell.

    The figure is 8.5 cm wide for up to three splits on which all models fit a page, else 17.5 cm.

    Raises:
        ValueError: without scores, or two of one cell.
    """
    chosen = chosen_scores(scores, plot)
    cells, rows, columns = one_judge(chosen, models_in_order(chosen, plot), plot.splits)
    fig = fitting(lambda width: _draw(cells, rows, columns, width, plot), len(columns) > _COLUMNS, plot)
    return Drawn(fig, _frame(cells), _caption(list(cells.values()), cards, plot))


def _draw(cells: Cells, rows: Sequence[str], columns: Sequence[str], width: float, plot: Plot) -> Figure:
    show = plot.labels
    with styled():
        names = [wrap_to(show.model(model), 0.27 * width) for model in rows]
        left = EDGE + HINTED * max(widest(lines) for lines in names) + 5
        step = (width - left - EDGE) / len(columns)
        broken = any(text_width(_ends(score)) > step - _SIDE for score in cells.values())
        texts = {cell: _cell_lines(score, step - _SIDE, broken) for cell, score in cells.items()}
        heights = []
        for model, name in zip(rows, names, strict=True):
            in_row = [len(lines) for (of, _), lines in texts.items() if of == model]
            heights.append(max(len(name), *in_row) * LINE_HEIGHT + 6)
        head = ColumnLabels(columns, cells.values(), show, step)
        top = EDGE + head.height
        bottom = top + sum(heights)
        tag = protocol_tag(cells.values())
        fig, sheet = page(width, bottom + _SCALE_HEIGHT + len(tag) * LINE_HEIGHT + EDGE)
        head.draw(sheet, [left + (i + 0.5) * step for i in range(len(columns))], top)
        y = top
        for model, lines, height in zip(rows, names, heights, strict=True):
            put(sheet, left - 5, y + (height - len(lines) * LINE_HEIGHT) / 2, lines, align="right")
            for i, split in enumerate(columns):
                score = cells.get((model, split))
                rate = None if score is None else headline(score)["rate"]
                tile(sheet, (left + i * step, y, step, height), texts.get((model, split), [NO_DATA]), rate)
            y += height
        _colour_scale(fig, left, bottom + 6, width - left - EDGE)
        put(sheet, EDGE, bottom + _SCALE_HEIGHT, tag)
        return fig


def _ends(score: Score) -> str:
    part = headline(score)
    return interval(part["low"], part["high"], digits=0)


def _cell_lines(score: Score, width: float, broken: bool) -> list[str]:
    """Rate with its marks, then the interval; in narrow columns marks and upper end have lines of their own."""
    part, symbols = headline(score), marks(score)
    rate = percent(part["rate"], digits=0)
    lines = [rate + symbols] if text_width(rate + symbols, bold=True) <= width else [rate, symbols]
    if part["low"] is None or part["high"] is None:
        return lines
    if not broken:
        return [*lines, _ends(score)]
    return [*lines, percent(part["low"], digits=0) + EN_DASH, percent(part["high"], digits=0)]


def _colour_scale(fig: Figure, x: float, y: float, width: float) -> None:
    ax = axes_at(fig, x, y, width, 5)
    colours = ScalarMappable(Normalize(0, 100), mpl.colormaps[RATE_COLOURS])
    bar = Colorbar(ax, colours, orientation="horizontal", ticks=[0, 50, 100])
    bar.outline.set_linewidth(0.4)
    # Viewers would show white lines between the steps of the scale.
    if bar.solids is not None:
        bar.solids.set_edgecolor("face")
    ax.set_xlabel("Refusal rate (%)", labelpad=1)
    # The first and last number stay inside the figure.
    labels = ax.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")


def _frame(cells: Cells) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for (model, split), score in sorted(cells.items()):
        part = headline(score)
        names = {"judge": score["judge"], "model": model, "split": split, "reading": score["headline"]}
        numbers = {key: part[key] for key in ("rate", "low", "high")}
        rows.append(names | numbers | {"flags": " ".join(score_flags(score))})
    return pd.DataFrame(rows, dtype=object)


def _caption(scores: Sequence[Score], cards: Iterable[Card], plot: Plot) -> Caption:
    words = [
        "In each cell the rate in percent and its interval; in brackets what is expected of a well-behaved model.",
        *rates_words(scores),
        *judge_words(scores, cards, plot.labels),
        *cell_words(scores, plot.splits, plot.labels),
    ]
    return Caption(plot.title or "Refusal rate of each model on each split.", words)
