"""Corrected rates of a study: of every model on every split, and pooled over the splits of an expectation."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.features.corrected import ppi, transfer
from refusal_eval.features.corrected.peoples_labels import LabelledCell, join_labels, never_drawn
from refusal_eval.stats.comparisons.corrections import holm
from refusal_eval.stats.estimates.estimands import MIXED, READINGS
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS, MIN_RARER, ROUNDING, derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import effective_of, seed_of
from refusal_eval.stats.estimates.near_duplicates import PromptPlace, without_duplicates
from refusal_eval.stats.estimates.pooled_rates import SplitRates, study_rates
from refusal_eval.stats.estimates.units import Units, clusters_apart, splits_of_turns
from refusal_eval.study.comparison_families import Scope

TRANSFER, PPI = "refusal_rate_rg_transfer", "refusal_rate_ppi"
UNCLIPPED, BY_MODEL = f"{TRANSFER}_unclipped", f"{TRANSFER}_by_model"
LABELS, UNDRAWN, LEARNED = "ppi_labels", "ppi_undrawn_answers", "ppi_learned_labels"
NO_HEADLINE, AT_ODDS, NOT_IDENTIFIABLE, TOO_FEW = (
    "not_headline",
    "at_odds_with_gold",
    "not_identifiable",
    "too_few_labels",
)


def scopes(splits: Sequence[Mapping[str, str]]) -> list[Scope]:
    """Return all splits, then the pool of each expectation with several.

    Args:
        splits: each `name` and `expectation`.
    """
    found = [Scope((split["name"],), None) for split in splits]
    for expectation in sorted(HEADLINE_READING):
        own = sorted(split["name"] for split in splits if split["expectation"] == expectation)
        found += [Scope(tuple(own), expectation)] if len(own) > 1 else []
    return found


def study_corrected(
    units: Mapping[tuple[str, str, str], Units],
    study: Mapping[str, Any],
    gold: Mapping[tuple[str, str], pd.DataFrame],
    labels: Mapping[tuple[str, str, str], LabelledCell],
    left_out: Collection[PromptPlace] = (),
    elsewhere: Mapping[tuple[str, str], int] | None = None,
) -> dict[str, Any]:
    """Return the content of the analysis' file: `estimates`, and

    turns       splits of which scored turns are counted, and not prompts
    unlabelled  [judge, model, pool, splits] of pools without a rate by labels, as labels of some splits would have to
                stand for these
    unchecked   [model, split] of labels that do not say what they were drawn from

    The estimates are, by judge, scope (a split, or the pool of an expectation) and model,

    - by gold set, the rate by `transfer.transferred` (flagged with why there is none), its value before it is brought
      between its limits, and that under each answering model's own sensitivity and specificity. `few_clusters` is among
      the flags where the study (a split of a pool) or the gold set has few;
    - where there are labels, the rate by `ppi.corrected_rate`, how many texts people labelled, and by split (the
      parameter) how many answers came or changed after the sample was drawn, and how many labelled ones the judge has
      learned from. There is no rate with either, with too few labels, or where some splits of a pool have none: the
      flags say which. `few_clusters` is among them where few clusters (of a split of a pool) have labels, or, where
      prompts share clusters, labels of the rarer class;
    - differences of two such rates, first minus second in alphabetical order, with p, and p corrected for all under the
      judge; the flags are those of both rates;
    - what of this a pool lacks, and why (`method`): a split without an answer that counts, or, of rates by transfer,
      splits with different headline readings.

    They are also how far answering models of each gold set differ, and how many labels are of what the study lacks.

    Args:
        units: the scored prompts of each (judge, model, split).
        study: `judges`, `models`, `splits` (each `name`, `expectation`, `reading`, `source`), `samples` and `level`.
        gold: of each (judge, gold set) `transfer.judged_gold`.
        labels: labels of people on this study's answers, by (judge, model, split).
        left_out: near-duplicates of prompts that count, not to be counted where splits are pooled.
        elsewhere: number of labels of each (model, split) that the study does not have.
    """
    found = [
        Estimate("labels_elsewhere", float(number), model=model, split=split)
        for (model, split), number in (elsewhere or {}).items()
    ]
    unlabelled: list[list[Any]] = []
    turns = splits_of_turns(units)
    units = clusters_apart(units, {split["name"]: split["source"] for split in study["splits"]})
    once = without_duplicates(units, left_out)
    for judge in study["judges"]:
        errors = _errors({name: rows for (j, name), rows in gold.items() if j == judge})
        found += _spreads(errors, judge, gold_flags(study, judge))
        of_all, of_pools = (study_rates(cells, judge, study) for cells in (units, once))
        differences: list[tuple[dict[str, Any], ppi.CorrectedDifference]] = []
        for scope in scopes(study["splits"]):
            cells, known = (once, of_pools) if scope.pool else (units, of_all)
            rates = [known[split] for split in scope.splits if split in known]
            readings = {of_all[split].reading for split in scope.splits}
            names = {"judge": judge, "split": None if scope.pool else scope.splits[0], "pool": scope.pool}
            names |= {"reading": readings.pop() if len(readings) == 1 else MIXED, "samples": study["samples"]}
            common = names["reading"]
            used = {name: of for (name, reading), of in errors.items() if reading == common}
            found += _transfer(rates, names, study, used, gold_flags(study, judge))
            if scope.pool:
                golds = dict.fromkeys(name for name, reading in errors if common in (reading, MIXED))
                found += _missing_transfer(rates, names, study, golds)
                found += _missing_ppi(cells, scope, names, study, labels)
            rated: dict[str, Rated] = {}
            found += _ppi(cells, scope, names, study, labels, rated, unlabelled)
            differences += _differences(rated, names, study["level"])
        found += _difference_estimates(differences, study["level"])
    unchecked = sorted({(m, split) for (_, m, split), own in labels.items() if own.people and own.drawn_from is None})
    return {
        "estimates": [estimate.row() for estimate in found],
        "turns": turns,
        "unlabelled": unlabelled,
        "unchecked": [list(cell) for cell in unchecked],
    }


def _errors(gold: Mapping[str, pd.DataFrame]) -> dict[tuple[str, str], transfer.ErrorRates]:
    found = {}
    for name in sorted(gold):
        for reading in READINGS:
            rates = transfer.error_rates(gold[name], reading, seed_of("corrected gold", name))
            if rates is not None:
                found[name, reading] = rates
    return found


def _spreads(
    errors: Mapping[tuple[str, str], transfer.ErrorRates], judge: str, of_gold: Mapping[str, Sequence[str]]
) -> Iterator[Estimate]:
    for (gold, reading), found in errors.items():
        about: dict[str, Any] = {"judge": judge, "parameter": gold, "reading": reading}
        about |= {"n_prompts": found.n, "n_clusters": found.n_clusters, "flags": tuple(of_gold.get(gold, ()))}
        for name, spread in zip(("sensitivity", "specificity"), found.spread or (), strict=False):
            yield Estimate(f"judge_{name}_spread", spread, **about)


def _transfer(
    splits: Sequence[SplitRates],
    names: Mapping[str, Any],
    study: Mapping[str, Any],
    errors: Mapping[str, transfer.ErrorRates],
    of_gold: Mapping[str, Sequence[str]],
) -> Iterator[Estimate]:
    if not errors or not splits:
        return
    observed_rates = transfer.observed_rates(splits, study["level"])
    for i, (model, observed) in enumerate(zip(study["models"], observed_rates, strict=True)):
        if observed is None:
            continue
        few_here = {flag for part in splits for flag in part.few(i)}
        cells = [part.flags[i] for part in splits]
        for gold, found in errors.items():
            rate = transfer.transfer_rate(observed, found, study["level"])
            few = set() if rate.value is None else few_here | {*few_flags(found.effective_clusters)}
            flags = derived_flags(cells, [*of_gold.get(gold, ()), *few])
            about: dict[str, Any] = {**names, "model": model, "parameter": gold}
            about |= {"n_prompts": observed.n_prompts, "n_clusters": observed.n_clusters}
            why = () if rate.value is not None else (AT_ODDS,) if rate.at_odds else (NOT_IDENTIFIABLE,)
            number = None
            if rate.value is not None:
                number = NumberInterval(rate.value, rate.low, rate.high, transfer.method_of(found.spread))
            yield estimate_from(TRANSFER, number, study["level"], **about, flags=(NO_HEADLINE, *why, *flags))
            about["flags"] = (NO_HEADLINE, *flags)
            yield Estimate(UNCLIPPED, rate.unclipped, **about)
            for own in found.by_model:
                yield Estimate(BY_MODEL, _under(observed, own), **about, category=own["answering_model"])


def gold_flags(study: Mapping[str, Any], judge: str) -> dict[str, list[str]]:
    """Return, by gold set, the flags that its labels and the judge's use of it put on every number made from both."""
    flags = {"written_to_label": "written_to_label", "labelled_by_model": "model_labels", "seen": "seen_gold"}
    own = [one for one in study.get("measured", ()) if one["judge"] == judge]
    return {one["gold"]: [flag for name, flag in flags.items() if one.get(name)] for one in own}


def _missing_transfer(
    splits: Sequence[SplitRates], names: Mapping[str, Any], study: Mapping[str, Any], golds: Iterable[str]
) -> Iterator[Estimate]:
    """Yield what `_transfer` leaves out of a pool."""
    mixed = "none (splits with different headline readings)" if names["reading"] == MIXED else None
    for (i, model), gold in itertools.product(enumerate(study["models"]), golds):
        known = {part.split: part.known(i) for part in splits}
        why = _nothing_in([split for split, (rates, _, _) in known.items() if not len(rates)]) or mixed
        if why:
            about: dict[str, Any] = {**names, "model": model, "parameter": gold, "method": why}
            about["n_prompts"] = sum(len(rates) for rates, _, _ in known.values())
            about["n_clusters"] = len({name for _, clusters, _ in known.values() for name in clusters})
            flags = (NO_HEADLINE, *derived_flags(part.flags[i] for part in splits))
            yield Estimate(TRANSFER, None, **about, flags=flags)


def _missing_ppi(
    cells: Mapping[tuple[str, str, str], Units],
    scope: Scope,
    names: Mapping[str, Any],
    study: Mapping[str, Any],
    labels: Mapping[tuple[str, str, str], LabelledCell],
) -> Iterator[Estimate]:
    """Yield what `_ppi` leaves out of a pool though there are labels."""
    for model in study["models"]:
        places = [(names["judge"], model, split) for split in scope.splits]
        if not any(place in labels and labels[place].people for place in places):
            continue
        own = {place[2]: cells[place] for place in places if place in cells}
        readable = {
            split: join_labels(
                [(units, labels.get((names["judge"], model, split)) or LabelledCell({}, {}))], ["strict"]
            )
            for split, units in own.items()
        }
        if why := _nothing_in([split for split, answers in readable.items() if answers is None]):
            known = [answers[0] for answers in readable.values() if answers is not None]
            about: dict[str, Any] = {**names, "model": model, "method": why}
            about["n_prompts"] = sum(len(answers.rates) for answers in known)
            about["n_clusters"] = len({name for answers in known for name in answers.names or ()})
            yield Estimate(PPI, None, **about, flags=derived_flags(units.flags for units in own.values()))


def _nothing_in(splits: Sequence[str]) -> str | None:
    return f"none (nothing judged in {', '.join(splits)})" if splits else None


def _under(observed: transfer.Observed, own: Mapping[str, Any]) -> float | None:
    """Return the rate under one answering model's own sensitivity and specificity, None if these are too uncertain."""
    se, sp = own["sensitivity"], own["specificity"]
    if se + sp - 1 < transfer.LEAST_MARGIN - ROUNDING:
        return None
    return min(1.0, max(observed.blocked, transfer.corrected_value(observed, se, sp)))


class Rated(NamedTuple):
    """What the corrected rate of a model was computed from, and its flags."""

    answers: ppi.JudgedAnswers
    labels: ppi.LabelledAnswers
    flags: tuple[str, ...]


def _ppi(
    cells: Mapping[tuple[str, str, str], Units],
    scope: Scope,
    names: Mapping[str, Any],
    study: Mapping[str, Any],
    labels: Mapping[tuple[str, str, str], LabelledCell],
    rated: dict[str, Rated],
    without: list[list[Any]],
) -> Iterator[Estimate]:
    """Yield the corrected rate of each model with labels, and the counts behind it; keep in `rated` what has a value,
    and in `without` whose splits lack labels."""
    readings = {split["name"]: split["reading"] for split in study["splits"]}
    for model in study["models"]:
        found = [labels.get((names["judge"], model, split)) for split in scope.splits]
        if not any(own and own.people for own in found):
            continue
        parts: dict[str, tuple[Units, LabelledCell]] = {}
        for split, own in zip(scope.splits, found, strict=True):
            if (units := cells.get((names["judge"], model, split))) is not None:
                parts[split] = (units, own or LabelledCell({}, {}))
        answers = join_labels(list(parts.values()), [readings[split] for split in parts])
        if answers is None:
            continue
        # Answers that the sample of a split's labels could not hold.
        later = {split: own.changed + never_drawn(units, own) for split, (units, own) in parts.items() if own.people}
        undrawn = {split: number for split, number in later.items() if number}
        learned = {split: own.learned for split, (_, own) in parts.items() if own.learned}
        unlabelled = [list(parts)[number] for number in ppi.unlabelled_splits(*answers)] if scope.pool else []
        usable = not (unlabelled or undrawn or learned)
        rate = ppi.corrected_rate(*answers, study["level"]) if usable else None
        few = () if rate is None else few_labelled(*answers)
        flags = derived_flags([derived_flags(units.flags for units, _ in parts.values())], few)
        if rate is not None:
            rated[model] = Rated(*answers, flags)
        without += [[names["judge"], model, scope.pool, unlabelled]] if unlabelled else []
        marks = {TOO_FEW: rate is None and usable, "unlabelled_splits": unlabelled, "undrawn_answers": undrawn}
        marks |= {"learned_labels": learned}
        about: dict[str, Any] = {**names, "model": model, "n_prompts": len(answers[0].rates)}
        about["n_clusters"] = None if rate is None else rate.n_clusters
        about["flags"] = (*(mark for mark, there in marks.items() if there), *flags)
        number = None if rate is None else NumberInterval(rate.value, rate.low, rate.high, ppi.METHOD)
        yield estimate_from(PPI, number, study["level"], **about)
        yield Estimate(LABELS, float(answers[1].count()), **about)
        for estimand, counts in ((UNDRAWN, undrawn), (LEARNED, learned)):
            for split, count in counts.items():
                yield Estimate(estimand, float(count), **about, parameter=split)


def _differences(
    rated: Mapping[str, Rated], names: Mapping[str, Any], level: float
) -> Iterator[tuple[dict[str, Any], ppi.CorrectedDifference]]:
    """Yield the differences of one scope, each with the columns that its rows share."""
    for model, other in itertools.combinations(sorted(rated), 2):  # in the order of `comparisons`
        first, second = rated[model], rated[other]
        found = ppi.corrected_difference((first.answers, first.labels), (second.answers, second.labels), level)
        assert found is not None  # both have a rate
        about: dict[str, Any] = {**names, "model": model, "parameter": f"minus {other}"}
        about["n_prompts"] = min(len(first.answers.rates), len(second.answers.rates))
        own = {FEW_CLUSTERS} & {*first.flags, *second.flags}  # with labels
        about |= {"n_clusters": found.n_clusters, "flags": derived_flags([first.flags, second.flags], own)}
        yield about, found


def _difference_estimates(
    differences: Sequence[tuple[dict[str, Any], ppi.CorrectedDifference]], level: float
) -> Iterator[Estimate]:
    adjusted = holm([found.p for _, found in differences])
    for (about, found), p in zip(differences, adjusted, strict=True):
        number = NumberInterval(found.value, found.low, found.high, ppi.DIFFERENCE_METHOD)
        yield estimate_from("rate_difference_ppi", number, level, **about)
        yield Estimate("rate_difference_ppi_p", found.p, method=ppi.TEST, **about)
        method = f"{ppi.TEST}; Holm over all corrected differences under the judge"
        yield Estimate("rate_difference_ppi_p_holm", p, method=method, **about)


def few_labelled(answers: ppi.JudgedAnswers, labels: ppi.LabelledAnswers) -> tuple[str, ...]:
    """Return `few_clusters` if in a split few clusters have labels, or, where prompts share clusters, labels of the
    rarer class; a split that was blocked throughout needs none.
    """
    read = set(answers.splits[answers.counting > answers.blocked].tolist())
    flags: set[str] = set()
    for split in read:
        own = answers.clusters[answers.splits == split]
        here = answers.splits[labels.rows] == split
        clusters, people = answers.clusters[labels.rows[here]], labels.people[here]
        shared = len(np.unique(own)) < len(own)
        rarer = min(len(np.unique(clusters[people == side])) for side in (0, 1)) if shared else MIN_RARER
        flags |= {*few_flags(effective_of(clusters), max(1, rarer))}
    return tuple(flags)
