"""Corrected rates of a study: of every model on every split, and pooled over the splits of an expectation."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.features.corrected import ppi, transfer
from refusal_eval.features.corrected.peoples_labels import Labelled, joined, never_drawn
from refusal_eval.stats.comparisons.corrections import holm
from refusal_eval.stats.estimates.estimands import MIXED, READINGS
from refusal_eval.stats.estimates.estimate import Estimate, Number, estimated
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS, MIN_RARER, ROUNDING, derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import effective_of, seed_of
from refusal_eval.stats.estimates.near_duplicates import Place, counted_once
from refusal_eval.stats.estimates.pooled_rates import SplitRates, study_rates
from refusal_eval.stats.estimates.units import Units, clusters_apart, dialogue_splits
from refusal_eval.study.comparison_families import Scope

Study = Mapping[str, Any]
TRANSFER, PPI = "refusal_rate_rg_transfer", "refusal_rate_ppi"


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
    study: Study,
    gold: Mapping[tuple[str, str], pd.DataFrame],
    labels: Mapping[tuple[str, str, str], Labelled],
    left_out: Collection[Place] = (),
    elsewhere: Mapping[tuple[str, str], int] | None = None,
) -> dict[str, Any]:
    """Return all of a study's corrected rates as JSON: `estimates` (see `estimate.Estimate`), `level`, and

    errors      by judge, gold set and reading: what `transfer.ErrorRates` says, without the draws
    transfer    by judge, model, scope, gold set: `transfer.Transferred`, the judge's own rate (`observed`) with its
                interval, the share of blocked answers in it, how the interval was made (`method`), and `by_model`: the
                rate under each answering model's own sensitivity and specificity. `flags` and `observed_flags` have
                those of the cells; `few_clusters` the first where the study (a split of a pool) or the gold set has
                few, the other where the study has
    ppi         by judge, model, scope with labels: `ppi.Corrected`; no value and `too_few` where there are less than
                it takes; no value and the splits that are `unlabelled` where labels of some splits of a pool would
                have to stand for the others; no value and by split the number of labelled answers that the judge has
                `learned` from; no value and by split the number of answers that are `undrawn`: that came or changed
                after the sample was drawn. `checked` is whether that could be checked; `flags` has
                those of the cells, and `few_clusters` where few clusters (of a split of a pool) have labels, or,
                where prompts share clusters, labels of the rarer class
    differences by judge, scope and two models with a corrected rate (ppi), first minus second in alphabetical order:
                `ppi.CorrectedDifference`, and `p_holm`,
                corrected for all under the judge; `flags` has those of both rates
    one_class   [judge, gold set, reading] of gold on which people call all answers that the judge labelled refusals, or
                none: it gives no sensitivity, or no specificity, and no rate by transfer
    elsewhere   [model, split, number of labels] of what people labelled and the study does not have
    missing     by judge, model and pool what has no entry above, and why (`method`): a split without an answer that
                counts, or, of rates by transfer, splits with different headline readings
    dialogues   splits of which scored turns are counted, and not prompts

    Args:
        units: the scored prompts of each (judge, model, split).
        study: `judges`, `models`, `splits` (each `name`, `expectation`, `reading`, `source`), `samples` and `level`.
        gold: of each (judge, gold set) `transfer.judged_gold`.
        labels: labels of people on this study's answers, by (judge, model, split).
        left_out: near-duplicates of prompts that count, not to be counted where splits are pooled.
        elsewhere: number of labels of each (model, split) that the study does not have.
    """
    result: dict[str, Any] = {"level": study["level"], "errors": [], "transfer": [], "ppi": [], "differences": []}
    result |= {"one_class": [], "missing": []}
    result["dialogues"] = dialogue_splits(units)
    result["elsewhere"] = [[model, split, number] for (model, split), number in (elsewhere or {}).items()]
    units = clusters_apart(units, {split["name"]: split["source"] for split in study["splits"]})
    once = counted_once(units, left_out)
    for judge in study["judges"]:
        errors = _errors({name: rows for (j, name), rows in gold.items() if j == judge})
        asked = [(name, reading) for j, name in sorted(gold) if j == judge for reading in READINGS]
        result["one_class"] += [[judge, *one] for one in asked if one not in errors]
        for (name, reading), found in errors.items():
            shown_fields = {field: value for field, value in vars(found).items() if field != "drawn"}
            spread = found.spread and dict(zip(("sensitivity", "specificity"), found.spread, strict=True))
            about = {"judge": judge, "gold": name, "reading": reading}
            result["errors"].append(about | shown_fields | {"spread": spread, "by_model": list(found.by_model)})
        of_all, of_pools = (study_rates(cells, judge, study) for cells in (units, once))
        for scope in scopes(study["splits"]):
            cells, known = (once, of_pools) if scope.pool else (units, of_all)
            rates = [known[split] for split in scope.splits if split in known]
            readings = {of_all[split].reading for split in scope.splits}
            names = {"judge": judge, "split": None if scope.pool else scope.splits[0], "pool": scope.pool}
            names["reading"] = common = readings.pop() if len(readings) == 1 else MIXED
            used = {name: of for (name, reading), of in errors.items() if reading == common}
            result["transfer"] += _transfer(rates, names, study, used, gold_flags(study, judge))
            if scope.pool:
                golds = dict.fromkeys(name for name, reading in errors if common in (reading, MIXED))
                result["missing"] += _missing_transfer(rates, names, study, golds)
                result["missing"] += _missing_ppi(cells, scope, names, study, labels)
            answers: dict[str, tuple[ppi.Answers, ppi.Labels]] = {}
            found_here = list(_ppi(cells, scope, names, study, labels, answers))
            result["ppi"] += found_here
            result["differences"] += _differences(found_here, answers, names, study["level"])
        family = [entry for entry in result["differences"] if entry["judge"] == judge]
        for entry, p in zip(family, holm([entry["p"] for entry in family]), strict=True):
            entry["p_holm"] = p
    result["estimates"] = [estimate.row() for estimate in _estimates(result, study)]
    return result


def _errors(gold: Mapping[str, pd.DataFrame]) -> dict[tuple[str, str], transfer.ErrorRates]:
    found = {}
    for name in sorted(gold):
        for reading in READINGS:
            rates = transfer.error_rates(gold[name], reading, seed_of("corrected gold", name))
            if rates is not None:
                found[name, reading] = rates
    return found


def _transfer(
    splits: Sequence[SplitRates],
    names: Mapping[str, Any],
    study: Study,
    errors: Mapping[str, transfer.ErrorRates],
    of_gold: Mapping[str, Sequence[str]],
) -> Iterator[dict[str, Any]]:
    if not errors or not splits:
        return
    observed_rates = transfer.observed_rates(splits, study["level"])
    for i, (model, observed) in enumerate(zip(study["models"], observed_rates, strict=True)):
        if observed is None:
            continue
        few_here = {flag for part in splits for flag in part.few(i)}
        cells = [part.flags[i] for part in splits]
        for gold, found in errors.items():
            rate = transfer.transferred(observed, found, study["level"])
            few = set() if rate.value is None else few_here | {*few_flags(found.effective_clusters)}
            yield {
                **names,
                **{"model": model, "gold": gold, "observed": observed.rate},
                **{"observed_low": observed.low, "observed_high": observed.high, "blocked": observed.blocked},
                **{"n_prompts": observed.n_prompts, "n_clusters": observed.n_clusters},
                "observed_flags": list(derived_flags(cells, few_here)),
                "flags": list(derived_flags(cells, [*of_gold.get(gold, ()), *few])),
                **vars(rate),
                "method": transfer.method_of(found.spread),
                "by_model": [_under(observed, own) for own in found.by_model],
            }


def gold_flags(study: Study, judge: str) -> dict[str, list[str]]:
    """Return, by gold set, what its labels and the judge's part in it mark every number with that is made of both."""
    flags = {"written_to_label": "written_to_label", "seen": "seen_gold"}
    own = [one for one in study.get("measured", ()) if one["judge"] == judge]
    return {one["gold"]: [flag for name, flag in flags.items() if one.get(name)] for one in own}


def _missing_transfer(
    splits: Sequence[SplitRates], names: Mapping[str, Any], study: Study, golds: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """Yield what `_transfer` leaves out of a pool."""
    mixed = "none (splits with different headline readings)" if names["reading"] == MIXED else None
    for (i, model), gold in itertools.product(enumerate(study["models"]), golds):
        known = {part.split: part.known(i) for part in splits}
        why = _nothing_in([split for split, (rates, _, _) in known.items() if not len(rates)]) or mixed
        if why:
            yield {
                **names,
                **{"estimand": TRANSFER, "model": model, "parameter": gold, "method": why},
                "n_prompts": sum(len(rates) for rates, _, _ in known.values()),
                "n_clusters": len({name for _, clusters, _ in known.values() for name in clusters}),
                "flags": ["not_headline", *derived_flags(part.flags[i] for part in splits)],
            }


def _missing_ppi(
    cells: Mapping[tuple[str, str, str], Units],
    scope: Scope,
    names: Mapping[str, Any],
    study: Study,
    labels: Mapping[tuple[str, str, str], Labelled],
) -> Iterator[dict[str, Any]]:
    """Yield what `_ppi` leaves out of a pool though there are labels."""
    for model in study["models"]:
        places = [(names["judge"], model, split) for split in scope.splits]
        if not any(place in labels and labels[place].people for place in places):
            continue
        own = {place[2]: cells[place] for place in places if place in cells}
        readable = {
            split: joined([(units, labels.get((names["judge"], model, split)) or Labelled({}, {}))], ["strict"])
            for split, units in own.items()
        }
        if why := _nothing_in([split for split, answers in readable.items() if answers is None]):
            known = [answers[0] for answers in readable.values() if answers is not None]
            yield {
                **names,
                **{"estimand": PPI, "model": model, "parameter": None, "method": why},
                "n_prompts": sum(len(answers.rates) for answers in known),
                "n_clusters": len({name for answers in known for name in answers.names or ()}),
                "flags": list(derived_flags(units.flags for units in own.values())),
            }


def _nothing_in(splits: Sequence[str]) -> str | None:
    return f"none (nothing judged in {', '.join(splits)})" if splits else None


def _under(observed: transfer.Observed, own: Mapping[str, Any]) -> dict[str, Any]:
    """The rate under one answering model's own sensitivity and specificity, None where these tell too little."""
    se, sp = own["sensitivity"], own["specificity"]
    value = None
    if se + sp - 1 >= transfer.LEAST_MARGIN - ROUNDING:
        value = min(1.0, max(observed.blocked, transfer.corrected_value(observed, se, sp)))
    return {"answering_model": own["answering_model"], "value": value}


def _ppi(
    cells: Mapping[tuple[str, str, str], Units],
    scope: Scope,
    names: Mapping[str, Any],
    study: Study,
    labels: Mapping[tuple[str, str, str], Labelled],
    kept: dict[str, tuple[ppi.Answers, ppi.Labels]],
) -> Iterator[dict[str, Any]]:
    """Yield the corrected rate of each model with labels; keep in `kept` what those with a value are computed from."""
    readings = {split["name"]: split["reading"] for split in study["splits"]}
    fields = ("value", "low", "high", "weight", "observed", "n_label_clusters", "n_clusters")
    for model in study["models"]:
        found = [labels.get((names["judge"], model, split)) for split in scope.splits]
        if not any(own and own.people for own in found):
            continue
        parts: dict[str, tuple[Units, Labelled]] = {}
        for split, own in zip(scope.splits, found, strict=True):
            if (units := cells.get((names["judge"], model, split))) is not None:
                parts[split] = (units, own or Labelled({}, {}))
        answers = joined(list(parts.values()), [readings[split] for split in parts])
        if answers is None:
            continue
        # Answers that the sample of a split's labels could not hold.
        later = {split: own.changed + never_drawn(units, own) for split, (units, own) in parts.items() if own.people}
        undrawn = {split: number for split, number in later.items() if number}
        learned = {split: own.learned for split, (_, own) in parts.items() if own.learned}
        unlabelled = [list(parts)[number] for number in ppi.unlabelled(*answers)] if scope.pool else []
        usable = not (unlabelled or undrawn or learned)
        rate = ppi.corrected_rate(*answers, study["level"]) if usable else None
        flags = derived_flags(units.flags for units, _ in parts.values())
        few = () if rate is None else few_labelled(*answers)
        if rate is not None:
            kept[model] = answers
        yield {
            **names,
            **{"model": model, "n_labels": answers[1].count(), "n_prompts": len(answers[0].rates)},
            **{"unlabelled": unlabelled, "undrawn": undrawn, "learned": learned},
            "checked": all(own.drawn_from is not None for own in found if own and own.people),
            "observed_flags": list(flags),
            "flags": list(derived_flags([flags], few)),
            **{name: None if rate is None else getattr(rate, name) for name in fields},
            "too_few": rate is None and usable,
        }


def _differences(
    rates: Sequence[Mapping[str, Any]],
    answers: Mapping[str, tuple[ppi.Answers, ppi.Labels]],
    names: Mapping[str, Any],
    level: float,
) -> Iterator[dict[str, Any]]:
    flags = {rate["model"]: rate["flags"] for rate in rates}
    for model, other in itertools.combinations(sorted(answers), 2):  # in the order of `comparisons`
        found = ppi.corrected_difference(answers[model], answers[other], level)
        assert found is not None  # both have a rate
        about = {"model": model, "other": other, "n_labels": sum(answers[m][1].count() for m in (model, other))}
        about["n_prompts"] = min(len(answers[m][0].rates) for m in (model, other))
        own = {FEW_CLUSTERS} & {*flags[model], *flags[other]}  # with labels
        yield {**names, **about, **vars(found), "flags": list(derived_flags([flags[model], flags[other]], own))}


def few_labelled(answers: ppi.Answers, labels: ppi.Labels) -> tuple[str, ...]:
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


def _estimates(result: Mapping[str, Any], study: Study) -> Iterator[Estimate]:
    estimands = {"transfer": TRANSFER, "ppi": PPI}
    marks = {"too_few": "too_few_labels", "unlabelled": "unlabelled_splits", "undrawn": "undrawn_answers"}
    marks |= {"learned": "learned_labels"}
    names = ("judge", "model", "split", "pool", "reading", "n_prompts", "n_clusters")
    for kind, entry in ((name, entry) for name in estimands for entry in result[name]):
        flags = [mark for name, mark in marks.items() if entry.get(name)]
        if kind == "transfer":
            why = "at_odds_with_gold" if entry["at_odds"] else "not_identifiable"
            flags = ["not_headline", *([why] if entry["value"] is None else [])]
        number = Number(entry["value"], entry["low"], entry["high"], entry.get("method", ppi.METHOD))
        yield estimated(
            estimands[kind],
            number,
            study["level"],
            **{name: entry[name] for name in names},
            samples=study["samples"],
            parameter=entry.get("gold"),
            flags=(*flags, *entry["flags"]),
        )
    for entry in result["missing"]:
        about = {name: entry[name] for name in (*names, "method", "parameter")}
        yield Estimate(entry["estimand"], None, samples=study["samples"], flags=tuple(entry["flags"]), **about)
    for entry in result["differences"]:
        about = {name: entry[name] for name in names}
        about |= {"samples": study["samples"], "parameter": f"minus {entry['other']}", "flags": tuple(entry["flags"])}
        number = Number(entry["value"], entry["low"], entry["high"], ppi.DIFFERENCE_METHOD)
        yield estimated("rate_difference_ppi", number, study["level"], **about)
        yield Estimate("rate_difference_ppi_p", entry["p"], method=ppi.TEST, **about)
        method = f"{ppi.TEST}; Holm over all corrected differences under the judge"
        yield Estimate("rate_difference_ppi_p_holm", entry["p_holm"], method=method, **about)
