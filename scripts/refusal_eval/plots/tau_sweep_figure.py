"""The figure of what the temperature of c(x) does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from refusal_eval.core.errors import UserError
from refusal_eval.plots.captions import cell_words, judge_words
from refusal_eval.plots.curves import Chart, Point, draw_curves, in_panels
from refusal_eval.plots.plot import Caption, Drawn, Plot, chosen_scores, models_in_order
from refusal_eval.plots.series import MOST
from refusal_eval.plots.shown_estimates import Row, chosen_rows, highest, percent_scale, tau_of, tau_text
from refusal_eval.plots.tags import protocol_tag
from refusal_eval.report.paper.display import Score
from refusal_eval.report.paper.frames import Card

_ESTIMANDS = {
    "mean": "c_mean",
    "refusing": "c_band_refusing",
    "mixed": "c_band_mixed",
    "complying": "c_band_complying",
}
_WORDS = {
    "mean": "Mean c(x)",
    "refusing": "Prompts refusing (%)",
    "mixed": "Prompts mixed (%)",
    "complying": "Prompts complying (%)",
}
_MOST_WITH_INTERVALS = 3  # curves in a panel


def tau_sweep(
    scores: Sequence[Score], rows: Iterable[Row], scoring: Mapping[str, float], cards: Iterable[Card], plot: Plot
) -> Drawn:
    """The mean of c(x), or the share of prompts in one of its bands, over tau; the study's own tau is marked.

    Args:
        scores: the study's.
        rows: its estimates.
        scoring: `tau` and `band` of the study.
        cards: of the judge.
        plot: what is asked; its `measure` is `mean` or a band.

    Raises:
        UserError: without such estimates, with more curves than can be told apart, or where no page is high enough.
    """
    chosen = chosen_scores(scores, plot)
    measure = plot.options["measure"]
    wanted = {"estimand": _ESTIMANDS[measure], "judge": plot.judge, "model": plot.models, "split": plot.splits}
    found = [row for row in chosen_rows(rows, **wanted, category=None) if row["parameter"] is not None]
    if not found:
        raise UserError(f"figure `{plot.name}`: there are no estimates of {_ESTIMANDS[measure]} over tau to draw")
    taus = sorted({tau_of(row["parameter"]) for row in found})
    models = models_in_order(chosen, plot)
    points: dict[tuple[str, str], list[Point]] = {}
    factor = 1 if measure == "mean" else 100
    for row in sorted(found, key=lambda row: tau_of(row["parameter"])):
        if row["value"] is None:
            continue
        ends = [None if end is None else factor * end for end in (row["low"], row["high"])]
        point = Point(taus.index(tau_of(row["parameter"])), factor * row["value"], ends[0], ends[1])
        points.setdefault((row["model"], row["split"]), []).append(point)
    curves_in_panel = len(models) if len(models) <= MOST else len(plot.splits)
    intervals = curves_in_panel <= _MOST_WITH_INTERVALS
    chart = Chart(
        x_label="Temperature \u03c4 of the weights",
        places=[tau_text(tau) for tau in taus],
        y_label=_WORDS[measure],
        y_ticks=_c_ticks(found) if measure == "mean" else percent_scale(highest(found, intervals)),
        mark=taus.index(scoring["tau"]) if scoring["tau"] in taus else None,
        intervals=intervals,
        tag=protocol_tag(chosen),
    )
    titles, curves, names = in_panels(points, chosen, models, plot)
    fig = draw_curves(titles, curves, names, chart, plot)
    return Drawn(fig, _frame(found), _caption(chosen, cards, scoring, intervals and found, plot))


def _c_ticks(rows: Sequence[Row]) -> list[float]:
    """Ticks that hold all means and ends of intervals, at steps of a half or a whole."""
    values = [row[name] for row in rows for name in ("value", "low", "high") if row[name] is not None]
    low = max(-1.0, math.floor(2 * min(values, default=-1.0)) / 2)
    high = min(1.0, math.ceil(2 * max(values, default=1.0)) / 2)
    high = max(high, low + 0.5) if low < 1 else 1.0
    low = min(low, high - 0.5)
    return [low + 0.5 * i for i in range(round((high - low) / 0.5) + 1)]


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    names = ("judge", "model", "split", "estimand", "parameter", "value", "low", "high")
    kept = [{"tau" if name == "parameter" else name: row[name] for name in names} for row in rows]
    return pd.DataFrame(kept, dtype=object).sort_values(
        ["model", "split", "tau"], key=lambda column: column.map(lambda v: tau_of(v) if column.name == "tau" else v)
    )


def _caption(
    scores: Sequence[Score], cards: Iterable[Card], scoring: Mapping[str, float], shown: object, plot: Plot
) -> Caption:
    sizes = " or ".join(str(k) for k in sorted({score["samples"] for score in scores}))
    measure = plot.options["measure"]
    what = {
        "mean": "Mean over prompts of c(x)",
        "refusing": f"Share of prompts with c(x) above {scoring['band']:g}",
        "mixed": f"Share of prompts with |c(x)| at most {scoring['band']:g}",
        "complying": f"Share of prompts with c(x) below \u2212{scoring['band']:g}",
    }[measure]
    words = [
        f"{what}, the vote of K = {sizes} answers weighted by the softmax of their mean log-probability over "
        "\u03c4; at \u221e all answers weigh the same.",
        f"Dashed line: \u03c4 = {scoring['tau']:g}, that of the study.",
    ]
    rows = shown if isinstance(shown, list) else []
    methods = sorted({str(row["method"]) for row in rows if row["method"]})
    levels = sorted({row["level"] for row in rows if row["level"]})
    if methods:
        words.append(f"Intervals: {' or '.join(f'{100 * x:g} %' for x in levels)}, {'; '.join(methods)}.")
    words += [*judge_words(scores, cards, plot.labels), *cell_words(scores, plot.splits, plot.labels)]
    title = "c(x)" if measure == "mean" else "The bands of c(x)"
    return Caption(plot.title or f"{title} at other temperatures of its weights.", words)
