"""The figure of what the temperature of c(x) does."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import MOST_CURVES, SPLITS, Ordered, too_many_curves
from refusal_eval.config.problems import Mistake
from refusal_eval.config.protocol import DEFAULT
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.plots.captions import prompts_words, short_words, study_words, within
from refusal_eval.plots.curves import (
    MOST_WITH_INTERVALS,
    NO_INTERVALS,
    Chart,
    draw_curves,
    gaps_words,
    highest,
    percent_scale,
    titles_words,
    unmarked,
)
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData, ResultRow
from refusal_eval.report.paper.display import flags_in
from refusal_eval.report.paper.table_notes import c_notes, k_text

# measure: estimand, name of the vertical axis, words of the caption
_MEASURES = {
    "mean": ("c_mean", "Mean c(x)", "Mean over {prompts} of c(x)"),
    "refusing": ("c_band_refusing", "Prompts refusing (%)", "Share of {prompts} with c(x) above {band:g}"),
    "mixed": ("c_band_mixed", "Prompts mixed (%)", "Share of {prompts} with |c(x)| at most {band:g}"),
    "complying": ("c_band_complying", "Prompts complying (%)", "Share of {prompts} with c(x) below \u2212{band:g}"),
}
_DODGE = 0.1


class TauSweepFigure(Ordered):
    """What the temperature tau of c(x) does: c(x), or the share of one of its bands, over a range of tau."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "c(x) over tau")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cards")

    kind: Literal["tau_sweep"]
    splits: list[Slug] | None = SPLITS
    measure: Literal["mean", "refusing", "mixed", "complying"] = Field(
        "mean", description="`mean` of c(x) over prompts, or the share of prompts in that band."
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one if c(x) depends on tau, unless its curves are too many to distinguish."""
        drawable = min(len(study.models), len(study.splits)) <= MOST_CURVES
        wanted = study.samples > 1 and study.protocol == DEFAULT and drawable and study.has_c
        return [cls(name="tau_sweep", kind="tau_sweep")] if wanted else []

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield a mistake if c(x) does not depend on tau, or if curves are too many to distinguish."""
        here = ("kind",)
        if study.samples == 1:
            yield here, "`tau_sweep` needs several answers per prompt: with `samples: 1` c(x) does not depend on tau"
        if study.protocol != DEFAULT:
            yield here, f"`tau_sweep` is not for `protocol: {study.protocol}`, whose c(x) has a tau of its own"
        yield from too_many_curves(self.shown(study))

    def draw(self, data: FigureData) -> Drawn:
        """Draw the mean of c(x), or the share of prompts in one of its bands, over tau; the study's own is marked.

        Raises:
            UserError: without such estimates, with too many curves to distinguish, or if no page is high enough.
        """
        (name, y_label, _), own = _MEASURES[self.measure], data.scoring["tau"]
        found = [
            row
            for row in data.estimates
            if (row["estimand"], row["category"]) == (name, None) and row["parameter"] is not None
        ]
        if not found:
            raise data.undrawable(f": there are no estimates of {name} over tau to draw")
        taus = sorted({_tau_of(row["parameter"]) for row in found})
        curves = len(data.shown.models) if len(data.shown.models) <= MOST_CURVES else len(data.shown.splits)
        intervals = curves <= MOST_WITH_INTERVALS
        mean = self.measure == "mean"
        chart = Chart(
            x_label="Temperature \u03c4 of the weights",
            places=["\u221e" if math.isinf(tau) else f"{tau:g}" for tau in taus],
            place=lambda row: taus.index(_tau_of(row["parameter"])),
            y_label=y_label,
            y_ticks=_c_ticks(found) if mean else percent_scale(highest(found, intervals)),
            factor=1 if mean else 100,
            mark=taus.index(own) if own in taus else None,
            intervals=intervals,
            dodge=_DODGE,
        )
        names = ["judge", "model", "split", "estimand", "parameter", "value", "low", "high", "flags"]
        frame = pd.DataFrame(found, columns=names, dtype=object).rename(columns={"parameter": "tau"})
        frame = frame.sort_values(
            ["model", "split", "tau"], key=lambda column: column.map(_tau_of) if column.name == "tau" else column
        )
        return Drawn(draw_curves(found, chart, data), frame, self._caption(found, intervals, data))

    def _caption(self, found: Sequence[ResultRow], intervals: bool, data: FigureData) -> Caption:
        band, tau = (data.scoring[name] for name in ("band", "tau"))
        what = _MEASURES[self.measure][2].format(band=band, prompts=prompts_words(data.scores))
        words = [
            f"{what}, the vote of K = {k_text(data.scores)} answers weighted by the softmax of their mean "
            "log-probability over \u03c4; at \u221e all answers weigh the same.",
            f"Dashed line: \u03c4 = {tau:g}, that of the study.",
            *c_notes(data.scores),
        ]
        methods = sorted({str(row["method"]) for row in found if row["method"]})
        levels = sorted({row["level"] for row in found if row["level"]})
        if intervals and methods:
            words.append(f"Intervals: {' or '.join(f'{100 * x:g} %' for x in levels)}, {'; '.join(methods)}.")
        if not intervals:
            words.append(NO_INTERVALS)
        title = "c(x)" if self.measure == "mean" else "The bands of c(x)"
        words += [*study_words(data, flags=flags_in(found)), *titles_words(found), *gaps_words(found, data)]
        title = self.title or f"{title} at other temperatures of its weights."
        unit = " (%)" if self.measure != "mean" else ""
        named = {"mean": "Mean of c(x)"}.get(self.measure, f"Prompts {self.measure}{unit}")
        with_ends = f" with {' or '.join(f'{100 * x:g} %' for x in levels)} CI" if intervals and levels else ""
        everywhere = unmarked(found)
        needed = short_words(data, f"{named}{with_ends}", flags=flags_in(found), everywhere=everywhere)
        further = [f"Dashed: \u03c4 = {tau:g}, the study's.", *([] if intervals else [NO_INTERVALS])]
        return Caption(title, words, within(title, needed, further))


def _tau_of(parameter: Any) -> float:
    """Return the temperature that a row's parameter names; infinity means equal weights."""
    return math.inf if parameter in ("inf", "infinity") else float(parameter)


def _c_ticks(rows: Sequence[ResultRow]) -> list[float]:
    """Ticks that hold all means and ends of intervals, at steps of a half or a whole."""
    values = [row[name] for row in rows for name in ("value", "low", "high") if row[name] is not None]
    low = max(-1.0, math.floor(2 * min(values, default=-1.0)) / 2)
    high = min(1.0, math.ceil(2 * max(values, default=1.0)) / 2)
    high = max(high, low + 0.5) if low < 1 else 1.0
    low = min(low, high - 0.5)
    return [low + 0.5 * i for i in range(round((high - low) / 0.5) + 1)]
