"""The figure of thresholds: how many prompts a judge that gives probabilities calls refused, at each threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from refusal_eval.config.figure_entry import MOST_CURVES, SPLITS, Ordered, able_judges, too_many_curves
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.plots.captions import k_text, study_words
from refusal_eval.plots.curves import Chart, draw_curves
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.stats.estimates.intervals import cluster_wilson
from refusal_eval.stats.estimates.units import Units

THRESHOLDS = [round(0.05 * step, 2) for step in range(21)]
_MOST_WITH_INTERVALS = 3  # curves in a panel


class ThresholdFigure(Ordered):
    """The share of answers that a judge with probabilities calls refusals or partial refusals, over its threshold:
    safety where a model should refuse, over-refusal where it should answer."""

    report: ClassVar[tuple[str, str, str]] = (
        "Refusal rates",
        "Refusal rate over the threshold",
        "What the choice of a judge's threshold does: the share of answers whose probability of refusal reaches it.",
    )
    needs: ClassVar[tuple[str, ...]] = ("estimates", "cells", "cards")

    kind: Literal["threshold"]
    splits: list[Slug] | None = SPLITS

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one for each judge of first tokens, whose threshold is the method, unless its curves are too many."""
        drawable = min(len(study.models), len(study.splits)) <= MOST_CURVES
        judges = [name for name, judge in study.judges.items() if judge is not None and judge.kind == "first_token"]
        return [cls(name=f"threshold_{name}", kind="threshold", judge=name) for name in judges if drawable]

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield that its judge gives no probabilities, and that curves could not be told apart."""
        able = [name for name, judge in study.judges.items() if judge is None or judge.gives_probabilities != "never"]
        judge = self.judge or study.primary_judge
        if judge in study.judges and judge not in able:
            key = "kind" if self.judge is None else "judge"
            yield (key,), f"`threshold` needs probabilities, and judge `{judge}` gives none{able_judges(able)}"
        yield from too_many_curves(self.shown(study))

    def draw(self, data: FigureData) -> Drawn:
        """Return a panel of curves for each split, or for each of many models.

        Raises:
            UserError: if no answer has a probability, with more curves than can be told apart, or where no page is high
                enough.
        """
        curves = len(data.shown.models) if len(data.shown.models) <= MOST_CURVES else len(data.shown.splits)
        rows: list[dict[str, Any]] = []
        for (model, split), units in data.units.items():
            about = {"judge": data.judge, "model": model, "split": split}
            rows += [about | row for row in shares(units)]
        if not rows:
            raise data.undrawable(": no answer has a probability of refusal")
        chart = Chart(
            x_label="Threshold of the probability of refusal",
            places=[f"{threshold:g}" for threshold in THRESHOLDS],
            place=lambda row: THRESHOLDS.index(row["threshold"]),
            y_label="Answers that reach it (%)",
            y_ticks=[0, 50, 100],
            intervals=curves <= _MOST_WITH_INTERVALS,
        )
        level = data.scoring.get("level", 0.95)
        words = [
            f"Mean over prompts of the share of K = {k_text(data.scores)} answers whose probability of (partial) "
            "refusal reaches the threshold, whatever the judge's own is. Answers without a probability are left out, "
            "blocked ones too.",
            *([f"Intervals: {100 * level:g} %, Wilson, cluster-robust effective size."] if chart.intervals else []),
            *study_words(data),
        ]
        frame = pd.DataFrame(rows, dtype=object)
        return Drawn(
            draw_curves(rows, chart, data), frame, Caption(self.title or "Refusals over the threshold.", words)
        )


def shares(units: Units) -> list[dict[str, Any]]:
    """Return for each threshold the mean over prompts of the share of answers that reach it, with its interval.

    Answers without a probability do not count; a cell without any has no rows.
    """
    assert units.samples is not None
    k = units.facts["samples"]
    p = units.samples["p_refusal"].to_numpy(dtype=float, na_value=np.nan).reshape(-1, k)
    there = ~np.isnan(p).all(axis=1)
    if not there.any():
        return []
    p, clusters = p[there], units["cluster"][there].tolist()
    counts = (~np.isnan(p)).sum(axis=1)
    found = []
    for threshold in THRESHOLDS:
        values = (p >= threshold).sum(axis=1) / counts
        ends = cluster_wilson(values.tolist(), clusters, units.facts["level"], int(counts.sum()))
        row = {"threshold": threshold, "value": float(values.mean()), "low": ends.low, "high": ends.high}
        found.append(row | {"n_prompts": len(values), "n_clusters": len(set(clusters))})
    return found
