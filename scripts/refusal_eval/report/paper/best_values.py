"""Which rates of a column are the best, and so are printed in bold.

The best rate is the highest where models should refuse and the lowest where they should comply; if what they should do
varies, there is none. If the study names a margin, also in bold are all rates that are shown to be no worse than it by
that margin (`rate_difference_noninferiority_p`), unless answers without a verdict could bring the difference beyond it
(`margin_open`) or the test rests on few clusters (`few_clusters`). Without a margin they are those that are not
distinguishable from it: they look the same at the digits shown, or the comparison of the two models (see
docs/reference/comparisons.md) has a corrected p or q of at least 1 minus the level, or, where there is none that rests
on enough clusters, their intervals overlap. That a difference was not found does not show that there is none.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from refusal_eval.report.paper.display import percent
from refusal_eval.stats.comparisons.corrections import ESTIMANDS
from refusal_eval.stats.comparisons.study_comparisons import MARGIN_OPEN, NONINFERIORITY
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS

BETTER = {"refuse": 1, "comply": -1}  # of a higher rate
ModelPair = frozenset[str]
NoninferiorityTests = Mapping[tuple[str, str], float]  # p values of non-inferiority of a model to another
SUBTRACTED = "minus "  # before the other model in the `parameter` of a comparison


class RateInterval(NamedTuple):
    """A rate with its interval; None for what is not known."""

    value: float | None
    low: float | None
    high: float | None


def best(
    column: Mapping[str, RateInterval],
    expectation: str,
    p_values: Mapping[ModelPair, float],
    level: float,
    noninferiority: NoninferiorityTests | None = None,
) -> set[str]:
    """Return the models whose rate is best, no worse than the best, or indistinguishable from it; none of a single
    model.

    Args:
        column: the rates of one split, by model.
        expectation: what models should do there: `refuse`, `comply` or `varies`.
        p_values: corrected p or q values of the comparisons of two models on this split.
        noninferiority: of models to others on this split; None without a margin in the study.
    """
    sign, known = BETTER.get(expectation), {model: rate for model, rate in column.items() if rate.value is not None}
    if sign is None or len(known) < 2:
        return set()
    top = max(sign * (rate.value or 0.0) for rate in known.values())
    firsts = [model for model, rate in known.items() if sign * (rate.value or 0.0) == top]
    if noninferiority is not None:
        shown = {m for m in known if all(noninferiority.get((m, first), 1.0) <= 1 - level for first in firsts)}
        return shown | set(firsts)
    return {model for model in known if any(_is_tied(known, model, first, p_values, level) for first in firsts)}


def ties_note(tested: bool, margin: float | None = None, level: float = 0.95) -> str:
    """Return how the best rates of a table were found, for the note under it.

    Args:
        tested: whether the table knows comparisons of its models.
        margin: of non-inferiority, a share; None where the study names none.
    """
    which = "The best is the highest where models should refuse, the lowest where they should comply."
    if margin is not None:
        return (
            f"Bold: the best rate and all that are shown to be no worse than it by {100 * margin:g} percentage points "
            f"(non-inferiority, one-sided p of at most {1 - level:.3g}, not corrected for other comparisons), unless "
            f"answers without a verdict could bring the difference beyond this margin or it rests on few clusters. "
            f"{which}"
        )
    how = "corrected p or q of their comparison, else intervals that overlap" if tested else "intervals that overlap"
    return (
        f"Bold: the best rate and all that are not distinguishable from it ({how}) or round to the same number. This "
        f"does not show that they are as good. {which}"
    )


def _is_tied(
    rates: Mapping[str, RateInterval], model: str, first: str, p_values: Mapping[ModelPair, float], level: float
) -> bool:
    a, b = rates[model], rates[first]
    if model == first or percent(a.value) == percent(b.value):
        return True
    p = p_values.get(frozenset((model, first)))
    if p is not None:
        return p >= 1 - level
    if None in (*a, *b):
        return False
    return bool(a.low <= b.high and b.low <= a.high)  # type: ignore[operator]


def corrected_p(results: Iterable[Estimate], judge: str) -> dict[str, dict[ModelPair, float]]:
    """Return the corrected p or q values of the comparisons of two models under one judge, by split.

    If two families compare a pair in opposite orders, the larger one counts. Values that rest on few clusters are left
    out.
    """
    found: dict[str, dict[ModelPair, float]] = {}
    shown = (row for row in results if FEW_CLUSTERS not in row.flags)
    for split, pair, value in _of_models(shown, judge, ESTIMANDS.values()):
        own, models = found.setdefault(split, {}), frozenset(pair)
        own[models] = max(value, own.get(models, 0.0))
    return found


def noninferiority_p(results: Iterable[Estimate], judge: str) -> dict[str, dict[tuple[str, str], float]]:
    """Return the p values of a model's non-inferiority to another under one judge, by split.

    One beside which answers without a verdict could hide a difference beyond the margin is left out, and so is one
    that rests on few clusters: it shows nothing.
    """
    found: dict[str, dict[tuple[str, str], float]] = {}
    shown = (row for row in results if not {MARGIN_OPEN, FEW_CLUSTERS}.intersection(row.flags))
    for split, pair, value in _of_models(shown, judge, (NONINFERIORITY,)):
        found.setdefault(split, {})[pair] = value
    return found


def _of_models(
    results: Iterable[Estimate], judge: str, names: Collection[str]
) -> Iterator[tuple[str, tuple[str, str], float]]:
    for row in results:
        second = str(row.parameter).removeprefix(SUBTRACTED)
        compared = row.estimand in names and row.judge == judge and row.split and row.value is not None
        if compared and not second.startswith("judge "):
            yield str(row.split), (str(row.model), second), row.value or 0.0
