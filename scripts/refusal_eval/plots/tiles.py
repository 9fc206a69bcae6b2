"""Cells of a table drawn as tiles: darker for more, with text that stays readable on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from refusal_eval.plots.layout import put
from refusal_eval.plots.style import FAINT, INK, LINE_HEIGHT, RATE_COLOURS

Box = tuple[float, float, float, float]  # x, y, width and height in points

_INSET = 0.7  # points; half of what lies between two tiles, and of the line around them


def tile(sheet: Axes, box: Box, lines: Sequence[str], share: float | None) -> None:
    """Draw a tile with centred lines, the first bold; `share` from 0 to 1 is its darkness, None for an empty one.

    All tiles stand the same little distance from their neighbours, empty ones within a thin frame.
    """
    x, y, width, height = box
    fill = None if share is None else mpl.colormaps[RATE_COLOURS](float(share))[:3]
    frame, inside_colour = (FAINT, "white") if fill is None else (fill, fill)
    inside = (x + _INSET, y + _INSET), width - 2 * _INSET, height - 2 * _INSET
    look: dict[str, Any] = {"facecolor": inside_colour, "edgecolor": frame, "linewidth": 0.6, "joinstyle": "miter"}
    sheet.add_patch(Rectangle(*inside, **look))
    ink = INK if fill is None or _luminance(fill) > 0.21 else "white"
    start = y + (height - len(lines) * LINE_HEIGHT) / 2
    put(sheet, x + width / 2, start, lines[:1], align="center", bold=True, color=ink)
    put(sheet, x + width / 2, start + LINE_HEIGHT, lines[1:], align="center", color=ink)


def _luminance(colour: tuple[float, float, float]) -> float:
    """Relative luminance, 0 black to 1 white (W3C, Web Content Accessibility Guidelines 2.2)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
