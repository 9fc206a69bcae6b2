"""The figure of steering: refusal rate by the scale of an intervention."""

import itertools
from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import pandas as pd
from pydantic import Field

from refusal_eval.config.figure_entry import MOST_CURVES, READING, SPLITS, OfModels
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.plots.captions import rates_words, study_words
from refusal_eval.plots.curves import Chart, draw_curves, highest, percent_scale
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.report.paper.display import MINUS, headline

_FEWEST = 2  # points of a curve


class DoseResponseFigure(OfModels):
    """Refusal rate by the scale of an intervention, a panel for each split. A curve is of models that differ in nothing
    else; the model without an intervention is its point at scale 0."""

    report: ClassVar[tuple[str, str, str]] = (
        "Steering",
        "Refusal rate by scale",
        "Refusal rate of steered models by the scale of their intervention, with its interval; scale 0 is the model "
        "without one. What a random direction does at the same layers is the control.",
    )
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cards")

    kind: Literal["dose_response"]
    splits: list[Slug] | None = SPLITS
    reading: Literal["strict", "broad"] | None = READING
    models: list[Slug] | None = Field(
        None, min_length=1, description="Models that it shows, with those that are not steered. Default: all."
    )

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one of a study in which a curve has two points at least, unless there are too many to tell apart."""
        found = _drawn(study.curves(study.models))
        return [cls(name="dose_response", kind="dose_response")] if 0 < len(found) <= MOST_CURVES else []

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield that there are no curves, or too many to be told apart."""
        found = _drawn(study.curves(self.shown(study).models))
        if not found:
            message = (
                "`dose_response` needs models that differ in the `scale` of their intervention and in nothing else"
            )
            yield ("kind",), f"{message}, or one and the same model without it (docs/interventions.md)"
        elif len(found) > MOST_CURVES:
            message = f"a panel shows at most {MOST_CURVES} curves, and there are {len(found)}"
            yield ("kind",), f"{message}: name fewer under `models`"

    def draw(self, data: FigureData) -> Drawn:
        """Return a panel of curves for each split.

        Raises:
            UserError: if no curve has two points, or no page is high enough.
        """
        found = _drawn(data.shown.curves)
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
                    rows.append({"curve": label, "scale": scale, **about, **value, "n_prompts": score["n_prompts"]})
        scales = sorted({row["scale"] for row in rows})
        chart = Chart(
            x_label="Scale of the intervention",
            places=[f"{scale:g}".replace("-", MINUS) for scale in scales],
            place=lambda row: scales.index(row["scale"]),
            y_label="Refusal rate (%)",
            y_ticks=percent_scale(highest(rows)),
            at=scales,
            mark=scales.index(0.0) if 0.0 in scales else None,
        )
        words = [
            "Scale 0, at the dashed line, is the model without an intervention."
            if 0.0 in scales
            else "The model without an intervention is not shown.",
            *rates_words(data.scores),
            *study_words(data),
        ]
        title = self.title or "Refusal rate by the scale of the intervention."
        return Drawn(
            draw_curves(rows, chart, data, list(found)), pd.DataFrame(rows, dtype=object), Caption(title, words)
        )


def _drawn(curves: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The curves with two points at least."""
    return {label: scales for label, scales in curves.items() if len(scales) >= _FEWEST}
