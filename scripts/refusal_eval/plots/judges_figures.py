"""The figures of a study's judges beside each other: their agreement, and what their probabilities are worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.core.errors import UserError
from refusal_eval.plots.judges_agree_figure import agreement_figure, agreement_words, group_of
from refusal_eval.plots.layout import EDGE, axes_at, page, put, put_upright, text_width
from refusal_eval.plots.panels import PanelGrid
from refusal_eval.plots.plot import Caption, Drawn, Plot
from refusal_eval.plots.reliability_curve import draw_bins, mark_of, reliability_text, soft_series
from refusal_eval.plots.style import LINE_HEIGHT, styled
from refusal_eval.report.paper.frames import Card

_PANEL_HEIGHT, _NARROWEST, _SCALE_WIDTH = 82.0, 100.0, 30.0  # points
_COLUMNS = 3  # judges that a narrow figure of agreement has room for
_SERIES = ("as given", "calibrated, out of fold")


def judges_agree(agreement: Mapping[str, Any], plot: Plot) -> Drawn:
    """Kappa of every two judges as tiles.

    Args:
        agreement: judge_agreement.json.
        plot: what is asked; its `split` is None for all splits together.

    Raises:
        UserError: if one of the judges or the split is not in the file.
    """
    split = plot.options["split"]
    missing = sorted(set(plot.judges) - set(agreement["judges"]))
    if missing or split not in [group["split"] for group in agreement["groups"]]:
        raise UserError(f"figure `{plot.name}`: there is no agreement of {', '.join(missing) or split} to draw")
    width = plot.points(len(plot.judges) > _COLUMNS)
    figure = agreement_figure(agreement, plot.judges, plot.labels, split, width)
    rows = []
    for pair in group_of(agreement, split)["pairs"]:
        if {pair["first"], pair["second"]} <= set(plot.judges):
            for reading in ("broad", "strict"):
                kappa = pair[reading]["kappa"]
                low, high = kappa["interval"] or (None, None)
                names = {"first": pair["first"], "second": pair["second"], "split": split, "reading": reading}
                rows.append(names | {"n": pair["n"], "kappa": kappa["value"], "low": low, "high": high})
    where = f" on {plot.labels.split(split)}" if split else ""
    words = agreement_words(agreement, plot.judges, split)
    return Drawn(figure, pd.DataFrame(rows, dtype=object), Caption(plot.title or f"Agreement of judges{where}.", words))


def calibration(cards: Iterable[Card], plot: Plot) -> Drawn:
    """A reliability diagram for each judge and gold set: the share that people call a refusal over the judge's p.

    Raises:
        UserError: if none of the judges gives probabilities, or no page is high enough.
    """
    by_name = {(card["judge"], card["gold"]): card for card in cards}
    places = [(judge, gold) for judge in plot.judges for gold in plot.gold]
    found = [by_name[place] for place in places if place in by_name and soft_series(by_name[place])]
    if not found:
        raise UserError(f"figure `{plot.name}`: none of its judges gives a probability on gold")
    show = plot.labels
    with styled():
        width = plot.points(len(found) > 2)
        left = EDGE + _SCALE_WIDTH
        titles = [[show.judge(card["judge"]), show.gold(card["gold"])] for card in found]
        grid = PanelGrid(titles, width - left - EDGE - 4, _PANEL_HEIGHT, _NARROWEST)
        top = EDGE + LINE_HEIGHT + 4
        end = top + grid.height
        height = end + LINE_HEIGHT + EDGE
        if not plot.fits(height):
            raise plot.too_high(height, "name fewer under `judges` or `gold`")
        fig, sheet = page(width, height)
        x = left
        for words in [words for words in _SERIES if any(words in dict(soft_series(card)) for card in found)]:
            sheet.plot([x + 4], [EDGE + 4.2], **mark_of(words))
            put(sheet, x + 10, EDGE, [words])
            x += 20 + text_width(words)
        grid.draw_titles(sheet, left, top)
        for index, (card, (x, y, panel, tall)) in enumerate(zip(found, grid.boxes, strict=True)):
            ax = axes_at(fig, left + x, top + y, panel, tall)
            draw_bins(ax, card)
            numbers = ["0", "0.5", "1"] if grid.first_column(index) else [""] * 3
            ax.set_yticks([0, 0.5, 1], numbers)
        put(sheet, left + (width - left - EDGE) / 2, end, ["Judge's probability of refusal"], align="center")
        words = "Labelled refusal by people"
        middle = (top + grid.boxes[0][1] + end - 12 + text_width(words)) / 2
        put_upright(sheet, EDGE + LINE_HEIGHT / 2, middle, [words])
    return Drawn(fig, _bins(found), _calibration_caption(found, plot))


def _bins(cards: Sequence[Card]) -> pd.DataFrame:
    rows = []
    for card in cards:
        for words, soft in soft_series(card):
            for number, found in enumerate(soft["bins"], 1):
                low, high = found["interval"]
                names = {"judge": card["judge"], "gold": card["gold"], "probabilities": words, "bin": number}
                rows.append(names | {"mean_p": found["mean_p"], "refusal": found["rate"], "low": low, "high": high})
    return pd.DataFrame(rows, dtype=object)


def _calibration_caption(cards: Sequence[Card], plot: Plot) -> Caption:
    words = [
        "Each mark is a bin of equal mass: the share that people call a refusal or partial refusal, with its interval, "
        "over the mean probability that the judge gives one. Dashed line: perfect calibration."
    ]
    for card in cards:
        name = f"{plot.labels.judge(card['judge'])} on {plot.labels.gold(card['gold'])}"
        words.append(f"{name}: {' '.join(reliability_text(card))}")
    return Caption(plot.title or "Calibration of the judges' probabilities.", words)
