"""The base of all figures: panels, rows, columns, legends and marks, placed by matplotlib's constrained layout.

A panel has the height asked for, in points; a figure is as high as its panels and everything around them.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refusal_eval.plots.style import (
    BLUE,
    FAINT,
    GREY,
    INK,
    LINE_HEIGHT,
    PAGE_HEIGHT,
    RATE_COLOURS,
    TEXT_SIZE,
    VERMILLION,
    font_families,
)
from refusal_eval.report.paper.display import pieces, wrap_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGE = 4.0  # points of white around a figure
_GAP = 5.0  # points on each side of the labels around a panel, between panels
_MARK = 16.0  # points for the mark of a series in a legend
_SPACE = 11.0  # points between columns of a legend
_NARROW = 90.0  # points of a column of a legend, at least
_SCALE = 32.0  # points left of panels for the numbers and the name of a scale
_NAME_GAP = 2.0  # points between panels and the name below all
_BASELINE = 6.4  # points from the top of a line to its baseline
ARROWS = {"refuse": "\u2191", "comply": "\u2193"}  # which way is better, by expectation
# What a well-behaved model does, by expectation, and whether more refusals are better there.
EXPECTED = {"refuse": "should refuse \u2191", "varies": "may vary", "comply": "should comply \u2193"}
_HINTED = 1.03  # in PNGs text is a little wider than its outlines, which are measured


# ---------------------------------------------------------------- text


@functools.cache
def text_width(text: str, bold: bool = False) -> float:
    """Width in points of one line of text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=font_families(), size=TEXT_SIZE, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return _HINTED * float(width)


def widest(lines: Sequence[str], bold: bool = False) -> float:
    """Return the width of the widest line in points."""
    return max((text_width(line, bold) for line in lines), default=0.0)


def wrap_to(text: str, width: float, bold: bool = False) -> list[str]:
    """Lines of at most `width` points (one character at least)."""
    for characters in range(len(text), 0, -1):
        lines = wrap_text(text, characters)
        if widest(lines, bold) <= width:
            return lines
    return wrap_text(text, 1)


def isolate(text: str) -> str:
    """Return a text that, read from right to left, does not change places with a number before it."""
    right_to_left = any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)
    return f"\u2068{text}\u2069" if right_to_left else text


def wrap_into(text: str, lines: int) -> list[str]:
    """At most `lines` lines, as short as possible without a break inside a word."""
    for characters in range(max(len(piece) for piece in pieces(text)), len(text)):
        found = wrap_text(text, characters)
        if len(found) <= lines:
            return found
    return [text]


def put_lines(ax: Axes, lines: Sequence[str], bold: int = 0) -> None:
    """Fill axes with lines of text that start at the left edge of the figure, the first `bold` ones bold."""
    from matplotlib.transforms import blended_transform_factory

    ax.set_axis_off()
    ax.set(xticks=[], yticks=[], ylim=(len(lines), 0))
    fig: Any = ax.get_figure()
    from_left = blended_transform_factory(fig.dpi_scale_trans, ax.transData)
    for number, line in enumerate(lines):
        look: dict[str, Any] = {"weight": "bold" if number < bold else "normal", "transform": from_left}
        ax.text(EDGE / 72, number + _BASELINE / LINE_HEIGHT, line, in_layout=False, **look)


# ---------------------------------------------------------------- page and panels


def new_figure(width: float, heights: Sequence[float], between: float = EDGE) -> Figure:
    """Return a figure of that width with room for rows of panels of these heights, `between` points around each."""
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width / 72, sum(heights) / 72 + 6))
    fig.set_layout_engine("constrained", w_pad=EDGE / 72, h_pad=between / 72, wspace=0, hspace=0)
    return fig


def panels(
    titles: Sequence[str], width: float, height: float, narrowest: float, left: float = _SCALE
) -> tuple[Figure, list[Axes], int]:
    """Return a figure with a panel for each title, row by row, and the number of panels in a row.

    Args:
        titles: of the panels, each above its own.
        width: of the figure, in points.
        narrowest: the least width of a panel.
        left: the width left of the panels, in points.
    """
    room = width - left - 2 * EDGE
    rows = -(-len(titles) // max(1, int((room + _GAP) // (narrowest + _GAP))))
    columns = -(-len(titles) // rows)  # rows of nearly equal length
    fig = new_figure(width, [height] * rows)
    found = list(fig.subplots(rows, columns, squeeze=False).flat)
    for unused in found[len(titles) :]:
        unused.remove()
    for index, (ax, title) in enumerate(zip(found, titles, strict=False)):
        ax.set_title("\n".join(wrap_to(title, room / columns - _GAP)), loc="left")
        ax.tick_params(labelleft=index % columns == 0)
        ax.spines[["top", "right"]].set_visible(False)
    return fig, found[: len(titles)], columns


def name_axes(fig: Figure, axes: Sequence[Axes], columns: int, below: str, beside: str, height: float) -> None:
    """Name the scales of panels: one name below all, the other next to each row, wrapped to the height of a panel."""
    fig.supxlabel(below)
    for ax in axes[::columns]:
        ax.set_ylabel("\n".join(wrap_to(beside, height)))


def settle(fig: Figure, ax: Axes, heights: Sequence[float], least: float = 1.0) -> Figure:
    """Fix the layout of a figure, as high as its rows of panels need.

    Args:
        ax: a panel of its first row.
        heights: of the rows in points.
        least: the share of these heights to which panels may shrink where a page has no room for more.
    """
    engine: Any = fig.get_layout_engine()
    wanted = sum(heights)
    engine.execute(fig)
    around = points_high(fig) - ax.get_position().height * points_high(fig) * wanted / heights[0]
    fig.set_figheight(round((around + max(least * wanted, min(wanted, PAGE_HEIGHT - around))) / 72, 4))
    engine.execute(fig)
    fig.set_layout_engine("none")
    # The solver of the layout adds numbers in no fixed order; the same data are to give the same bytes.
    for panel in fig.axes:
        left, bottom, width, height = (round(float(end), 6) for end in panel.get_position().bounds)
        panel.set_position((left, bottom, width, height))
    _close_gap(fig)
    return fig


def _close_gap(fig: Figure) -> None:
    """Lower all panels onto the name below them, from which the layout keeps them too far."""
    named = [text for text in fig.texts if text.get_text() and text.get_text() == fig.get_supxlabel()]
    if not named:
        return
    fig.draw_without_rendering()
    to_points = 72 / fig.dpi
    low = min(to_points * box.y0 for panel in fig.axes if (box := panel.get_tightbbox()) is not None)
    gap = low - to_points * named[0].get_window_extent().y1 - _NAME_GAP
    if gap <= 0:
        return
    high = points_high(fig)
    label = named[0].get_position()[1] * high
    fig.set_figheight(round((high - gap) / 72, 4))
    for panel in fig.axes:
        left, bottom, width, height = panel.get_position().bounds
        lower, taller = ((bottom * high - gap) / (high - gap), height * high / (high - gap))
        panel.set_position((left, round(float(lower), 6), width, round(float(taller), 6)))
    named[0].set_y(round(label / (high - gap), 6))


def points_high(fig: Figure) -> float:
    return 72 * float(fig.get_figheight())


def width_of(ax: Axes) -> float:
    """Return the width of a panel in points, given the labels it has so far."""
    fig: Any = ax.get_figure()
    fig.get_layout_engine().execute(fig)
    return round(float(ax.get_position().width * fig.get_figwidth() * 72), 3)


def legend_height(texts: Sequence[str], width: float) -> float:
    """Return about how high a list of numbered texts is in that width, in points."""
    return sum(max(map(len, row)) * LINE_HEIGHT + 2 for row in _rows_of([], texts, width - EDGE))


def _starts(marks: Sequence[Any], texts: Sequence[str]) -> tuple[list[str], str]:
    """Return the number before each text, if they have no marks, and a space as wide as a digit."""
    digits, space = len(str(len(texts))), "\u2007"
    return ["" if marks else f"{i:{space}>{digits}}{space}" for i in range(1, len(texts) + 1)], space


def _rows_of(marks: Sequence[Any], texts: Sequence[str], width: float) -> list[list[list[str]]]:
    """Return the lines of each text, row by row, in as many columns as make a legend low."""
    starts, _ = _starts(marks, texts)

    def rows_in(columns: int) -> list[list[list[str]]]:
        """Lines of each text; matplotlib fills columns one after the other. Numbers side by side are level."""
        room = (width + _SPACE) / columns - _SPACE - (_MARK if marks else text_width(starts[0]))
        parts = [part.tolist() for part in np.array_split([*texts], columns)]
        found = [[wrap_to(part[row], room) for part in parts if row < len(part)] for row in range(len(parts[0]))]
        if marks:  # they are next to the middle of their text, which must have no blank lines
            return found
        found = [[list(map(isolate, lines)) for lines in row] for row in found]
        return [[[*lines, *[""] * (max(map(len, row)) - len(lines))] for lines in row] for row in found]

    many = range(1, max(1, min(len(texts), int(width // _NARROW))) + 1)
    return rows_in(min(many, key=lambda columns: sum(max(map(len, row)) for row in rows_in(columns))))


def legend(
    fig: Figure, marks: Sequence[Any], texts: Sequence[str], below: bool = False, right: float | None = None
) -> None:
    """Name series above all panels, below them, or right of them, in as many columns as make it low.

    Args:
        marks: of the series; none for texts that are numbered instead.
        texts: their names.
        right: the points that there are for them right of the panels.
    """
    from matplotlib.lines import Line2D

    width = 72 * fig.get_figwidth() - 2 * EDGE if right is None else right - EDGE
    starts, space = _starts(marks, texts)
    rows = _rows_of(marks, texts, width)
    columns = len(rows[0])
    broken = [row[column] for column in range(columns) for row in rows if column < len(row)]
    names = [start + f"\n{space * len(start)}".join(lines) for start, lines in zip(starts, broken, strict=True)]
    place: Any = "outside lower left" if below else "outside upper left" if right is None else "outside right center"
    look: dict[str, Any] = {} if marks else {"handlelength": 0, "handletextpad": 0}
    handles = [*marks] or [Line2D([], [], linestyle="none")] * len(texts)
    fig.legend(handles, names, loc=place, ncols=columns, **look)


# ---------------------------------------------------------------- rows and columns


def name_rows(ax: Axes, heights: Sequence[float], labels: Sequence[str], bold: Sequence[int] = ()) -> list[float]:
    """Name rows from top to bottom, y in points from the top; return the middle of each."""
    ends = [sum(heights[: i + 1]) for i in range(len(heights))]
    middles = [end - height / 2 for end, height in zip(ends, heights, strict=True)]
    ax.set_ylim(ends[-1], 0)
    ax.set_yticks(middles, labels)
    ax.tick_params(axis="y", length=0, pad=4)
    for number in bold:
        ax.yaxis.get_major_ticks()[number].label1.set_fontweight("bold")
    ax.spines[["top", "right", "left"]].set_visible(False)
    return middles


def name_columns(
    ax: Axes,
    labels: Sequence[str],
    expected: Sequence[str] = (),
    most_lines: int = 5,
    name: str = "",
    sizes: Sequence[str] = (),
) -> float:
    """Name columns above them, x from 0: level if all labels fit, else upright; return the width of a column.

    Args:
        ax: the panel, its rows named.
        sizes: what stands below each label.
        expected: what each column expects of a model; a band above neighbours with the same says it.
        most_lines: of a level label.
        name: of all, above them.
    """
    ax.set_xlim(0, len(labels))
    ax.set_xticks([])
    step = width_of(ax) / len(labels)
    bands = _bands(expected, step)
    words = zip(expected if expected and not bands else [""] * len(labels), sizes or [""] * len(labels), strict=True)
    ends = [" ".join([*([f"({text})"] if text else []), *([size] if size else [])]) for text, size in words]
    level = [[*wrap_to(label, step - 6), *([end] if end else [])] for label, end in zip(labels, ends, strict=True)]
    whole = [*(piece for label in labels for piece in pieces(label)), *ends]
    upright = widest(whole) > step - 6 or max(len(lines) for lines in level) > most_lines
    if upright:
        most = max(1, int(step / LINE_HEIGHT))
        level = [wrap_into(f"{label} {end}".rstrip(), most) for label, end in zip(labels, ends, strict=True)]
    top = ax.secondary_xaxis("top")
    look: dict[str, Any] = {"rotation": 90, "multialignment": "left"} if upright else {}
    top.set_xticks([i + 0.5 for i in range(len(labels))], ["\n".join(lines) for lines in level], **look)
    top.set_xlabel(name, labelpad=4)
    top.tick_params(length=0, pad=2)
    top.spines["top"].set_visible(False)
    high = max(widest(lines) for lines in level) if upright else LINE_HEIGHT * max(len(lines) for lines in level)
    _draw_bands(ax, bands, high + 5)
    return step


class Band(NamedTuple):
    """Neighbouring columns that expect the same of a model."""

    first: int
    last: int
    lines: Sequence[str]


def _bands(expected: Sequence[str], step: float) -> list[Band]:
    """Return the bands above columns of a width; none where a word would not fit above its own."""
    found = []
    for text, group in itertools.groupby(range(len(expected)), key=lambda i: expected[i]):
        columns = list(group)
        if text:
            found.append(Band(columns[0], columns[-1], wrap_to(EXPECTED.get(text, text), len(columns) * step - 2)))
    fitting = all(
        widest(pieces(EXPECTED.get(expected[band.first], ""))) <= (band.last - band.first + 1) * step - 2
        for band in found
    )
    return found if fitting else []


def _draw_bands(ax: Axes, bands: Sequence[Band], above: float) -> None:
    """Draw a line over the columns of each band, `above` points over the panel, and its text above the line."""
    from matplotlib.transforms import offset_copy

    if not bands:
        return
    fig: Any = ax.get_figure()
    line = offset_copy(ax.get_xaxis_transform(), fig, y=above, units="points")
    for band in bands:
        ends = [band.first + 0.06, band.last + 0.94]
        ax.plot(ends, [1, 1], color=INK, linewidth=0.6, transform=line, clip_on=False, in_layout=False)
    axis = ax.secondary_xaxis("top")
    texts = ["\n".join(band.lines) for band in bands]
    axis.set_xticks([(band.first + band.last + 1) / 2 for band in bands], texts)
    axis.tick_params(length=0, pad=above + 2)
    axis.spines["top"].set_visible(False)


Tile = tuple[Sequence[str], float | None]  # lines of text, and from 0 to 1 the darkness; None for an empty tile


def draw_tiles(ax: Axes, heights: Sequence[float], tiles: Mapping[tuple[int, int], Tile]) -> None:
    """Draw tiles by row and column with centred lines."""
    import matplotlib as mpl
    from matplotlib.patches import Rectangle

    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    for (row, column), (lines, share) in tiles.items():
        y, fill = sum(heights[:row]), None if share is None else mpl.colormaps[RATE_COLOURS](float(share))[:3]
        look: dict[str, Any] = {"facecolor": fill or "white", "edgecolor": "white", "linewidth": 1.4}
        ax.add_patch(Rectangle((column, y), 1, heights[row], **look))
        if fill is None:
            inside = (column + 0.02, y + 1), 0.96, heights[row] - 2
            ax.add_patch(Rectangle(*inside, fill=False, edgecolor=FAINT, linewidth=0.6))
        start = y + (heights[row] - len(lines) * LINE_HEIGHT) / 2 + _BASELINE
        for number, line in enumerate(lines):
            style: dict[str, Any] = {"ha": "center", "color": ink_on(fill) if fill else INK, "in_layout": False}
            ax.text(column + 0.5, start + number * LINE_HEIGHT, line, **style)


def tile_table(
    width: float,
    names: Sequence[str],
    columns: Sequence[str],
    tiles_at: Callable[[float], Mapping[tuple[int, int], Tile]],
    *,
    narrowest: float = 0.0,
    below: Sequence[float] = (),
    **head: Any,
) -> tuple[Figure, list[Axes], list[float]]:
    """Return a figure of named rows and columns of tiles, not yet settled, its panels and their heights.

    Args:
        width: of the figure, in points.
        names: of the rows.
        tiles_at: returns the tiles by row and column, given the width of one.
        narrowest: the width that the text of a tile needs; names leave it room.
        below: heights of further panels below.
        head: further arguments of `name_columns`.
    """
    room = max(0.16 * width, min(0.3 * width, width - 2 * EDGE - narrowest * len(columns)))
    lines = [wrap_to(name, room) for name in names]
    labels = ["\n".join(found) for found in lines]
    fig = new_figure(width, [72.0])
    axes = list(fig.subplots(1 + len(below), 1, squeeze=False).flat)
    name_rows(axes[0], [1.0] * len(names), labels)
    tiles = tiles_at(name_columns(axes[0], columns, **head))
    heights = []
    for row, found in enumerate(lines):
        most = max(len(texts) for (place, _), (texts, _) in tiles.items() if place == row)
        heights.append(max(len(found), most) * LINE_HEIGHT + 6)
    name_rows(axes[0], heights, labels)
    draw_tiles(axes[0], heights, tiles)
    axes[0].get_gridspec().set_height_ratios([sum(heights), *below])
    return fig, axes, [sum(heights), *below]


def ink_on(colour: str | tuple[float, float, float]) -> str:
    """Black or white, whichever is easier to read on a colour (its relative luminance: W3C, WCAG 2.2)."""
    from matplotlib.colors import to_rgb

    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return INK if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.21 else "white"


# ---------------------------------------------------------------- marks


class Look(NamedTuple):
    """How a series is drawn; `inside` is the colour within its marker. Series are distinguishable in grey."""

    colour: str
    inside: str
    marker: str
    dash: Any = "-"

    def point(self) -> dict[str, Any]:
        """Arguments of `Axes.plot` for its markers."""
        size = {"o": 3.6, "s": 3.3, "D": 3.0, "*": 5.2, "P": 4.2, "X": 4.0}.get(self.marker, 3.8)
        edge = {"markeredgecolor": self.colour, "markeredgewidth": 0.8}
        return {"marker": self.marker, "markerfacecolor": self.inside, "markersize": size, **edge}

    def line(self) -> dict[str, Any]:
        """Return the arguments that `Axes.plot` takes for its line."""
        return {"color": self.colour, "linewidth": 1.0, "linestyle": self.dash}

    def sample(self, line: bool = False) -> Any:
        """Return its mark for a legend, with its line or without."""
        from matplotlib.lines import Line2D

        return Line2D([], [], **(self.line() if line else {"linestyle": "none"}), **self.point())


_DASHED, _DOTTED, _MIXED = (0, (4, 1.6)), (0, (1, 1.2)), (0, (4, 1.4, 1, 1.4))
# Colours of Okabe & Ito; filled and open markers alternate, so that neighbours differ without colour too.
LOOKS = (
    Look(BLUE, BLUE, "o"),
    Look(VERMILLION, "white", "s", _DASHED),
    Look(INK, INK, "^", _DOTTED),
    Look("#009E73", "white", "D", _MIXED),
    Look("#CC79A7", "#CC79A7", "v"),
    Look(INK, "white", "P", _DASHED),
    Look("#E69F00", "#E69F00", "X", _DOTTED),
    Look("#56B4E9", "white", "*", _MIXED),
)

PLAIN = Look(GREY, GREY, "o")  # of what series have in common


def draw_mark(
    ax: Axes,
    look: Look,
    value: float | None,
    ends: Sequence[float | None] | None,
    at: float,
    *,
    upright: bool = False,
    thick: bool = False,
    factor: float = 1.0,
) -> None:
    """Draw a value and its interval, times a factor, as a level line at `at`, or an upright one; nothing for None."""

    def plot(values: Sequence[Any], **style: Any) -> None:
        places, scaled = [at] * len(values), [factor * value for value in values]
        ax.plot(*((places, scaled) if upright else (scaled, places)), **style)

    if value is not None:
        if ends and None not in ends:
            plot(ends, color=look.colour, linewidth=1.8 if thick else 0.8, solid_capstyle="butt", zorder=2)
        plot([value], linestyle="none", clip_on=False, in_layout=False, zorder=3, **look.point())


def numbers_inside(ax: Axes) -> None:
    """Let the first and last number of a horizontal scale end with it, so that neighbours do not touch."""
    labels = ax.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")
