"""What the comparisons of a study come to, and their rows of the results table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from refusal_eval.stats.comparisons.corrections import ESTIMANDS, correct_p_values
from refusal_eval.stats.comparisons.effects import Effects, effects
from refusal_eval.stats.comparisons.paired import Paired, PairedPanel, paired_differences, panel_of, repeated_prompts
from refusal_eval.stats.comparisons.sign_flips import EXACT, MID
from refusal_eval.stats.estimates.estimands import MIXED
from refusal_eval.stats.estimates.estimate import Estimate, p_value
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS, ROUNDING, Ends, derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.stats.estimates.units import JudgedCell, Units
from refusal_eval.study.comparison_families import MODELS, Family, Scope

SIGN_FLIPS, OF_DECISION = (
    "sign flips over clusters, ",
    ", of ",
)  # before the test, and before the decision that it is of
NONINFERIORITY = "rate_difference_noninferiority_p"
SIGN_OPEN = "sign_open"  # the worst-case bounds of a difference hold 0, so that unjudged answers could reverse it
MARGIN_OPEN = "margin_open"  # they go beyond the margin, so that unjudged answers could bring a difference beyond it


Pairs = Sequence[Sequence[Mapping[str, Any]]]  # near-duplicate prompts two by two, see `paired.repeated`
StudyFacts = Mapping[str, Any]


class Decisions(NamedTuple):
    """McNemar's test of one decision per prompt."""

    decision: str  # what it is
    only_first: int  # prompts that only the first side refuses
    only_second: int
    p: float


class Compared(NamedTuple):
    """One comparison of a family, before its p value is corrected."""

    about: dict[str, Any]  # the columns that its rows share, other than flags
    turned: dict[str, Any]  # those that differ in rows about the other side
    result: Paired
    effect: Effects
    flags: Mapping[str, Sequence[str]]  # see `paired_flags`
    sides_p: tuple[float | None, float | None]  # see `_sides_p`
    decisions: Decisions | None


def compare_families(
    families: Sequence[Family], cells: Mapping[JudgedCell, Units], study: StudyFacts, duplicates: Pairs
) -> list[Estimate]:
    """Return the rows of the results table about each comparison, family by family.

    They are its difference, the rates of both sides on the prompts that it is over, its bounds, effect sizes, p values,
    how many clusters differ, and McNemar's test of one decision per prompt, where prompts neither share clusters nor
    are pooled, and both sides have a decision on some. `row_names` says how they are found. What two families compare
    alike is there once, but with a corrected p value, or q, for each, in the order of the families.

    The flags are those of the comparison's own cells, also for what is corrected, in which the p values of the whole
    family have a part; of either rate, those of its side. Odds ratio, h and tests against the margin have
    `few_clusters` too where few clusters of a side show the rarer outcome.

    Args:
        cells: each cell that they need.
        study: `samples`, `level`, `margin` (of equivalence, see `effects.effects`), `p_values` (`mid` where tests that
            count all patterns give mid-p values), `correction` (one of `CORRECTIONS`), and of `splits` the `name`,
            `expectation`, `reading` and `source` (see `cluster_names.names_apart`).
        duplicates: of those in a pool one counts.
    """
    found: list[Estimate] = []
    for family in families:
        own = [
            one
            for scope in family.scopes
            for held in family.held
            for one in _compare(family, scope, held, cells, study, duplicates)
        ]
        adjusted = correct_p_values([one.result.p for one in own], study["correction"])
        for one, p in zip(own, adjusted, strict=True):
            found += _estimates(one, p, study)
    for_each = set(ESTIMANDS.values())
    once = dict.fromkeys(row for row in found if row.estimand not in for_each)
    return [*once, *(row for row in found if row.estimand in for_each)]


def row_names(
    family: Family, scope: Scope, held: str, pair: tuple[str, str], splits: Sequence[Mapping[str, Any]]
) -> dict[str, str | None]:
    """Return what names a comparison in the results table: `judge`, `model`, `split`, `pool` and `parameter`.

    The parameter names the side that is subtracted, and the splits where a family pools other ones than all of an
    expectation; of a comparison of judges, `judge` is the first one.

    Args:
        splits: of the study, each `name` and `expectation`.
    """
    models = family.kind == MODELS
    every = sorted(split["name"] for split in splits if split["expectation"] == scope.pool)
    others = scope.pool and sorted(scope.splits) != every
    return {
        "judge": held if models else pair[0],
        "model": pair[0] if models else held,
        "split": None if scope.pool else scope.splits[0],
        "pool": scope.pool,
        "parameter": f"minus {'' if models else 'judge '}{pair[1]}"
        + (f", on {', '.join(scope.splits)}" * bool(others)),
    }


def counted_splits(
    families: Sequence[Family], cells: Mapping[JudgedCell, Units], duplicates: Pairs
) -> dict[str, list[str]]:
    """Return, for each pooled scope, the splits with prompts that none of its other splits has."""
    found = {}
    for family in families:
        for scope in (scope for scope in family.scopes if scope.pool):
            gone, side = repeated_prompts(duplicates, scope.splits), family.sides()[0]
            names = {split: cells[family.cell(family.held[0], side, split)]["prompt_id"] for split in scope.splits}
            left = [split for split, own in names.items() if any((split, name) not in gone for name in own)]
            found[scope.name] = left or list(scope.splits)
    return found


def _estimates(one: Compared, adjusted: float | None, study: StudyFacts) -> Iterator[Estimate]:
    result, about = one.result, one.about | {"flags": tuple(one.flags["flags"])}
    level = None if result.low is None else study["level"]
    yield Estimate("rate_difference", result.difference, result.low, result.high, level, result.method, **about)
    yield Estimate("rate_difference_first", result.rate_first, **one.about, flags=tuple(one.flags["flags_first"]))
    yield Estimate("rate_difference_second", result.rate_second, **one.about, flags=tuple(one.flags["flags_second"]))
    yield Estimate("rate_difference_clusters", float(result.n_differ), **about)
    share, how = tipping_point(result.difference, result.bound_low, result.bound_high)
    of_all = about | {"n_prompts": result.n_all}
    yield Estimate("rate_difference_tipping_point", share, method=how, **of_all)
    how = "worst cases of unjudged answers"
    yield Estimate("rate_bounds", None, result.bound_low, result.bound_high, method=how, **of_all)
    test = None if result.p is None else f"{SIGN_FLIPS}{result.test}"
    yield Estimate("rate_difference_p", result.p, method=test, **about)
    yield Estimate(ESTIMANDS[study["correction"]], adjusted, method=test, **about)
    yield from _effect_estimates(one, study)
    if one.decisions is not None:
        decision, only_first, only_second, p = one.decisions
        own = about | {"n_prompts": only_first + only_second}
        kind = MID if study["p_values"] == "mid" else EXACT
        yield Estimate("mcnemar_p", p, method=f"{kind}{OF_DECISION}{decision}", **own)
        yield Estimate("mcnemar_first", float(only_first), **own)
        yield Estimate("mcnemar_second", float(only_second), **own)


def paired_flags(
    first: Iterable[Sequence[str]], second: Iterable[Sequence[str]], result: Paired
) -> dict[str, list[str]]:
    """Return the flags of both sides (`flags_first`, `flags_second`) and of all that is made of them (`flags`).

    `few_clusters` is among the last where there is a difference and one of the splits has few, and `sign_open` where
    the worst-case bounds hold 0. `first` and `second` are
    the flags of the cells of either side.
    """
    one, two = derived_flags(first), derived_flags(second)
    own = () if result.difference is None else few_flags(result.effective_clusters)
    own += (SIGN_OPEN,) if is_sign_open(result) else ()
    return {"flags_first": list(one), "flags_second": list(two), "flags": list(derived_flags((one, two), own))}


def is_sign_open(result: Paired) -> bool:
    """Tell whether answers without a verdict could turn a difference around, or make it vanish.

    A difference of 0 has no sign.
    """
    low, high = result.bound_low, result.bound_high
    if result.difference is None or abs(result.difference) < ROUNDING or low is None or high is None:
        return False
    return high - low > ROUNDING and low <= ROUNDING and high >= -ROUNDING


def is_margin_open(low: float | None, high: float | None, margin: float) -> bool:
    """Tell whether answers without a verdict, with these worst-case bounds, could bring it to a margin or beyond."""
    if low is None or high is None or high - low <= ROUNDING:
        return False
    return low <= ROUNDING - margin or high >= margin - ROUNDING


def tipping_point(difference: float | None, low: float | None, high: float | None) -> tuple[float | None, str | None]:
    """Return the share of the answers without a verdict that makes a difference vanish, and how it was counted.

    These count against the difference: as compliances of the side that refuses more, and as refusals of the other. It
    moves evenly to its worst case as their share grows. None where even all of them leave it its sign.

    Args:
        difference: of the judged answers.
        low: of it in the worst cases.
        high: of it in the worst cases.
    """
    if difference is None or abs(difference) < ROUNDING or low is None or high is None:
        return None, None
    worst = low if difference > 0 else high
    if abs(worst) < ROUNDING:
        worst = 0.0
    if worst * difference > 0:
        return None, "none (the worst cases have the same sign)"
    return difference / (difference - worst), "unjudged answers counted against the difference"


def mcnemar(first: Floats, second: Floats, mid: bool = False) -> tuple[int, int, float]:
    """Return on how many prompts only the first side refuses, only the second, and the p that both are as likely.

    McNemar's exact two-sided test (binomial) of decisions 1 (refuses) and 0; NaN is none and is left out. With `mid`,
    what was seen counts half (Fagerland, Lydersen and Laake 2013, BMC Medical Research Methodology 13:91).
    """

    only = [int(((one == 1) & (other == 0)).sum()) for one, other in ((first, second), (second, first))]
    if only[0] == only[1]:
        return only[0], only[1], 1.0
    p = float(scipy.stats.binomtest(only[0], sum(only)).pvalue)
    half = float(scipy.stats.binom.pmf(only[0], sum(only), 0.5)) if mid else 0.0
    return only[0], only[1], p_value(p - half)


def _effect_estimates(one: Compared, study: StudyFacts) -> Iterator[Estimate]:
    effect, result = one.effect, one.result
    level, margin, method = study["level"], study["margin"], "delta method on the log scale over clusters"
    flags = tuple(dict.fromkeys((*one.flags["flags"], *([FEW_CLUSTERS] if effect.few else []))))
    about = one.about | {"flags": flags}
    ends = effect.odds_ratio_low, effect.odds_ratio_high
    yield _with_ends("odds_ratio", effect.odds_ratio, ends, level, method, about)
    yield Estimate("cohens_h", effect.cohens_h, **about)
    if margin is None:
        return
    if is_margin_open(result.bound_low, result.bound_high, margin):
        about = about | {"flags": (*flags, MARGIN_OPEN)}
    method = f"t over clusters with two added prompts in each split, margin {margin:g}"
    ends = effect.adjusted_low, effect.adjusted_high
    yield _with_ends("rate_difference_adjusted", effect.adjusted_difference, ends, 2 * level - 1, method, about)
    yield Estimate("rate_difference_equivalence_p", effect.equivalence_p, method=method, **about)
    first, second = one.sides_p
    yield Estimate(NONINFERIORITY, first, method=method, **about)
    yield Estimate(NONINFERIORITY, second, method=method, **about | one.turned)


def _with_ends(
    estimand: str, value: float | None, ends: Ends, level: float, method: str, about: Mapping[str, Any]
) -> Estimate:
    if ends[0] is None:
        return Estimate(estimand, value, **about)
    return Estimate(estimand, value, *ends, level, method, **about)


def _sides_p(
    family: Family, scope: Scope, expectations: Mapping[str, str], found: Effects
) -> tuple[float | None, float | None]:
    """The p values of either side being worse by the margin; where no direction is better, of its rate being lower."""
    fewer_is_better = family.kind == MODELS and {expectations.get(split) for split in scope.splits} == {"comply"}
    first, second = found.not_lower_p, found.not_higher_p
    return (second, first) if fewer_is_better else (first, second)


def _compare(
    family: Family, scope: Scope, held: str, cells: Mapping[JudgedCell, Units], study: StudyFacts, duplicates: Pairs
) -> Iterator[Compared]:
    sides, mid = family.sides(), study["p_values"] == "mid"
    all_readings, sources, expectations = (
        {split["name"]: split[key] for split in study["splits"]} for key in ("reading", "source", "expectation")
    )
    frames = {split: [cells[family.cell(held, side, split)].frame for side in sides] for split in scope.splits}
    panel = panel_of(frames, all_readings, repeated_prompts(duplicates, scope.splits), sources)
    pairs = [(sides.index(first), sides.index(second)) for first, second in family.pairs]
    found = paired_differences(panel, pairs, [f"{family.kind}, {held}, {scope.name}", *sides], study["level"], mid=mid)
    readings = {all_readings[split] for split in scope.splits}
    there = set(panel.units.get_level_values(0))  # a split may be left out whole, as near-duplicates of another
    flags = [
        [cells[family.cell(held, side, split)].flags for split in scope.splits if split in there] for side in sides
    ]
    of_all = {"reading": readings.pop() if len(readings) == 1 else MIXED, "samples": study["samples"]}
    for pair, (one, other), result in zip(family.pairs, pairs, found, strict=True):
        effect = effects(panel, one, other, study["level"], study["margin"])
        size = {"n_prompts": result.n, "n_clusters": result.n_clusters}
        yield Compared(
            row_names(family, scope, held, pair, study["splits"]) | of_all | size,
            row_names(family, scope, held, pair[::-1], study["splits"]),
            result,
            effect,
            paired_flags(flags[one], flags[other], result),
            _sides_p(family, scope, expectations, effect),
            _decisions(panel, one, other, scope, study["samples"], mid),
        )


def _decisions(panel: PairedPanel, one: int, other: int, scope: Scope, samples: int, mid: bool) -> Decisions | None:
    """McNemar's test: it takes prompts for independent, so it is for one split whose prompts share no clusters."""
    if scope.pool or len(np.unique(panel.clusters)) < len(panel.units):
        return None
    first, second = panel.votes[:, one], panel.votes[:, other]
    if np.isnan(first + second).all():  # a p of 1 would say that the sides were seen to agree
        return None
    return Decisions("the answer" if samples == 1 else f"majority@{samples}", *mcnemar(first, second, mid))
