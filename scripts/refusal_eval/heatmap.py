"""The figure of a study's refusal rates: a heatmap with the numbers in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from refusal_eval.display import EN_DASH, NO_DATA, Labels, Score, headline, headlines, interval, marks, percent
from refusal_eval.frames import Card, agreement_note
from refusal_eval.layout import (
    EDGE,
    ColumnLabels,
    axes_at,
    figure_notes,
    figure_width,
    one_judge,
    page,
    put,
    text_width,
    widest,
    wrap_to,
)
from refusal_eval.style import FAINT, INK, LINE_HEIGHT, RATE_COLOURS, styled

_SCALE_HEIGHT = 36.0  # points below the cells, for the colour scale
_SIDE = 3.0  # points left free in a cell, both sides together


def rate_heatmap(
    scores: Iterable[Score],
    cards: Iterable[Card] = (),
    labels: Labels | None = None,
    models: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
) -> Figure:
    """Headline refusal rates of one judge: a row per model, a column per split, rate and interval in each cell.

    The figure is 8.5 cm wide for up to three splits, else 17.5 cm; its height follows from its rows. Rows and columns
    follow the orders passed in; other names come after them, sorted. A note below says how well the judge agrees with
    people, from its `cards`.

    Raises:
        ValueError: without scores, for scores of several judges, or two of one cell.
    """
    cells, rows, columns = one_judge(scores, models, splits)
    show = labels or Labels()
    with styled():
        width = figure_width(len(columns))
        names = [wrap_to(show.model(model), 0.27 * width) for model in rows]
        left = EDGE + max(widest(lines) for lines in names) + 5
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
        notes = figure_notes(cells.values(), show, width, _explanations(list(cells.values()), cards, show))
        fig, sheet = page(width, bottom + _SCALE_HEIGHT + len(notes) * LINE_HEIGHT + EDGE)
        head.draw(sheet, [left + (i + 0.5) * step for i in range(len(columns))], top)
        colours, y = mpl.colormaps[RATE_COLOURS], top
        for model, lines, height in zip(rows, names, heights, strict=True):
            put(sheet, left - 5, y + (height - len(lines) * LINE_HEIGHT) / 2, lines, align="right")
            for i, split in enumerate(columns):
                cell = (model, split)
                box = (left + i * step, y, step, height)
                _draw_cell(sheet, box, texts.get(cell, [NO_DATA]), _fill(cells.get(cell), colours))
            y += height
        _colour_scale(fig, colours, left, bottom + 6, width - left - EDGE)
        put(sheet, EDGE, bottom + _SCALE_HEIGHT, notes)
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


def _explanations(scores: Sequence[Score], cards: Iterable[Card], labels: Labels) -> list[str]:
    levels = " or ".join(f"{100 * level:g} %" for level in sorted({score["interval"]["level"] for score in scores}))
    return [
        f"In each cell: refusal rate in percent and its {levels} interval.",
        f"Refusal: {headlines(scores)}.",
        agreement_note(scores[0]["judge"], cards, labels.golds),
    ]


def _fill(score: Score | None, colours: Colormap) -> tuple[float, float, float] | None:
    rate = None if score is None else headline(score)["rate"]
    return None if rate is None else colours(float(rate))[:3]


def _draw_cell(
    sheet: Axes, box: tuple[float, float, float, float], lines: Sequence[str], fill: tuple[float, float, float] | None
) -> None:
    x, y, width, height = box
    frame = {"facecolor": "white", "edgecolor": FAINT} if fill is None else {"facecolor": fill, "edgecolor": "white"}
    sheet.add_patch(Rectangle((x, y), width, height, linewidth=0.8, **frame))
    ink = INK if fill is None or _luminance(fill) > 0.21 else "white"
    start = y + (height - len(lines) * LINE_HEIGHT) / 2
    put(sheet, x + width / 2, start, lines[:1], align="center", bold=True, color=ink)
    put(sheet, x + width / 2, start + LINE_HEIGHT, lines[1:], align="center", color=ink)


def _luminance(colour: tuple[float, float, float]) -> float:
    """Relative luminance, 0 black to 1 white (W3C, Web Content Accessibility Guidelines 2.2)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _colour_scale(fig: Figure, colours: Colormap, x: float, y: float, width: float) -> None:
    ax = axes_at(fig, x, y, width, 5)
    bar = Colorbar(ax, ScalarMappable(Normalize(0, 100), colours), orientation="horizontal", ticks=[0, 50, 100])
    bar.outline.set_linewidth(0.4)
    # Viewers would show white lines between the steps of the scale.
    if bar.solids is not None:
        bar.solids.set_edgecolor("face")
    ax.set_xlabel("Refusal rate (%)", labelpad=1)
    # The first and last number stay inside the figure.
    labels = ax.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")
