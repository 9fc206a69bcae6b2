"""What forests of rates share: their lines, a rate with its interval as a mark, and the scale below."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from matplotlib.axes import Axes

from refusal_eval.plots.series import Look
from refusal_eval.plots.shown_estimates import Row
from refusal_eval.plots.style import FAINT


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a forest, or the name of a split above its lines.

    Attributes:
        text: what it is called.
        split: the split.
        category: the category, None for all; of a head None too.
        head: whether it is the name of a split.
    """

    text: str
    split: str
    category: str | None
    head: bool = False


def draw_mark(ax: Axes, row: Row | None, look: Look, y: float, thick: bool) -> None:
    """Draw the rate of a row in percent with its interval; nothing where there is none.

    Args:
        ax: a panel.
        row: value, low and high as shares.
        look: of the mark.
        y: its height.
        thick: whether the interval is a thick line.
    """
    if row is None or row["value"] is None:
        return
    if row["low"] is not None and row["high"] is not None:
        ends = [100 * row["low"], 100 * row["high"]]
        ax.plot(ends, [y, y], color=look.colour, linewidth=1.8 if thick else 0.8, solid_capstyle="butt", zorder=2)
    ax.plot([100 * row["value"]], [y], linestyle="none", **look.point(), clip_on=False, zorder=3)


def scale_in_percent(ax: Axes, ticks: Sequence[float], bottom: float) -> None:
    """Give a panel of that height its scale, whose first and last number stay within the panel's width."""
    for tick in ticks[1:]:
        ax.axvline(tick, color=FAINT, linewidth=0.5, zorder=0)
    ax.set_xlim(ticks[0], ticks[-1])
    ax.set_ylim(bottom, 0)
    ax.set_yticks([])
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.spines[["top", "right", "left"]].set_visible(False)
    labels = ax.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")
