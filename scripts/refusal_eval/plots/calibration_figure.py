"""The figure of what the probabilities of a study's judges are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import Figure as FigureEntry
from refusal_eval.config.figure_entry import Shown, able_judges
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.plots.layout import EDGE, axes_at, page, put_upright, text_width
from refusal_eval.plots.panels import PanelGrid, draw_marks
from refusal_eval.plots.style import BLUE, GREY, INK, LINE_HEIGHT, VERMILLION, styled
from refusal_eval.report.paper.display import number
from refusal_eval.report.paper.table_notes import ranking_text, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Card = Mapping[str, Any]

_PANEL_HEIGHT, _NARROWEST, _SCALE_WIDTH = 80.0, 100.0, 30.0  # points
RELIABILITY_HEIGHT = LINE_HEIGHT + 4 + _PANEL_HEIGHT + 24  # points: legend, panel, scale
# words, colour of the line, of the inside, marker
_LOOKS = (("as given", VERMILLION, "white", "s"), ("calibrated, out of fold", BLUE, BLUE, "o"))


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
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one of the judges that always give probabilities, on gold."""
        able = [name for name, judge in study.judges.items() if judge.gives_probabilities == "always"]
        return [cls(name="calibration", kind="calibration", judges=able)] if able and study.gold else []

    def shown(self, study: StudyView) -> Shown:
        """Return what it shows."""
        return Shown(list(self.judges or _able(study)), gold=list(self.gold or study.gold))

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
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


def _able(study: StudyView) -> list[str]:
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
    there = [words for words, *_ in _LOOKS if any(words in dict(soft_series(card)) for card in cards)]
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
            for place, found in enumerate(soft["bins"], 1):
                low, high = found["interval"]
                names = {"judge": card["judge"], "gold": card["gold"], "probabilities": words, "bin": place}
                rows.append(names | {"mean_p": found["mean_p"], "refusal": found["rate"], "low": low, "high": high})
    return pd.DataFrame(rows, dtype=object)


def soft_series(card: Card) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (words, soft measures) of the probabilities as given, then calibrated out of fold; what there is."""
    calibration = card.get("calibration") or {}
    given = (calibration.get("as_given") or card)["soft"]
    best = calibration.get(calibration.get("headline") or "")
    found = [(_LOOKS[0][0], given), (_LOOKS[1][0], (best or {}).get("soft"))]
    return [(words, soft) for words, soft in found if soft]


def reliability_text(card: Card) -> list[str]:
    """Return the measures of probabilities in words, a sentence for each series; nothing for a judge without any.

    Beside each ECE stands what noise alone would make of it, as it is above 0 for a calibrated judge too.
    """
    texts = []
    for words, soft in soft_series(card):
        ece, brier = value_text(soft["ece"], soft["ece_interval"]), value_text(soft["brier"], soft["brier_interval"])
        calibrated = f"a calibrated judge would show {number(soft['ece_if_calibrated'])}"
        bins = f"{soft['n_bins']} bins of equal mass"
        ranking = ranking_text(soft)
        order = f"; {ranking}" if ranking else ""
        texts.append(f"{words.capitalize()}: ECE {ece} in {bins} ({calibrated}), Brier {brier}{order}.")
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
    ax = axes_at(fig, left, top + LINE_HEIGHT + 4, width - left - EDGE - 4, _PANEL_HEIGHT)
    draw_bins(ax, card)
    draw_marks(sheet, left, top, [(words, mark_of(words)) for words, _ in soft_series(card)])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_xlabel("Judge's probability of refusal", labelpad=1, color=INK)
    words = "Labelled refusal by people"
    middle = top + LINE_HEIGHT + 4 + (_PANEL_HEIGHT + text_width(words)) / 2
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
