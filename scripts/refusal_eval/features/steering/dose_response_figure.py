"""The figure of steering: refusal rate by the scale of an intervention."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import MOST_CURVES, READING, SPLITS, OfModels, Shown, curves_among
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.features.steering.intervention_entry import MODES, intervention_of
from refusal_eval.plots.captions import rates_words, short_words, study_words, within
from refusal_eval.plots.curves import Chart, draw_curves, gaps_words, highest, percent_scale, titles_words, unmarked
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.report.paper.display import MINUS, flags_in, headline
from refusal_eval.report.paper.table_notes import level_text

if TYPE_CHECKING:
    Mode = str
else:
    Mode = Literal[tuple(MODES)]


ALPHA = "1: the ratio of high quantiles of held-out projections and of c(x), of one sign"


class DoseResponseFigure(OfModels):
    """Refusal rate by the scale of an intervention, a panel for each split. A curve is of models that differ in nothing
    else; the model without an intervention is its point at scale 0."""

    report: ClassVar[tuple[str, str]] = ("Steering", "Refusal rate by scale")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cards")

    kind: Literal["dose_response"]
    mode: Mode = Field(
        "add", description="Mode of the interventions that it shows; scales of different modes have different units."
    )
    alpha: bool = Field(False, description="Show the models whose scale is an `alpha`, in place of the others.")
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] | None = READING
    models: list[Slug] | None = Field(
        None, min_length=1, description="Models that it shows, with those that are not steered. Default: all."
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one for each mode with a swept scale, unless its curves are too many to distinguish."""
        figures = [
            cls(name=f"dose_response_{mode}{'_alpha' * alpha}", kind="dose_response", mode=mode, alpha=alpha)
            for mode in MODES
            for alpha in (False, True)
        ]
        shown = [(figure, figure.shown(study).curves.values()) for figure in figures]
        swept = [figure for figure, curves in shown if any(len(set(curve.values())) > 2 for curve in curves)]
        return [figure for figure in swept if len(figure.shown(study).curves) <= MOST_CURVES]

    def shown(self, study: StudyView) -> Shown:
        """Return what it shows: of steered models those of its mode, whose scales have one unit."""
        entries = study.entries.get("models", {})
        steered = {name: intervention_of(entry) for name, entry in entries.items() if entry.intervention is not None}
        own = (self.mode, self.alpha)
        others = {name for name, asked in steered.items() if asked is None or (asked.mode, asked.in_alpha) != own}
        models = [name for name in self.models or study.models if name not in others]
        whole = super().shown(study)
        found = curves_among(models, study)
        curves = {label: scales for label, scales in found.items() if len(set(scales.values())) > 1}
        return replace(whole, models=models, curves=curves)

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield a mistake if there are no curves, or too many to distinguish."""
        found = self.shown(study).curves
        if not found:
            what = "`alpha`" if self.alpha else "`scale`"
            message = f"`dose_response` needs models of mode `{self.mode}` that differ in {what} and in nothing else"
            why = f"{message}, or one of them and the same without its intervention (docs/how-to/steering.md)"
            yield ("kind",), why
        elif len(found) > MOST_CURVES:
            message = f"a panel shows at most {MOST_CURVES} curves, and there are {len(found)}"
            yield ("kind",), f"{message}: name fewer under `models`"

    def draw(self, data: FigureData) -> Drawn:
        """Return a panel of curves for each split.

        Raises:
            UserError: if no curve has two points, or no page is high enough.
        """
        found = data.shown.curves
        if not found:
            raise data.undrawable(": no models differ in the scale of their intervention only")
        rates = {(score["model"], score["split"]): score for score in data.scores}
        rows = []
        for label, curve in found.items():
            for (model, scale), split in itertools.product(curve.items(), data.shown.splits):
                if (model, split) in rates:
                    score = rates[model, split]
                    rate = headline(score)
                    value = {"value": rate["rate"], "low": rate["low"], "high": rate["high"]}
                    about = {"judge": score["judge"], "model": model, "split": split, "reading": score["headline"]}
                    size = {"n_prompts": score["n_prompts"], "flags": score["flags"]}
                    rows.append({"curve": label, "scale": scale, **about, **value, **size})
        scales = sorted({row["scale"] for row in rows})
        plain = 0.0 in scales and MODES[self.mode].plain_at_0
        chart = Chart(
            x_label="Alpha of the intervention" if self.alpha else "Scale of the intervention",
            places=[f"{scale:g}".replace("-", MINUS) for scale in scales],
            place=lambda row: scales.index(row["scale"]),
            y_label="Refusal rate (%)",
            y_ticks=percent_scale(highest(rows)),
            at=scales,
            mark=scales.index(0.0) if plain else None,
            plain="no intervention" if plain else None,
        )
        unit = f"Alpha of {ALPHA}" if self.alpha else f"Scale of {MODES[self.mode].unit}"
        words = [
            unit + ("; at the dashed line nothing is changed." if plain else "."),
            *rates_words(data.scores, data.labels),
            *study_words(data, flags=flags_in(rows)),
            *titles_words(rows),
            *gaps_words(rows, data),
        ]
        title = self.title or f"Refusal rate by the {'alpha' if self.alpha else 'scale'} of the intervention."
        what = f"Rate (%) with {level_text(data.scores)} CI"
        needed = short_words(data, what, flags=flags_in(rows), everywhere=unmarked(rows))
        short = within(title, needed, [f"Alpha {ALPHA}." if self.alpha else f"Scale {MODES[self.mode].unit}."])
        frame = pd.DataFrame(rows, dtype=object)
        return Drawn(draw_curves(rows, chart, data, list(found)), frame, Caption(title, words, short))
