"""The figure of dialogues: refusal rate by turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from refusal_eval.core.errors import UserError
from refusal_eval.plots.captions import cell_words, judge_words, rates_words
from refusal_eval.plots.curves import Chart, Point, draw_curves, in_panels
from refusal_eval.plots.plot import Caption, Drawn, Plot, chosen_scores, models_in_order
from refusal_eval.plots.shown_estimates import Row, chosen_rows, highest, percent_scale
from refusal_eval.plots.tags import protocol_tag
from refusal_eval.report.paper.display import Score
from refusal_eval.report.paper.frames import Card

ESTIMAND = "refusal_rate_turn"


def refusal_by_turn(scores: Sequence[Score], rows: Iterable[Row], cards: Iterable[Card], plot: Plot) -> Drawn:
    """Refusal rate of each scored turn of dialogues, in the headline reading of each split or the one asked for.

    Args:
        scores: the study's.
        rows: its estimates; their `parameter` is the number of the turn, from 0.
        cards: of the judge.
        plot: what is asked.

    Raises:
        UserError: without such estimates, with more curves than can be told apart, or where no page is high enough.
    """
    chosen = chosen_scores(scores, plot)
    readings = {score["split"]: score["headline"] for score in chosen}
    found = [
        row
        for row in chosen_rows(rows, estimand=ESTIMAND, judge=plot.judge, model=plot.models, split=plot.splits)
        if row["reading"] == readings.get(row["split"]) and row["parameter"] is not None and row["category"] is None
    ]
    if not found:
        raise UserError(f"figure `{plot.name}`: there are no estimates by turn to draw")
    turns = sorted({int(row["parameter"]) for row in found})
    models = models_in_order(chosen, plot)
    points: dict[tuple[str, str], list[Point]] = {}
    for row in sorted(found, key=lambda row: int(row["parameter"])):
        if row["value"] is not None:
            low, high = (None if end is None else 100 * end for end in (row["low"], row["high"]))
            point = Point(turns.index(int(row["parameter"])), 100 * row["value"], low, high)
            points.setdefault((row["model"], row["split"]), []).append(point)
    chart = Chart(
        x_label="Turn",
        places=[str(turn + 1) for turn in turns],
        y_label="Refusal rate (%)",
        y_ticks=percent_scale(highest(found)),
        tag=protocol_tag(chosen),
    )
    titles, curves, names = in_panels(points, chosen, models, plot)
    fig = draw_curves(titles, curves, names, chart, plot)
    return Drawn(fig, _frame(found), _caption(chosen, cards, plot))


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    kept = [
        {name: row[name] for name in ("judge", "model", "split", "reading")}
        | {"turn": int(row["parameter"]) + 1}
        | {name: row[name] for name in ("value", "low", "high", "n_prompts", "n_clusters")}
        for row in rows
    ]
    return pd.DataFrame(kept, dtype=object).sort_values(["model", "split", "turn"])


def _caption(scores: Sequence[Score], cards: Iterable[Card], plot: Plot) -> Caption:
    words = [
        *rates_words(scores),
        *judge_words(scores, cards, plot.labels),
        *cell_words(scores, plot.splits, plot.labels),
    ]
    return Caption(plot.title or "Refusal rate by turn of the dialogues.", words)
