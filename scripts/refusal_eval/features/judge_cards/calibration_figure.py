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
from refusal_eval.plots.base import LOOKS, draw_mark, legend, name_axes, numbers_inside, panels, settle
from refusal_eval.plots.captions import within
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, fits
from refusal_eval.plots.style import GREY
from refusal_eval.report.paper.display import Card, join_texts, number
from refusal_eval.report.paper.table_notes import (
    is_calibrated_elsewhere,
    is_peoples,
    levels_text,
    of_all,
    ranking_text,
    value_text,
    weights_text,
    written_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


X_LABEL = "Judge's probability of refusal"
_MOST_ECES = 2  # cards whose numbers a caption has room for
_HIGH = 100.0  # points, the height of a diagram
_NARROWEST = 92.0
_GIVEN, _UNSEEN, _ELSEWHERE = "as given", "calibrated, out of fold", "calibrated on another gold set"
# What is compared with the labels of gold, by series.
_COMPARED = {
    _GIVEN: "As given: the probability in the judge's verdict, whatever label it gave, of the answers that have one",
    _UNSEEN: "calibrated, out of fold: the same, each mapped by a fit to other answers of the gold set",
    _ELSEWHERE: "calibrated on another gold set: the same, mapped by the fit that the judge uses",
}
_LOOKS = {_GIVEN: LOOKS[1], _UNSEEN: LOOKS[0], _ELSEWHERE: LOOKS[2]}


class CalibrationFigure(FigureEntry):
    """How well the probabilities of judges are calibrated: a reliability diagram per judge and gold set."""

    report: ClassVar[tuple[str, str]] = ("Judges", "Calibration of judges")
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
        """Draw a diagram for each judge and gold set: the share that gold calls a refusal over the judge's p.

        Raises:
            UserError: if none of the judges gives probabilities, or no page is high enough.
        """
        by_name = {(card["judge"], card["gold"]): card for card in data.cards}
        places = [(judge, gold) for judge in data.shown.judges for gold in data.shown.gold]
        found = [by_name[place] for place in places if place in by_name and soft_series(by_name[place])]
        found.sort(key=lambda card: (data.shown.judges.index(card["judge"]), not is_peoples(card)))
        if not found:
            raise data.undrawable(": none of its judges gives a probability on gold")
        fig = _draw(found, data)
        names = {(judge, gold): f"{data.labels.judge(judge)} on {data.labels.gold(gold)}" for judge, gold in places}
        whose = "people" if all(map(is_peoples, found)) else "the labels of gold"
        words = [
            f"Each mark is a bin of equal mass: the share that {whose} call a refusal or partial refusal, with its "
            f"interval, over the mean probability that the judge gives one. Intervals ({levels_text(found)}) are "
            "also in brackets. Dashed line: perfect calibration.",
            "; ".join(text for words, text in _COMPARED.items() if any(words in dict(soft_series(c)) for c in found))
            + ".",
        ]
        for card in found:
            (_, soft), *_ = soft_series(card)
            answers = f"{of_all(soft['n'], card['n'])} answers{written_text(card)}"
            about = f"{names.pop((card['judge'], card['gold']))} ({answers})"
            words.append(" ".join([f"{about}:", *reliability_text(card), weights_text(card)]).rstrip())
        if names:
            words.append(f"Without a probability, and so not shown: {join_texts(names.values())}.")
        short = [
            f"Share that {whose} call a (partial) refusal over the judge's mean probability, in bins of equal mass "
            f"with {levels_text(found)} CI. Dashed: perfect calibration.",
            *([_eces(found, data)] if len(found) <= _MOST_ECES else []),
        ]
        title = self.title or "Calibration of the judges' probabilities."
        caption = Caption(title, words, within(title, short[:1], short[1:]))
        return Drawn(fig, _frame(found), caption)


def _eces(cards: Sequence[Card], data: FigureData) -> str:
    """Return the calibration error of each card in one sentence."""
    texts = []
    for card in cards:
        each = [f"{number(soft['ece'])} {series}" for series, soft in soft_series(card) if soft["ece"] is not None]
        where = f"{data.labels.gold(card['gold'])}: " if len(cards) > 1 else ""
        texts.append(where + ", ".join(each))
    return f"ECE {'; '.join(texts)}."


def _able(study: StudyView) -> list[str]:
    """Return the judges that may give probabilities."""
    return [name for name, judge in study.judges.items() if judge.gives_probabilities != "never"]


def _draw(cards: Sequence[Card], data: FigureData) -> Figure:
    titles = [f"{data.labels.judge(card['judge'])}: {data.labels.gold(card['gold'])}" for card in cards]
    fig, axes, columns = panels(titles, data.points(len(cards) > 2), _HIGH, _NARROWEST)
    legend(fig, *samples(cards))
    for card, ax in zip(cards, axes, strict=True):
        draw_bins(ax, card)
    name_axes(fig, axes, columns, X_LABEL, y_label(cards), _HIGH)
    settle(fig, axes[0], [_HIGH] * -(-len(axes) // columns))
    if not fits(fig):
        raise data.too_high(fig, "name fewer under `judges` or `gold`")
    return fig


def _frame(cards: Sequence[Card]) -> pd.DataFrame:
    rows = []
    for card in cards:
        for words, soft in soft_series(card):
            for place, found in enumerate(soft["bins"], 1):
                low, high = found["interval"]
                names = {"judge": card["judge"], "gold": card["gold"], "probabilities": words, "bin": place}
                numbers = {"n": found["n"], "mean_p": found["mean_p"], "refusal": found["rate"]}
                rows.append(names | numbers | {"low": low, "high": high})
    return pd.DataFrame(rows, dtype=object)


def soft_series(card: Card) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (words, soft measures) of the probabilities as given, then calibrated; what there is.

    Calibrated as the card's own numbers are, where another gold set calibrates the judge; else out of fold.
    """
    calibration = card.get("calibration") or {}
    given = (calibration.get("as_given") or card)["soft"]
    best = calibration.get(calibration.get("headline") or "") or {}
    second = (_ELSEWHERE, card["soft"]) if is_calibrated_elsewhere(card) else (_UNSEEN, best.get("soft"))
    return [(words, soft) for words, soft in ((_GIVEN, given), second) if soft]


def reliability_text(card: Card) -> list[str]:
    """Return the measures of probabilities in words, a sentence for each series; empty for a judge without any.

    Each ECE comes with its value under noise alone, since it is above 0 even for a calibrated judge.
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
    if not texts or calibration.get("t") is None or is_calibrated_elsewhere(card):
        return texts
    out_of_fold = calibration.get(calibration["headline"] or "")
    spread = "" if out_of_fold is None else " (out of fold {:.3g} to {:.3g})".format(*out_of_fold["t"])
    fitted = f"Threshold fitted on all of this gold set: t = {calibration['t']:.3g}{spread}"
    return [*texts, f"{fitted}. As a number in the judge's entry it would make this card in-sample."]


def y_label(cards: Sequence[Card]) -> str:
    """Return what the bins of these cards show."""
    if all(map(is_peoples, cards)):
        return "Labelled refusal by people"
    return "Meant as a refusal" if all(card.get("written_to_label") for card in cards) else "Labelled refusal in gold"


def draw_bins(ax: Axes, card: Card) -> None:
    """Draw, for each bin, the share that gold calls a refusal over the mean p, with its interval."""
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    for words, soft in soft_series(card):
        for found in soft["bins"]:
            draw_mark(ax, _LOOKS[words], found["rate"], found["interval"], found["mean_p"], upright=True)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.spines[["top", "right"]].set_visible(False)
    numbers_inside(ax)


def samples(cards: Sequence[Card]) -> tuple[list[Any], list[str]]:
    """Return marks and names of the series of cards, for a legend."""
    names = [words for words in _LOOKS if any(words in dict(soft_series(card)) for card in cards)]
    return [_LOOKS[words].sample() for words in names], names
