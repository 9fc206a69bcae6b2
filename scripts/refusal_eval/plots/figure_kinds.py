"""Every kind of figure, by the word for it in a study's `figures`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from refusal_eval.plots.categories_figure import category_forest
from refusal_eval.plots.figure_sources import Sources
from refusal_eval.plots.heatmap_figure import rate_heatmap
from refusal_eval.plots.histograms_figure import c_histograms
from refusal_eval.plots.judges_figures import calibration, judges_agree
from refusal_eval.plots.plot import Drawn, Plot
from refusal_eval.plots.refusal_kinds_figure import stacked_kinds
from refusal_eval.plots.tau_sweep_figure import tau_sweep
from refusal_eval.plots.tradeoff_figure import trade_off_figure
from refusal_eval.plots.turns_figure import refusal_by_turn

Draw = Callable[[Sources, Plot, Mapping[str, float]], Drawn]


def _heatmap(found: Sources, plot: Plot, _: Mapping[str, float]) -> Drawn:
    return rate_heatmap(found.scores, found.cards, plot)


def _histograms(found: Sources, plot: Plot, scoring: Mapping[str, float]) -> Drawn:
    votes = found.votes(plot.judge, plot.models, plot.splits)
    return c_histograms(found.scores, votes, scoring["band"], found.cards, plot)


def _tradeoff(found: Sources, plot: Plot, _: Mapping[str, float]) -> Drawn:
    return trade_off_figure(found.scores, found.tradeoff, found.cards, plot)


def _refusal_kinds(found: Sources, plot: Plot, _: Mapping[str, float]) -> Drawn:
    counts = found.kinds(plot.judge, plot.models, plot.splits, str(plot.reading))
    return stacked_kinds(found.scores, counts, found.cards, plot)


def _categories(found: Sources, plot: Plot, _: Mapping[str, float]) -> Drawn:
    return category_forest(found.scores, found.estimates, found.cards, plot)


def _tau_sweep(found: Sources, plot: Plot, scoring: Mapping[str, float]) -> Drawn:
    return tau_sweep(found.scores, found.estimates, scoring, found.cards, plot)


def _turns(found: Sources, plot: Plot, _: Mapping[str, float]) -> Drawn:
    return refusal_by_turn(found.scores, found.estimates, found.cards, plot)


def _judge_agreement(found: Sources, plot: Plot, _: Mapping[str, float]) -> Drawn:
    return judges_agree(found.agreement, plot)


def _calibration(found: Sources, plot: Plot, _: Mapping[str, float]) -> Drawn:
    return calibration(found.cards, plot)


KINDS: Mapping[str, Draw] = {
    "heatmap": _heatmap,
    "histograms": _histograms,
    "tradeoff": _tradeoff,
    "refusal_kinds": _refusal_kinds,
    "categories": _categories,
    "tau_sweep": _tau_sweep,
    "turns": _turns,
    "judge_agreement": _judge_agreement,
    "calibration": _calibration,
}
