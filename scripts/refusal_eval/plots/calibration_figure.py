"""The figure of what the probabilities of a study's judges are worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import Figure as FigureEntry
from refusal_eval.config.figure_entry import FigureStudy, Mistake, Shown, able_judges
from refusal_eval.config.shapes import Slug
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.plots.layout import EDGE, page
from refusal_eval.plots.panels import PanelGrid
from refusal_eval.plots.reliability_curve import Card, draw_bins, mark_of, reliability_text, soft_series
from refusal_eval.plots.series import draw_marks
from refusal_eval.plots.style import LINE_HEIGHT, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL_HEIGHT, _NARROWEST, _SCALE_WIDTH = 82.0, 100.0, 30.0  # points
_SERIES = ("as given", "calibrated, out of fold")


class CalibrationFigure(FigureEntry):
    """How well the probabilities of judges are calibrated: a reliability diagram per judge and gold set."""

    report: ClassVar[tuple[str, str, str]] = (
        "Judges",
        "Calibration of judges",
        "What the probabilities of the judges are worth: the share of answers that people call a refusal over the "
        "judge's mean probability, in bins of equal mass, as given and calibrated out of fold. A judge that can be "
        "taken at its word lies on the dashed line.",
    )
    needs: ClassVar[tuple[str, ...]] = ("cards",)

    kind: Literal["calibration"]
    judges: list[Slug] | None = Field(
        None, min_length=1, description="Judges that it shows, in this order. Default: those that give probabilities."
    )
    gold: list[Slug] | None = Field(None, min_length=1, description="Gold sets that it shows. Default: all.")

    @classmethod
    def unasked(cls, study: FigureStudy) -> list[Self]:
        """Return one of the judges that always give probabilities, on gold."""
        able = [name for name, judge in study.judges.items() if judge.gives_probabilities == "always"]
        return [cls(name="calibration", kind="calibration", judges=able)] if able and study.gold else []

    def shown(self, study: FigureStudy) -> Shown:
        """Return what it shows."""
        return Shown(list(self.judges or _able(study)), gold=list(self.gold or study.gold))

    def mistakes(self, study: FigureStudy) -> Iterator[Mistake]:
        """Yield that there is no gold, and judges without probabilities."""
        able = _able(study)
        if not study.gold:
            yield ("kind",), "`calibration` needs gold; name some in `gold` of the study"
        if self.judges is None and study.judges and not able:
            yield ("kind",), "`calibration` needs a judge that gives probabilities, and the study has none"
        for index, name in enumerate(self.judges or []):
            if name in study.judges and name not in able:
                what = f"judge `{name}` (kind {study.judges[name].kind}) gives no probabilities"
                yield ("judges", index), what + able_judges(able)

    def draw(self, data: FigureData) -> Drawn:
        """Return a diagram for each judge and gold set: the share that people call a refusal over the judge's p.

        Raises:
            UserError: if none of the judges gives probabilities, or no page is high enough.
        """
        by_name = {(card["judge"], card["gold"]): card for card in data.cards}
        places = [(judge, gold) for judge in data.shown.judges for gold in data.shown.gold]
        found = [by_name[place] for place in places if place in by_name and soft_series(by_name[place])]
        if not found:
            raise data.undrawable(": none of its judges gives a probability on gold")
        with styled():
            fig = _draw(found, data)
        words = [
            "Each mark is a bin of equal mass: the share that people call a refusal or partial refusal, with its "
            "interval, over the mean probability that the judge gives one. Dashed line: perfect calibration."
        ]
        for card in found:
            name = f"{data.labels.judge(card['judge'])} on {data.labels.gold(card['gold'])}"
            words.append(f"{name}: {' '.join(reliability_text(card))}")
        caption = Caption(self.title or "Calibration of the judges' probabilities.", words)
        return Drawn(fig, _frame(found), caption)


def _able(study: FigureStudy) -> list[str]:
    """The judges that give probabilities, or may."""
    return [name for name, judge in study.judges.items() if judge.gives_probabilities != "never"]


def _draw(cards: Sequence[Card], data: FigureData) -> Figure:
    width, left = data.points(len(cards) > 2), EDGE + _SCALE_WIDTH
    titles = [[data.labels.judge(card["judge"]), data.labels.gold(card["gold"])] for card in cards]
    grid = PanelGrid(titles, width - left - EDGE - 4, _PANEL_HEIGHT, _NARROWEST)
    top = EDGE + LINE_HEIGHT + 4
    height = top + grid.height + LINE_HEIGHT + EDGE
    if not data.fits(height):
        raise data.too_high(height, "name fewer under `judges` or `gold`")
    fig, sheet = page(width, height)
    there = [words for words in _SERIES if any(words in dict(soft_series(card)) for card in cards)]
    draw_marks(sheet, left, EDGE, [(words, mark_of(words)) for words in there])
    for index, (card, ax) in enumerate(zip(cards, grid.draw(fig, sheet, left, top), strict=True)):
        draw_bins(ax, card)
        ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"] if grid.first_column(index) else [""] * 3)
    grid.label_axes(sheet, (left, top), "Judge's probability of refusal", "Labelled refusal by people")
    return fig


def _frame(cards: Sequence[Card]) -> pd.DataFrame:
    rows = []
    for card in cards:
        for words, soft in soft_series(card):
            for number, found in enumerate(soft["bins"], 1):
                low, high = found["interval"]
                names = {"judge": card["judge"], "gold": card["gold"], "probabilities": words, "bin": number}
                rows.append(names | {"mean_p": found["mean_p"], "refusal": found["rate"], "low": low, "high": high})
    return pd.DataFrame(rows, dtype=object)
