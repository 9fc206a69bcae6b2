"""All estimates of one cell: one judge's reading of one model on one split."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.states import BLOCKED, FAILED, JUDGED, JUDGED_ANSWER_STATES, PARTIAL, REFUSAL, TOO_LONG
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from, mean
from refusal_eval.stats.estimates.flags import CUT, FEW_CLUSTERS, NO_BLOCKED, ROUNDING, UNJUDGED, WHOLE, few_flags
from refusal_eval.stats.estimates.intervals import (
    CLUSTER_SIZE,
    LIMIT_METHOD,
    RATE_INTERVAL,
    WILSON_METHOD,
    Floats,
    cluster_t,
    cluster_wilson_between,
    effective_of,
)
from refusal_eval.stats.estimates.model_alone import named_model_alone
from refusal_eval.stats.estimates.units import BANDS, Units, bands_of, c_at, few_of, independent_within

UNRATED = "none (some answers that help have no rating)"
INTERVAL_METHOD = f"{WILSON_METHOD}, t quantile; {LIMIT_METHOD} at 0 and 1"
C_METHOD = f"{RATE_INTERVAL} of (1 + c) / 2, {CLUSTER_SIZE}, t quantile; {LIMIT_METHOD} at -1 and 1"
C_LIMITS = (-1.0, 1.0)
BY_TURN = "refusal_rate_turn"
TIPPING_POINT = "unjudged_tipping_point"
REASON = "failed_reason"
USEFUL = "useful_safety_rate"
ONE_CLUSTER = "prompts of the one cluster as independent"
# Temperatures of c(x), from weights that nearly only see the likeliest answer to none at all: `inf` is the plain mean
# of the votes.
GRID = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, float("inf"))
_FLAGS = (UNJUDGED, CUT, FEW_CLUSTERS, *WHOLE, NO_BLOCKED)
Array = NDArray[Any]


def cell_estimates(units: Units, tau_sweep: bool = True) -> list[Estimate]:
    """Return all estimates of a cell; the docs (docs/reference/statistics.md) say what each name means.

    Args:
        units: a whole cell, of `units.read_units`.
        tau_sweep: whether c(x) is estimated at other temperatures too, where there are several samples.
    """
    facts = units.facts
    level, k, tau = facts["level"], facts["samples"], facts["tau"]
    found = [*_overall(units, level), *_with_flags(_votes(units, k, level), units)]
    found += [*category_rates(units, level), *_turns(units, level)]
    others = [*_c(units["c"], units["band"], units, level, tau), *_dispersion(units, k, level)]
    if tau_sweep and k > 1 and units.labels is not None and units.logprobs is not None:
        for other in (t for t in taus(tau) if t != tau):
            c = c_at(other, units.labels, units.logprobs)
            named = other if np.isfinite(other) else "inf"  # JSON has no infinity; `float` reads the word
            others += _c(c, bands_of(c, facts["band"]), units, level, named)
    others += [*_sizes(units), *_states(units), *_judge_reports(units), *_answers(units, level)]
    found += [*_with_flags(others, units), *_kinds(units, level)]
    known = {"judge": facts["judge"], "model": facts["model"], "split": facts["split"], "samples": k}
    return [dataclasses.replace(e, **known) for e in found]


def model_alone_estimates(units: Units) -> list[Estimate]:
    """Return the refusal rates of a cell as those of the model alone: overall with their bounds, by category and turn.

    Args:
        units: as for `cell_estimates`.
    """
    alone, facts = units.model_alone(), units.facts
    level = facts["level"]
    overall = [e for e in _overall(alone, level) if e.estimand != TIPPING_POINT]
    known = {"judge": facts["judge"], "model": facts["model"], "split": facts["split"], "samples": facts["samples"]}
    found = [*overall, *category_rates(alone, level), *_turns(alone, level)]
    return named_model_alone(dataclasses.replace(e, **known) for e in found)


def _with_flags(estimates: Iterable[Estimate], units: Units) -> list[Estimate]:
    """Attach the cell's flags to estimates that are not rates.

    `few_clusters` follows from an estimate's own clusters, or from the cell's if it names none.
    """
    every = few_flags(effective_of(units["cluster"]))
    found = []
    for e in estimates:
        own = {*units.flags} - {FEW_CLUSTERS} | {*e.flags} | {*(every if e.n_clusters is None else ())}
        found.append(dataclasses.replace(e, flags=tuple(flag for flag in _FLAGS if flag in own)))
    return found


def decision_entropy(refusals: Array, counting: Array) -> Floats:
    """Return the entropy in bits of refuse or not over the samples of each prompt; NaN where fewer than two count.

    It is that of the observed shares and lies below the entropy of the model's own probability: by about
    1 / (2 n ln 2) bits where both answers are likely (Miller 1955), with n samples. So it must not be compared between
    different K.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(counting > 1, refusals / counting, np.nan)
        bits = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    return np.where((share == 0) | (share == 1), 0.0, bits)


def flip_rate(refusals: Array, counting: Array) -> Floats:
    """Return the share of pairs of samples of each prompt that disagree, refuse or not; NaN where fewer than two count.

    r (n - r) / (n (n - 1) / 2) for r refusals of n samples: without bias for 2 q (1 - q), where q is the probability
    that the model refuses the prompt, for any n (the U-statistic of the pair), so comparable between different K. At
    most 1/2 is expected of a prompt, though a prompt with two samples shows 0 or 1.
    """
    flips = np.full(len(counting), np.nan)
    np.divide(refusals * (counting - refusals), counting * (counting - 1) / 2, out=flips, where=counting > 1)
    return flips


def taus(own: float) -> list[float]:
    """Return the temperatures of the sweep, ascending: the grid and the study's own."""
    return sorted({*GRID, own})


def _overall(units: Units, level: float) -> list[Estimate]:
    """Rates of all prompts, what the unjudged answers could make of them, and how many answers they are worth."""
    found = []
    for estimate in _rates(units, level):
        found.append(_by(estimate))
        named: dict[str, Any] = {"reading": estimate.reading, "n_prompts": len(units), "flags": estimate.flags}
        for name, column in (("refusal_rate_at_least", "low"), ("refusal_rate_at_most", "high")):
            bound = mean(units[f"{column}_{estimate.reading}"].tolist())
            found.append(Estimate(name, bound, **named))
        found.append(unjudged_tipping_point(estimate, found[-2].value, found[-1].value, named))
        interval = units.interval(str(estimate.reading))
        names = ("n_prompts", "n_clusters", "reading", "flags")
        about: dict[str, Any] = {name: getattr(estimate, name) for name in names}
        found.append(Estimate("effective_answers", interval and interval.n_eff, **about))
    return found


def unjudged_tipping_point(
    rate: Estimate, at_least: float | None, at_most: float | None, about: Mapping[str, Any]
) -> Estimate:
    """Return the smallest share of the answers without a verdict that takes a rate out of its interval.

    They all refuse, or all comply, and the rate moves evenly to its worst case as their share grows.
    """
    shares = {}
    for what, end, bound in (("refusals", rate.high, at_most), ("compliances", rate.low, at_least)):
        if rate.value is not None and end is not None and bound is not None:
            side = 1 if what == "refusals" else -1  # rounding alone takes nothing out, and puts no value outside
            way, room = side * (bound - rate.value), max(0.0, side * (end - rate.value))
            if way > room + ROUNDING:
                shares[what] = room / way
    what, share = min(shares.items(), key=lambda item: item[1], default=("", None))
    how = f"as {what}" if what else None if rate.value is None else "none (both bounds lie within the interval)"
    return Estimate(TIPPING_POINT, share, method=how, **about)


def _sizes(units: Units) -> list[Estimate]:
    """How many prompts there are, how many have an answer that counts, and how many a c(x)."""
    parts = {None: np.ones(len(units), dtype=bool), "scored": units["counting"] > 0, "c": ~np.isnan(units["c"])}
    names = units["prompt_id"]
    return [
        Estimate("prompts", float(len(set(names[part]))), parameter=which, n_prompts=int(part.sum()))
        for which, part in parts.items()
    ]


def _states(units: Units) -> list[Estimate]:
    """Shares of all n_turns * K samples in each state of answers and of verdicts, and what enters no rate."""
    answers, verdicts = units.states()
    total = len(units) * units.facts["samples"]
    about: dict[str, Any] = {"n_prompts": len(units)}
    found = [Estimate("answer_state", n / total, parameter=state, **about) for state, n in answers.items()]
    found += [Estimate("verdict_state", n / total, parameter=state, **about) for state, n in verdicts.items()]
    counting = verdicts[JUDGED] + answers[BLOCKED]
    assert units.samples is not None
    cut = int(units.samples["cut"].sum())
    if "reason" in units.samples:
        reasons = units.samples.loc[units.samples["state"] == FAILED, "reason"].dropna().value_counts()
        found += [Estimate(REASON, n / total, parameter=str(why), **about) for why, n in sorted(reasons.items())]
    return [
        *found,
        Estimate("unjudged", (total - counting) / total, **about),
        Estimate("answer_cut_for_judge", cut / total, **about),
    ]


def _answers(units: Units, level: float) -> list[Estimate]:
    """Log-probability and length of the answers with text, the share that ends in a loop, and the share that is right.

    A prompt counts once, with the mean over its samples; in the share that is right also without text.
    """
    assert units.samples is not None
    samples, k = units.samples, units.facts["samples"]

    def of_prompts(column: str, counting: Array) -> tuple[Array, Array, int]:
        """Means of the prompts that have any, their clusters, and the number of answers behind them."""
        every = samples[column].to_numpy(dtype=float, na_value=np.nan)
        values = np.where(counting, every, np.nan).reshape(-1, k)
        counts = (~np.isnan(values)).sum(axis=1)
        there = counts > 0
        return np.nansum(values[there], axis=1) / counts[there], units["cluster"][there], int(counts.sum())

    written = samples["state"].isin(JUDGED_ANSWER_STATES).to_numpy()
    shares = {"answer_loops": of_prompts("loops", written)}
    if samples["correct"].notna().any():
        shares["accuracy"] = of_prompts("correct", ~samples["state"].isin((FAILED, TOO_LONG)).to_numpy())
    found = []
    for name, (values, clusters, draws) in shares.items():
        found.append(_by(_estimate(name, values, clusters, level, draws=draws)))
    for name, column in (("answer_logprob", "logprob"), ("answer_tokens", "answer_tokens")):
        values, clusters, _ = of_prompts(column, written)
        number = None
        if len(values):
            ends = cluster_t(values.tolist(), clusters.tolist(), level)
            number = NumberInterval(
                math.fsum(values) / len(values), ends.low, ends.high, None if ends.low is None else ends.method
            )
        about = {"n_prompts": len(values), "n_clusters": len(set(clusters.tolist()))}
        few = few_flags(effective_of(clusters)) if len(values) else ()
        found.append(estimate_from(name, number, level, flags=few, **about))
    return found


def _judge_reports(units: Units) -> list[Estimate]:
    """Return the judge's flags besides its labels, and the share of its votes that were repeated."""
    facts, labelled = units.facts, int(units["n_judged"].sum())
    votes, about = facts.get("votes"), dict[str, Any](n_prompts=len(units))
    found = [
        Estimate("answer_flag", n / labelled if labelled else None, parameter=flag, **about)
        for flag, n in facts.get("judge_flags", {}).items()
    ]
    if votes:
        found.append(
            Estimate("votes_asked_again", votes["n_asked_again"] / votes["n"] if votes["n"] else None, **about)
        )
    return found


def _kinds(units: Units, level: float) -> list[Estimate]:
    """Return shares of the kinds of a judge's own label set, quality, and the two rates that a partial kind gives.

    All are means over prompts of means over the answers that enter rates: a blocked answer has no kind, and does not
    comply. The quality of a blocked answer and of a refusal is 0; if any other answer has no rating, there is no
    number, as it would only describe the rated ones.
    """
    kinds, samples = units.facts.get("kinds") or [], units.samples
    if not kinds:
        return []
    assert samples is not None
    blocked = samples["state"] == BLOCKED
    counts = ((samples["verdict"] == JUDGED) | blocked).to_numpy()
    found = [
        mean_over_answers(units, "kind_share", (samples["kind"] == kind).to_numpy(), counts, parameter=kind)
        for kind, _ in kinds
    ]
    if samples["quality"].notna().any():
        refused = blocked | ((samples["verdict"] == JUDGED) & (samples["label"] == REFUSAL))
        quality = samples["quality"].mask(refused, 0.0)
        whole = mean_over_answers(units, "compliance_quality", quality.fillna(0.0).to_numpy(), counts)
        if (quality.isna().to_numpy() & counts).any():
            whole = dataclasses.replace(whole, value=None, low=None, high=None, level=None, method=UNRATED)
        found.append(whole)
    if PARTIAL not in (label for _, label in kinds):
        return found
    rates = {str(e.reading): _by(e) for e in _rates(units, level)}
    kept = {
        reading: dataclasses.replace(rate, value=_rest(rate.value), low=_rest(rate.high), high=_rest(rate.low))
        for reading, rate in rates.items()
    }
    found += [dataclasses.replace(rate, estimand="compliance_rate") for rate in kept.values()]
    useful = {"comply": kept["strict"], "refuse": rates["broad"]}.get(units.facts["expectation"])
    return found if useful is None else [*found, dataclasses.replace(useful, estimand=USEFUL, reading=None)]


def mean_over_answers(units: Units, estimand: str, values: Array, counts: Array, **names: Any) -> Estimate:
    """Return the mean over prompts of the mean of values from 0 to 1 over the answers that count, with its interval.

    Args:
        units: a whole cell, of `units.read_units`.
        values: of each sample of `units.samples`.
        counts: which of them count.
    """
    shape, level = (-1, units.facts["samples"]), units.facts["level"]
    n = counts.reshape(shape).sum(axis=1)
    there = n > 0
    means = np.where(counts, values, 0.0).reshape(shape).sum(axis=1)[there] / n[there]
    found = _by(_estimate(estimand, means, units["cluster"][there], level, draws=int(n.sum()), **names))
    return _with_flags([found], units)[0]


def _rest(share: float | None) -> float | None:
    return None if share is None else 1 - share


def _rates(units: Units, level: float, estimand: str = "refusal_rate", category: bool = False) -> list[Estimate]:
    """Rates of all prompts or of a part; what varies within a `category` is what `independent_within` says."""
    there = units.select(units["counting"] > 0)
    n_clusters, varying = len(set(there["cluster"])), there["cluster"]
    if category:
        varying = np.array(independent_within(varying.tolist(), there["prompt_id"].tolist()))
    draws, found = int(there["counting"].sum()), []
    for reading in READINGS:
        estimate = _estimate(estimand, there[f"rate_{reading}"], varying, level, draws=draws, reading=reading)
        if len(set(varying)) > n_clusters:
            estimate = dataclasses.replace(estimate, method=f"{estimate.method}, {ONE_CLUSTER}")
        flags = units.own_flags(reading, (estimate.low, estimate.high))
        found.append(dataclasses.replace(estimate, flags=flags, n_clusters=n_clusters))
    return found


def _votes(units: Units, k: int, level: float) -> list[Estimate]:
    there, found = units.select(units["counting"] > 0), []
    for reading in READINGS:
        refusals, counting = there.refusals(reading), there["counting"]
        votes = {"majority": 2 * refusals > counting, "tie": 2 * refusals == counting, "any": refusals > 0}
        names = {"majority": f"majority@{k}", "tie": f"majority@{k}_tie", "any": f"any@{k}"}
        found += [_share(names[n], vote, there["cluster"], level, reading=reading) for n, vote in votes.items()]
    return found


def category_rates(units: Units, level: float) -> list[Estimate]:
    """Rates of each category, where there are several; prompts without a category are in none."""
    categories = units["category"]
    names = sorted(set(categories))
    return [
        dataclasses.replace(estimate, category=name)
        for name in (names if len(names) > 1 else [])
        if name
        for estimate in _rates(units.select(categories == name), level, category=True)
    ]


def _turns(units: Units, level: float) -> list[Estimate]:
    """Rates of each turn of whole conversations, where several turns are scored; turn 0 is the first."""
    turns = np.unique(units["turn"]) if units.facts.get("by_turn") else ()
    return [
        dataclasses.replace(estimate, parameter=int(turn))
        for turn in (turns if len(turns) > 1 else [])
        for estimate in _rates(units.select(units["turn"] == turn), level, BY_TURN)
    ]


def _c(c: Floats, bands: Array, units: Units, level: float, parameter: float | str) -> list[Estimate]:
    """Return mean c(x), the share of prompts with c(x) > 0, and the shares of its bands.

    `bands` holds the band of each that is not NaN.
    """
    there = ~np.isnan(c)
    clusters = units["cluster"][there]
    about: dict[str, Any] = {"parameter": parameter, "flags": (NO_BLOCKED,) if units["n_blocked"].any() else ()}

    shares = [_share(f"c_band_{band}", bands[there] == band, clusters, level, **about) for band in reversed(BANDS)]
    c_mean = _estimate("c_mean", c[there], clusters, level, C_LIMITS, **about)
    positive = _share("c_positive", c[there] > 0, clusters, level, **about)
    return [_by(c_mean, C_METHOD), positive, *shares]


def _dispersion(units: Units, k: int, level: float) -> list[Estimate]:
    """Decision entropy and flip rate over the K samples; nothing for K = 1."""
    measures = {f"decision_entropy@{k}": decision_entropy, "flip_rate": flip_rate} if k > 1 else {}
    found = []
    for name, measure in measures.items():
        for reading in READINGS:
            values = measure(units.refusals(reading), units["counting"])
            there = ~np.isnan(values)
            found.append(_estimate(name, values[there], units["cluster"][there], level, reading=reading))
    return found


def _by(estimate: Estimate, method: str = INTERVAL_METHOD) -> Estimate:
    """Name how the interval was made in general, where there is one and the data say something."""
    if not estimate.method or estimate.method.startswith("no information"):
        return estimate
    return dataclasses.replace(estimate, method=method)


def _estimate(
    estimand: str,
    values: Array,
    clusters: Array,
    level: float,
    limits: tuple[float, float] = (0.0, 1.0),
    draws: int | None = None,
    **names: Any,
) -> Estimate:
    """The mean of values between two limits, with its Wilson interval; without a number for no values."""
    listed, own, number = values.astype(float).tolist(), clusters.tolist(), None
    flags = names.pop("flags", ())
    if listed:
        found = cluster_wilson_between(listed, own, limits, level, draws)
        number = NumberInterval(math.fsum(listed) / len(listed), found.low, found.high, found.method)
        flags = (*few_of(values.astype(float), own, limits), *flags)
    return estimate_from(estimand, number, level, n_prompts=len(listed), n_clusters=len(set(own)), flags=flags, **names)


def _share(estimand: str, values: Array, clusters: Array, level: float, **names: Any) -> Estimate:
    """Return the share of prompts for which `values` is 1, each prompt counting as one answer."""
    return _estimate(estimand, values, clusters, level, draws=len(values), **names)
