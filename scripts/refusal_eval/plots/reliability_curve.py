"""The reliability diagram of a judge that gives probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.plots.layout import EDGE, axes_at, put_upright, text_width
from refusal_eval.plots.series import draw_marks
from refusal_eval.plots.style import BLUE, GREY, INK, LINE_HEIGHT, VERMILLION
from refusal_eval.report.paper.display import number
from refusal_eval.report.paper.table_notes import value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Card = Mapping[str, Any]

_PANEL = 76.0
HEIGHT = LINE_HEIGHT + 4 + _PANEL + 24  # points: legend, panel, scale
# words, colour of the line, of the inside, marker
_LOOKS = (("as given", VERMILLION, "white", "s"), ("calibrated, out of fold", BLUE, BLUE, "o"))


def soft_series(card: Card) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (words, soft measures) of the probabilities as given, then calibrated out of fold; what there is."""
    calibration = card.get("calibration") or {}
    given = (calibration.get("as_given") or card)["soft"]
    best = calibration.get(calibration.get("headline") or "")
    found = [(_LOOKS[0][0], given), (_LOOKS[1][0], (best or {}).get("soft"))]
    return [(words, soft) for words, soft in found if soft]


def reliability_text(card: Card) -> list[str]:
    """Return ECE and Brier score in words, a sentence for each series; nothing for a judge without probabilities.

    Beside each ECE stands what noise alone would make of it, as it is above 0 for a calibrated judge too.
    """
    texts = []
    for words, soft in soft_series(card):
        ece, brier = value_text(soft["ece"], soft["ece_interval"]), value_text(soft["brier"], soft["brier_interval"])
        calibrated = f"a calibrated judge would show {number(soft['ece_if_calibrated'])}"
        bins = f"{soft['n_bins']} bins of equal mass"
        texts.append(f"{words.capitalize()}: ECE {ece} in {bins} ({calibrated}), Brier {brier}.")
    calibration = card.get("calibration") or {}
    if not texts or calibration.get("t") is None:
        return texts
    out_of_fold = calibration.get(calibration["headline"] or "")
    spread = "" if out_of_fold is None else " (out of fold {:.3g} to {:.3g})".format(*out_of_fold["t"])
    fitted = f"Threshold fitted on all of this gold set: t = {calibration['t']:.3g}{spread}"
    return [*texts, f"{fitted}. As a number in the judge's entry it would make this card in-sample."]


def draw_reliability(fig: Figure, sheet: Axes, card: Card, top: float, width: float) -> None:
    """Draw, for each bin, the share that people call a refusal over the mean p, with its interval."""
    left = EDGE + 2 * LINE_HEIGHT + text_width("0.5") + 2
    ax = axes_at(fig, left, top + LINE_HEIGHT + 4, width - left - EDGE - 4, _PANEL)
    draw_bins(ax, card)
    draw_marks(sheet, left, top, [(words, mark_of(words)) for words, _ in soft_series(card)])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_xlabel("Judge's probability of refusal", labelpad=1, color=INK)
    words = "Labelled refusal by people"
    middle = top + LINE_HEIGHT + 4 + (_PANEL + text_width(words)) / 2
    put_upright(sheet, EDGE + LINE_HEIGHT / 2, middle, [words])


def draw_bins(ax: Axes, card: Card) -> None:
    """Draw the bins of a card on their scales from 0 to 1, without names of the axes."""
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    for words, soft in soft_series(card):
        style = mark_of(words)
        for found in soft["bins"]:
            line = style["markeredgecolor"]
            ax.plot([found["mean_p"]] * 2, found["interval"], color=line, linewidth=0.8, clip_on=False, zorder=2)
            ax.plot([found["mean_p"]], [found["rate"]], linestyle="none", zorder=3, **style)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.spines[["top", "right"]].set_visible(False)


def mark_of(words: str) -> dict[str, Any]:
    """Return how the marks of a series of `soft_series` look, for `Axes.plot`."""
    line, inside, marker = next(look for name, *look in _LOOKS if name == words)
    edge = {"markeredgecolor": line, "markeredgewidth": 0.8}
    return {"color": inside, "marker": marker, "markersize": 3.2, "clip_on": False, **edge}
