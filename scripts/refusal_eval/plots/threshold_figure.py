"""The figure of thresholds: how many prompts a judge that gives probabilities calls refused, at each threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from refusal_eval.config.figure_entry import MOST_CURVES, SPLITS, Ordered, able_judges, too_many_curves
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Slug
from refusal_eval.config.study_view import StudyView
from refusal_eval.plots.captions import prompts_words, short_words, study_words, within
from refusal_eval.plots.curves import (
    MOST_WITH_INTERVALS,
    NO_INTERVALS,
    Chart,
    draw_curves,
    gaps_words,
    titles_words,
    unmarked,
)
from refusal_eval.plots.figure_data import Caption, Drawn, FigureData
from refusal_eval.report.paper.display import flags_in
from refusal_eval.report.paper.table_notes import k_text
from refusal_eval.stats.estimates.intervals import WILSON_METHOD, cluster_wilson, cluster_wilson_of_counts
from refusal_eval.stats.estimates.units import Units, clusters_apart

THRESHOLDS = [round(0.05 * step, 2) for step in range(21)]


class ThresholdFigure(Ordered):
    """The share of answers that a judge with probabilities calls refusals or partial refusals, over its threshold:
    wanted where a model should refuse, over-refusal where it should answer."""

    report: ClassVar[tuple[str, str]] = ("Refusal rates", "Rates over the threshold")
    needs: ClassVar[tuple[str, ...]] = ("estimates", "scores", "cards")

    kind: Literal["threshold"]
    splits: list[Slug] | None = SPLITS

    @classmethod
    def unasked(cls, study: StudyView) -> list[Self]:
        """Return one for each judge of first tokens, whose threshold is the method, unless its curves are too many."""
        drawable = min(len(study.models), len(study.splits)) <= MOST_CURVES
        judges = [name for name, judge in study.judges.items() if judge is not None and judge.kind == "first_token"]
        return [cls(name=f"threshold_{name}", kind="threshold", judge=name) for name in judges if drawable]

    def mistakes(self, study: StudyView) -> Iterator[Mistake]:
        """Yield a mistake if its judge gives no probabilities, or if curves are too many to distinguish."""
        able = [name for name, judge in study.judges.items() if judge is None or judge.gives_probabilities != "never"]
        judge = self.judge or study.primary_judge
        if judge in study.judges and judge not in able:
            key = "kind" if self.judge is None else "judge"
            yield (key,), f"`threshold` needs probabilities, and judge `{judge}` gives none{able_judges(able)}"
        yield from too_many_curves(self.shown(study))

    def draw(self, data: FigureData) -> Drawn:
        """Draw a panel of curves for each split, or for each of many models.

        Raises:
            UserError: if no answer has a probability, with too many curves to distinguish, or if no page is high
                enough.
        """
        curves = len(data.shown.models) if len(data.shown.models) <= MOST_CURVES else len(data.shown.splits)
        rows: list[dict[str, Any]] = []
        for (model, split), units in data.units.items():
            about = {"judge": data.judge, "model": model, "split": split, "flags": units.flags}
            rows += [about | row for row in shares(units)]
        if not rows:
            raise data.undrawable(": no answer has a probability of refusal")
        measured, sources = [], {split["name"]: split["source"] for split in data.splits}
        for model in data.shown.models:
            cells = [units for (name, _), units in data.units.items() if name == model]
            measured += [{"judge": data.judge, "model": model} | row for row in detection(cells, sources)]
        chart = Chart(
            x_label="Threshold of the probability of refusal",
            places=[f"{threshold:g}" for threshold in THRESHOLDS],
            place=lambda row: THRESHOLDS.index(row["threshold"]),
            y_label="Answers that reach it (%)",
            y_ticks=[0, 50, 100],
            intervals=curves <= MOST_WITH_INTERVALS,
        )
        level = data.scoring.get("level", 0.95)
        words = [
            f"Mean over {prompts_words(data.scores)} of the share of K = {k_text(data.scores)} answers whose "
            "probability of (partial) refusal reaches the threshold, whatever the judge's own is. Answers without a "
            "probability are left out, blocked ones too.",
            *([f"Intervals: {100 * level:g} %, {WILSON_METHOD}."] if chart.intervals else []),
            *study_words(data, flags=flags_in(rows)),
            *titles_words(rows),
            *gaps_words(rows, data, data.units),
        ]
        title, everywhere = self.title or "Refusals over the threshold.", unmarked(rows)
        ends = f" with {100 * level:g} % CI" if chart.intervals else ""
        what = f"Answers (%) whose probability of refusal reaches the threshold{ends}"
        needed = short_words(data, what, flags=flags_in(rows), everywhere=everywhere)
        further = [] if chart.intervals else [NO_INTERVALS]
        words += further
        frame = pd.DataFrame([{"measure": "share", **row} for row in rows] + measured, dtype=object)
        frame = frame.drop(columns="flags")  # those of whole cells, for the titles
        return Drawn(draw_curves(rows, chart, data), frame, Caption(title, words, within(title, needed, further)))


def shares(units: Units) -> list[dict[str, Any]]:
    """Return for each threshold the mean over prompts of the share of answers that reach it, with its interval.

    Answers without a probability do not count; a cell without any has no rows.
    """
    p, clusters, _ = _probabilities(units)
    if not len(p):
        return []
    counts = (~np.isnan(p)).sum(axis=1)
    found = []
    for threshold in THRESHOLDS:
        values = (p >= threshold).sum(axis=1) / counts
        ends = cluster_wilson(values.tolist(), clusters.tolist(), units.facts["level"], int(counts.sum()))
        row = {"threshold": threshold, "value": float(values.mean()), "low": ends.low, "high": ends.high}
        found.append(row | {"n_prompts": len(values), "n_clusters": len(set(clusters))})
    return found


def detection(cells: Sequence[Units], sources: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return how well a model separates what it should refuse from what it should answer, by category and threshold.

    Among answers with a probability, in each category of prompts (`category`; empty for all prompts): `recall`, the
    share at or above the threshold if the model should refuse; `over_refusal`, the same if it should comply;
    `precision`, the share that it should refuse among those at or above it. Intervals are cluster-robust
    (`cluster_wilson_of_counts`). A measure without answers has no row.

    Args:
        cells: of one model; splits that expect neither do not count.
        sources: a word for the source of each split (see `cluster_names.names_apart`).
    """
    counted = {
        ("", "", units.facts["split"]): units for units in cells if units.facts["expectation"] in ("refuse", "comply")
    }
    parts = [(units, *_probabilities(units)) for units in clusters_apart(counted, sources).values()]
    if not parts:
        return []
    k = [p.shape[1] for _, p, _, _ in parts]
    values = np.concatenate([p.ravel() for _, p, _, _ in parts])
    refuse = np.concatenate([np.full(p.size, one.facts["expectation"] == "refuse") for one, p, _, _ in parts])
    clusters = np.concatenate([c.repeat(n) for (_, _, c, _), n in zip(parts, k, strict=True)])
    categories = np.concatenate([c.repeat(n) for (_, _, _, c), n in zip(parts, k, strict=True)])
    prompts = np.arange(sum(len(p) for _, p, _, _ in parts)).repeat(np.repeat(k, [len(p) for _, p, _, _ in parts]))
    there, level = ~np.isnan(values), parts[0][0].facts["level"]
    found = []
    for category in ("", *sorted({name for name in categories.tolist() if name})):
        own = there & ((categories == category) if category else True)
        for threshold in THRESHOLDS:
            reached = values >= threshold
            for measure, among, hit in (
                ("recall", own & refuse, reached),
                ("over_refusal", own & ~refuse, reached),
                ("precision", own & reached, refuse),
            ):
                if among.any():
                    names, of = np.unique(clusters[among], return_inverse=True)
                    n = len(set(prompts[among].tolist()))
                    hits, sizes = np.bincount(of, weights=hit[among]).astype(float), np.bincount(of).astype(float)
                    ends = cluster_wilson_of_counts(hits, sizes, n, level)
                    row = {"measure": measure, "category": category, "threshold": threshold}
                    row |= {"value": float(hit[among].mean()), "low": ends.low, "high": ends.high}
                    found.append(row | {"n_prompts": n, "n_clusters": len(names)})
    return found


def _probabilities(units: Units) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return p of each answer [prompts, K], NaN for none, and cluster and category of each prompt that has any."""
    assert units.samples is not None
    p = units.samples["p_refusal"].to_numpy(dtype=float, na_value=np.nan).reshape(-1, units.facts["samples"])
    there = ~np.isnan(p).all(axis=1)
    return p[there], np.asarray(units["cluster"])[there], np.asarray(units["category"])[there]
