"""Win rates by class of answer, what a refusal costs against compliance, and who takes it how badly: all estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refusal_eval.core.states import LABELS
from refusal_eval.features.battles.battle_rows import (
    LLM,
    PEOPLE,
    PROMPTS,
    BattleRows,
    Keep,
    NameArray,
    baseline_of,
    battles_of,
    clusterings,
)
from refusal_eval.features.battles.log_odds import LENGTH, SEPARATED, log_odds
from refusal_eval.features.battles.moderators import MODERATORS, moderated_log_odds
from refusal_eval.features.battles.similarity import Alike
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
from refusal_eval.stats.estimates.flags import MAX_UNJUDGED, UNJUDGED, derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import Floats, cluster_wilson, effective_of, seed_of
from refusal_eval.stats.estimates.resampling import (
    cluster_codes,
    cluster_sums,
    resample_sums,
    resamples_for,
    with_interval,
)
from refusal_eval.stats.estimates.units import Units, few_of

TIE = 0.5
Statistic = Callable[[Floats, int], Floats]
Contrasts = Mapping[str, Statistic]  # by estimand
LEAST_ANSWERS = 10  # of a class and of the baseline, for a penalty within one category of prompts


def battle_estimates(
    units: Units, prompts: Iterable[Mapping[str, Any]], alike: Mapping[str, Alike], sensitive: Mapping[str, float]
) -> list[Estimate]:
    """Return all estimates of the battles of a scored cell; docs/reference/battles.md says what each is.

    `parameter` is the class of an answer: a label, or `label: kind` where the judge tells kinds. Intervals take prompts
    as independent, and pairs of models too where there are enough; the wider one counts.

    Args:
        prompts, alike, sensitive: as `battles_of` takes them.
    """
    battles, level = battles_of(units, prompts, alike, sensitive), units.facts["level"]
    if not len(battles):
        return []
    lost = (UNJUDGED,) if (len(units) - len(battles)) / len(units) > MAX_UNJUDGED else ()
    known: dict[str, Any] = {name: units.facts[name] for name in ("judge", "model", "split", "samples")}
    found = list(class_estimates(battles, battles.labels, LABELS, level, known))
    kinds = sorted(set(battles.kinds.ravel()) - set(battles.labels.ravel()))
    if kinds:
        found += class_estimates(battles, battles.kinds, kinds, level, known)
    return [replace(one, flags=derived_flags((units.flags, lost), one.flags)) for one in found]


def class_estimates(
    battles: BattleRows, classes: NameArray, names: Sequence[str], level: float, known: Mapping[str, Any]
) -> Iterator[Estimate]:
    """Yield the estimates of these classes, each against the baseline of all."""
    base, labels = baseline_of(classes), classes is battles.labels
    there = [name for name in names if (classes == name).any()]
    others = [name for name in there if name != base]

    def made(
        estimand: str, number: NumberInterval | None, rows: NameArray, parameter: str | None, **more: Any
    ) -> Estimate:
        clusters = battles.clusters[PROMPTS][rows]
        about = {"n_prompts": len(np.unique(rows)), "n_clusters": len(set(clusters))}
        about |= {"flags": few_flags(effective_of(clusters))} | more
        return estimate_from(estimand, number, level, parameter=parameter, **about, **known)

    def rate(estimand: str, values: Floats, rows: NameArray, parameter: str, **more: Any) -> Estimate:
        few = few_of(values, battles.clusters[PROMPTS][rows].tolist())
        return made(estimand, _rate(values, rows, battles, level), rows, parameter, flags=few, **more)

    every, people = np.repeat(np.arange(len(battles)), 2), battles.points[PEOPLE]
    asked = ~np.isnan(battles.points[LLM][:, 0])
    decided = asked & (people[:, 0] != TIE) & (battles.points[LLM][:, 0] != TIE)
    for name in there:
        held = classes == name
        yield rate("battle_share", held.ravel().astype(float), every, name)
        for model in sorted(set(battles.models.ravel())):
            own = battles.models == model
            yield rate("battle_share", held[own].astype(float), np.nonzero(own)[0], name, category=model)
        rows, sides = np.nonzero(held)
        yield rate("battle_wins", (people[rows, sides] == 1).astype(float), rows, name)
        yield rate("battle_points", people[rows, sides], rows, name)
        rows, sides = np.nonzero(held & asked[:, None])
        for estimand, points in (("battle_wins_paired", people), ("battle_wins_llm", battles.points[LLM])):
            if len(rows):
                yield rate(estimand, (points[rows, sides] == 1).astype(float), rows, name)
        rows, sides = np.nonzero(held & (classes[:, ::-1] == base) & (name != base))
        if len(rows):
            yield rate("battle_duels", people[rows, sides], rows, name)
    if not others or not (classes == base).any():
        return

    def contrasts(which: Keep, names: Sequence[str], estimands: Contrasts, **more: Any) -> Iterator[Estimate]:
        """Yield what sets each class apart from the baseline in some battles; the one that is rarer marks it as few."""
        both, own = battles.kept(which), classes[which]
        drawn = _drawn(both, own, [base, *names], str(known["split"]))
        for place, name in enumerate(names, 1):
            sides = [np.nonzero((own == one).any(axis=1))[0] for one in (name, base)]
            few = few_flags(min(effective_of(both.clusters[PROMPTS][rows]) for rows in sides))
            for estimand, statistic in estimands.items():
                number = _number(drawn, statistic, place, both, sides, level)
                yield made(estimand, number, np.nonzero(which)[0][sides[0]], name, flags=few, **more)

    yield from contrasts(
        np.ones(len(battles), dtype=bool), others, {"battle_penalty": _penalty, "battle_ratio": _ratio}
    )
    for which, estimands in (
        (asked, {"battle_penalty_paired": _penalty, "battle_penalty_llm": _penalty_llm}),
        (decided, {"battle_moderation_bias": _bias}),
    ):
        if which.any():
            yield from contrasts(which, others, estimands)
    in_all = sorted(set(classes.ravel()) - {base})
    for controls, estimand in ((False, "battle_log_odds"), (True, "battle_log_odds_controlled")):
        fitted = log_odds(battles, classes, in_all, controls, level)
        for name in (*others, *([LENGTH] if controls and labels else [])):
            differs = (
                (classes[:, 0] == name) != (classes[:, 1] == name) if name != LENGTH else battles.lengths[:, 0] >= 0
            )
            reason = {} if fitted[name] else {"method": SEPARATED}
            yield made(estimand, fitted[name], np.nonzero(differs)[0], name, **reason)
    moderated, told = moderated_log_odds(battles, classes, base, in_all, level)
    for (moderator, name), number in moderated.items():
        if name in there:
            rows = told[(classes[told] == name).any(axis=1)]
            yield made(MODERATORS[moderator][0], number, rows, name, **({} if number else {"method": SEPARATED}))
    categories = sorted(set(battles.categories) - {""})
    for category in categories if labels and len(categories) > 1 else ():
        inside = battles.categories == category
        enough = [name for name in (base, *others) if (classes[inside] == name).sum() >= LEAST_ANSWERS]
        if base in enough and len(enough) > 1:
            yield from contrasts(inside, enough[1:], {"battle_penalty": _penalty}, category=category)


def _rate(values: Floats, rows: NameArray, battles: BattleRows, level: float) -> NumberInterval:
    """The mean of values of answers, in the battles `rows`."""
    found = {
        what: cluster_wilson(values.tolist(), names.tolist(), level, len(values))
        for what, names in clusterings(battles, rows).items()
    }
    value = float(np.mean(values))
    return _widest({what: NumberInterval(value, ends.low, ends.high, ends.method) for what, ends in found.items()})


def _widest(numbers: Mapping[str, NumberInterval]) -> NumberInterval:
    """The number with the wider interval; without one where a clustering gives none."""
    found = [(np.inf if n.low is None or n.high is None else n.high - n.low, what) for what, n in numbers.items()]
    what = max(found, key=lambda one: one[0])[1]
    return numbers[what]._replace(method=numbers[what].method and f"{numbers[what].method}; clusters: {what}")


# ---------------------------------------------------------------- differences of win rates, over resamples


def _drawn(battles: BattleRows, classes: NameArray, compared: Sequence[str], name: str) -> dict[str, Floats]:
    """Return win rates by clustering: observed and in each resample, voters x classes; NaN for a class without answers.

    All voters and classes are drawn alike, so that differences are paired.
    """
    held = classes[:, :, None] == np.array(compared, dtype=object)
    won = np.stack([battles.points[who] == 1 for who in (PEOPLE, LLM)], axis=1)
    values = np.concatenate([held.sum(axis=1)[:, None], np.einsum("bva,bac->bvc", won, held.astype(float))], axis=1)
    found = {}
    for what, names in battles.clusters.items():
        sums = cluster_sums(cluster_codes(names), values)
        drawn = resample_sums(sums, seed_of("battles", what, name), resamples_for(len(sums)))
        both = np.concatenate([sums.sum(axis=0)[None], drawn])
        with np.errstate(divide="ignore", invalid="ignore"):
            found[what] = np.where(both[:, :1] > 0, both[:, 1:] / both[:, :1], np.nan)
    return found


def _penalty(rates: Floats, place: int) -> Floats:
    return np.asarray(rates[:, 0, 0] - rates[:, 0, place])


def _penalty_llm(rates: Floats, place: int) -> Floats:
    return np.asarray(rates[:, 1, 0] - rates[:, 1, place])


def _bias(rates: Floats, place: int) -> Floats:
    return _penalty(rates, place) - _penalty_llm(rates, place)


def _ratio(rates: Floats, place: int) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(rates[:, 0, 0] > 0, rates[:, 0, place] / rates[:, 0, 0], np.nan))


def _number(
    drawn: Mapping[str, Floats],
    statistic: Statistic,
    place: int,
    battles: BattleRows,
    sides: Sequence[NameArray],
    level: float,
) -> NumberInterval | None:
    """A statistic of win rates; without an interval where the class or the baseline always wins, or never, which no
    resample varies. `sides` are the battles with the class, and with the baseline.
    """
    found, voters = {}, [0, 1] if statistic is _bias else [1] if statistic is _penalty_llm else [0]
    clustered = [clusterings(battles, rows) for rows in sides]
    for what in {what: None for one in clustered for what in one}:
        rates = drawn[what]
        value, *_ = statistic(rates[:1], place)
        if not np.isfinite(value):
            return None
        groups = min(len(set(one[what])) for one in clustered if what in one)
        own = rates[0, voters][:, [0, place]]
        known = bool(((own > 0) & (own < 1)).all())
        found[what] = with_interval(float(value), statistic(rates[1:], place), groups if known else 0, level)
    return _widest(found)
