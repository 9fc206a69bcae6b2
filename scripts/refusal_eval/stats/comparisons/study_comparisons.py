"""What the comparisons of a study come to, and their rows of the results table."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from refusal_eval.stats.comparisons.corrections import CORRECTIONS, ESTIMANDS, corrected
from refusal_eval.stats.comparisons.effects import Effects, effects
from refusal_eval.stats.comparisons.paired import Paired, Panel, paired_differences, panel_of, repeated
from refusal_eval.stats.comparisons.sign_flips import EXACT, MID
from refusal_eval.stats.estimates.estimands import MIXED
from refusal_eval.stats.estimates.estimate import Estimate, Number, estimated, p_value
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS, ROUNDING, derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.stats.estimates.units import Units
from refusal_eval.study.comparison_families import MODELS, Cell, Family, Scope

NONINFERIORITY = "rate_difference_noninferiority_p"
SIGN_OPEN = "sign_open"  # the worst-case bounds of a difference hold 0, so that unjudged answers could reverse it
MARGIN_OPEN = "margin_open"  # they go beyond the margin, so that unjudged answers could bring a difference beyond it


Pairs = Sequence[Sequence[Mapping[str, Any]]]  # near-duplicate prompts two by two, see `paired.repeated`
Study = Mapping[str, Any]


def compared(
    families: Sequence[Family], cells: Mapping[Cell, Units], study: Study, duplicates: Pairs
) -> list[dict[str, Any]]:
    """Return a row per comparison, in the order of the families, their scopes, what is held, and their pairs.

    A row has `family` (its number from 0 on), `kind`, `held`, `first`, `second`, `split` or `pool`, `splits`, `counted`
    (those of `splits` with prompts that no other one has already), `reading` (`headline` where the splits have
    different ones), what `paired.Paired`, `effects.Effects` and `paired_flags` have, `noninferior_first_p` and
    `noninferior_second_p` (of either side being worse by the margin, see `_sides_p`), the corrected p or q under the
    name of its `Correction`, and McNemar's test of one decision per prompt (`decision`: what it is, `only_first`,
    `only_second`, `mcnemar_p`, `mcnemar_mid`), None where prompts share clusters, or are pooled, or both sides have
    a decision on none. The flags are those of the comparison's own cells, also for what is corrected, in which the
    p values of the whole family have a part. `effect_flags`, of odds ratio, h and tests against the margin, are those
    and `few_clusters` where few clusters of a side show the rarer outcome.

    Args:
        cells: each cell that they need.
        study: `samples`, `level`, `margin` (of equivalence, see `effects.effects`), `p_values` (`mid` where tests that
            count all patterns give mid-p values), `correction` (one of `CORRECTIONS`), and of `splits` the `name`,
            `expectation`, `reading` and `source` (see `cluster_names.names_apart`).
        duplicates: of those in a pool one counts.
    """
    rows: list[dict[str, Any]] = []
    for number, family in enumerate(families):
        own = [
            {"family": number, **row}
            for scope in family.scopes
            for held in family.held
            for row in _rows(family, scope, held, cells, study, duplicates)
        ]
        column = CORRECTIONS[study["correction"]].column
        for row, value in zip(own, corrected([row["p"] for row in own], study["correction"]), strict=True):
            rows.append(row | {column: value})
    return rows


def estimates(rows: Iterable[Mapping[str, Any]], study: Study) -> list[Estimate]:
    """Return the rows of the results table: of each comparison the difference, its bounds, effect sizes and p values.

    `parameter` names the side that is subtracted, and the splits where a family pools other ones than all of an
    expectation; of a comparison of judges, `judge` is the first one. What two families compare alike is there once,
    with a corrected p value for each. `study` is that of `compared`.
    """
    found: list[Estimate] = []
    for row in rows:
        models = row["kind"] == MODELS
        about: dict[str, Any] = {
            "judge": row["held"] if models else row["first"],
            "model": row["first"] if models else row["held"],
            "split": row["split"],
            "pool": row["pool"],
            "reading": row["reading"],
            "samples": study["samples"],
            "n_prompts": row["n"],
            "n_clusters": row["n_clusters"],
            "parameter": _subtracted(row, study),
            "flags": tuple(row["flags"]),
        }
        of_difference = {"low": row["low"], "high": row["high"], "method": row["method"]}
        of_difference |= {"level": None if row["low"] is None else study["level"]}
        found.append(Estimate("rate_difference", row["difference"], **of_difference, **about))
        share, how = tipping_point(row["difference"], row["bound_low"], row["bound_high"])
        of_all = about | {"n_prompts": row["n_all"]}
        found.append(Estimate("rate_difference_tipping_point", share, method=how, **of_all))
        bounds = {"low": row["bound_low"], "high": row["bound_high"], "method": "worst cases of unjudged answers"}
        found.append(Estimate("rate_bounds", None, **bounds, **of_all))
        test = None if row["p"] is None else f"sign flips over clusters, {row['test']}"
        found.append(Estimate("rate_difference_p", row["p"], method=test, **about))
        for name, correction in CORRECTIONS.items():
            if correction.column in row:
                found.append(Estimate(ESTIMANDS[name], row[correction.column], method=test, **about))
        found += _effect_estimates(row, about, study)
        if row["mcnemar_p"] is not None:
            own = about | {"n_prompts": row["only_first"] + row["only_second"]}
            kind = MID if row["mcnemar_mid"] else EXACT
            found.append(Estimate("mcnemar_p", row["mcnemar_p"], method=f"{kind}, of {row['decision']}", **own))
    return list(dict.fromkeys(found))


def paired_flags(first: Iterable[Sequence[str]], second: Iterable[Sequence[str]], result: Paired) -> dict[str, Any]:
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


def _effect_estimates(row: Mapping[str, Any], about: dict[str, Any], study: Study) -> Iterator[Estimate]:
    level, margin, method = study["level"], study["margin"], "delta method on the log scale over clusters"
    about = about | {"flags": tuple(row["effect_flags"])}
    odds = Number(row["odds_ratio"], row["odds_ratio_low"], row["odds_ratio_high"], method)
    yield estimated("odds_ratio", odds, level, **about)
    yield Estimate("cohens_h", row["cohens_h"], **about)
    if margin is None:
        return
    if is_margin_open(row["bound_low"], row["bound_high"], margin):
        about = about | {"flags": (*about["flags"], MARGIN_OPEN)}
    method = f"t over clusters with two added prompts in each split, margin {margin:g}"
    adjusted = Number(row["adjusted_difference"], row["adjusted_low"], row["adjusted_high"], method)
    yield estimated("rate_difference_adjusted", adjusted, 2 * level - 1, **about)
    yield Estimate("rate_difference_equivalence_p", row["equivalence_p"], method=method, **about)
    yield Estimate(NONINFERIORITY, row["noninferior_first_p"], method=method, **about)
    side = "model" if row["kind"] == MODELS else "judge"
    turned = {side: row["second"], "parameter": _subtracted({**row, "second": row["first"]}, study)}
    yield Estimate(NONINFERIORITY, row["noninferior_second_p"], method=method, **about | turned)


def _sides_p(family: Family, scope: Scope, expectations: Mapping[str, str], found: Effects) -> dict[str, float | None]:
    """The p values of either side being worse by the margin; where no direction is better, of its rate being lower."""
    fewer_is_better = family.kind == MODELS and {expectations.get(split) for split in scope.splits} == {"comply"}
    first, second = found.not_lower_p, found.not_higher_p
    first, second = (second, first) if fewer_is_better else (first, second)
    return {"noninferior_first_p": first, "noninferior_second_p": second}


def _rows(
    family: Family, scope: Scope, held: str, cells: Mapping[Cell, Units], study: Study, duplicates: Pairs
) -> list[dict[str, Any]]:
    sides, mid = family.sides(), study["p_values"] == "mid"
    all_readings, sources, expectations = (
        {split["name"]: split[key] for split in study["splits"]} for key in ("reading", "source", "expectation")
    )
    frames = {split: [cells[family.cell(held, side, split)].frame for side in sides] for split in scope.splits}
    panel = panel_of(frames, all_readings, repeated(duplicates, scope.splits), sources)
    pairs = [(sides.index(first), sides.index(second)) for first, second in family.pairs]
    found = paired_differences(panel, pairs, [f"{family.kind}, {held}, {scope.name}", *sides], study["level"], mid=mid)
    readings = {all_readings[split] for split in scope.splits}
    reading = readings.pop() if len(readings) == 1 else MIXED
    there = set(panel.units.get_level_values(0))  # a split may be left out whole, as near-duplicates of another
    counted = [split for split in scope.splits if split in there]
    flags = [[cells[family.cell(held, side, split)].flags for split in counted] for side in sides]
    rows = []
    for (one, other), result in zip(pairs, found, strict=True):
        row: dict[str, Any] = {"kind": family.kind, "held": held, "first": sides[one], "second": sides[other]}
        row |= {"split": None if scope.pool else scope.splits[0], "pool": scope.pool, "splits": list(scope.splits)}
        row |= {"counted": counted, "reading": reading} | paired_flags(flags[one], flags[other], result)
        effect = effects(panel, one, other, study["level"], study["margin"])
        row |= dataclasses.asdict(result) | dataclasses.asdict(effect)
        row["effect_flags"] = [*row["flags"], *([FEW_CLUSTERS] if row.pop("few") else [])]
        row["effect_flags"] = list(dict.fromkeys(row["effect_flags"]))
        row |= _sides_p(family, scope, expectations, effect)
        rows.append(row | _decisions(panel, one, other, scope, study["samples"], mid))
    return rows


def _subtracted(row: Mapping[str, Any], study: Study) -> str:
    side = row["second"] if row["kind"] == MODELS else f"judge {row['second']}"
    every = sorted(split["name"] for split in study["splits"] if split["expectation"] == row["pool"])
    others = row["pool"] and sorted(row["splits"]) != every
    return f"minus {side}" + (f", on {', '.join(row['splits'])}" if others else "")


def _decisions(panel: Panel, one: int, other: int, scope: Scope, samples: int, mid: bool) -> dict[str, Any]:
    """McNemar's test: it takes prompts for independent, so it is for one split whose prompts share no clusters."""
    names = ("decision", "only_first", "only_second", "mcnemar_p", "mcnemar_mid")
    if scope.pool or len(np.unique(panel.clusters)) < len(panel.units):
        return dict.fromkeys(names)
    first, second = panel.votes[:, one], panel.votes[:, other]
    if np.isnan(first + second).all():  # a p of 1 would say that the sides were seen to agree
        return dict.fromkeys(names)
    decision = "the answer" if samples == 1 else f"majority@{samples}"
    return dict(zip(names, (decision, *mcnemar(first, second, mid), mid), strict=True))
