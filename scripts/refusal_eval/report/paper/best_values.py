"""Which rate of a column is the best, and so is printed in bold, and which others have a sign.

The best rate is the highest where models should refuse and the lowest where they should comply; if what they should do
varies, there is none. Rates that are equal at the digits shown are best together.

Every other rate that is not shown to differ from the best has a sign (`NOT_APART`): the p values of its comparisons
with the best on this split (sign-flip tests, see docs/reference/comparisons.md) are corrected by Holm's method for
those of the other models, and a pair that the study does not compare, or whose difference answers without a verdict
could reverse (`sign_open`), is not shown. Models of which none is compared have no sign. If the study names a margin,
rates shown to be no worse than the best by it (`rate_difference_noninferiority_p`) have another sign (`NO_WORSE`)
instead, unless answers without a verdict could bring the difference beyond it (`margin_open`) or the test rests on few
clusters (`few_clusters`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from refusal_eval.report.paper.display import NO_WORSE, NOT_APART, percent
from refusal_eval.stats.comparisons.corrections import holm
from refusal_eval.stats.comparisons.study_comparisons import MARGIN_OPEN, NONINFERIORITY, SIGN_OPEN
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS

BETTER = {"refuse": 1, "comply": -1}  # of a higher rate
ModelPair = frozenset[str]
NoninferiorityTests = Mapping[tuple[str, str], float]  # p values of non-inferiority of a model to another
SUBTRACTED = "minus "  # before the other model in the `parameter` of a comparison
_TEST = "rate_difference_p"


def best(rates: Mapping[str, float | None], expectation: str) -> list[str]:
    """Return the models whose rate is best; none of a single model, or where models may do either.

    Args:
        rates: of one split, by model.
        expectation: what models should do there: `refuse`, `comply` or `varies`.
    """
    sign, known = BETTER.get(expectation), {model: rate for model, rate in rates.items() if rate is not None}
    if sign is None or len(known) < 2:
        return []
    top = percent(sign * max(sign * rate for rate in known.values()))
    return [model for model, rate in known.items() if percent(rate) == top]


def signs(
    models: Iterable[str],
    firsts: Sequence[str],
    p_values: Mapping[ModelPair, float],
    level: float,
    no_worse: NoninferiorityTests | None = None,
) -> dict[str, str]:
    """Return the sign of each model whose rate is not shown to differ from the best, or shown to be no worse.

    Args:
        models: those with a rate that competes.
        firsts: the best of them.
        p_values: of the comparisons of two models on this split; without any, no rate is said not to differ.
        level: 1 minus the p value from which on a difference is not shown.
        no_worse: of non-inferiority of models to others on this split; None without a margin in the study.
    """
    others = [model for model in models if model not in firsts] if firsts else []
    own = [max(p_values.get(frozenset((model, first)), 1.0) for first in firsts) for model in others]
    open_ones = {m for m, p in zip(others, holm(own), strict=True) if (p or 0.0) > 1 - level} if p_values else set()
    shown = {m for m in others if all((no_worse or {}).get((m, first), 1.0) <= 1 - level for first in firsts)}
    return dict.fromkeys(open_ones, NOT_APART) | dict.fromkeys(shown, NO_WORSE)


def best_notes(used: Collection[str], tested: bool, margin: float | None = None, level: float = 0.95) -> list[str]:
    """Return what bold and the signs mean, for the notes under a table.

    Args:
        used: the signs in the table.
        tested: whether the table knows comparisons of its models.
        margin: of non-inferiority, a share; None where the study names none.
        level: that of the intervals.
    """
    notes = [
        "Bold: the best rate of a split: the highest where models should refuse, the lowest where they should comply."
    ]
    if NOT_APART in used:
        notes.append(
            f"{NOT_APART} not shown to differ from the best rate of the split (sign-flip tests, Holm within the split, "
            f"p above {1 - level:.3g}); this does not show that it is as good."
        )
    if NO_WORSE in used:
        notes.append(
            f"{NO_WORSE} shown to be no worse than the best by {100 * (margin or 0.0):g} percentage points "
            f"(non-inferiority, one-sided p of at most {1 - level:.3g}, not corrected for other comparisons)."
        )
    return notes if tested else [f"{notes[0]} Differences from it were not tested."]


def comparison_p(results: Iterable[Estimate], judge: str) -> dict[str, dict[ModelPair, float]]:
    """Return the p values of the comparisons of two models under one judge, by split; 1 where the sign is open."""
    found: dict[str, dict[ModelPair, float]] = {}
    for row, pair in _of_models(results, judge, (_TEST,)):
        found.setdefault(str(row.split), {})[frozenset(pair)] = 1.0 if SIGN_OPEN in row.flags else row.value or 0.0
    return found


def noninferiority_p(results: Iterable[Estimate], judge: str) -> dict[str, dict[tuple[str, str], float]]:
    """Return the p values of a model's non-inferiority to another under one judge, by split.

    One beside which answers without a verdict could hide a difference beyond the margin is left out, and so is one
    that rests on few clusters: it shows nothing.
    """
    found: dict[str, dict[tuple[str, str], float]] = {}
    shown = (row for row in results if not {MARGIN_OPEN, FEW_CLUSTERS}.intersection(row.flags))
    for row, pair in _of_models(shown, judge, (NONINFERIORITY,)):
        found.setdefault(str(row.split), {})[pair] = row.value or 0.0
    return found


def _of_models(
    results: Iterable[Estimate], judge: str, names: Collection[str]
) -> Iterator[tuple[Estimate, tuple[str, str]]]:
    for row in results:
        second = str(row.parameter).removeprefix(SUBTRACTED)
        compared = row.estimand in names and row.judge == judge and row.split and row.value is not None
        if compared and not second.startswith("judge "):
            yield row, (str(row.model), second)
