"""The trade-off of a study: all models under all judges, contrast pairs, topics and languages."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from refusal_eval.features.tradeoff.contrasts import languages_compared, pair_shares, spoken_in, topics
from refusal_eval.features.tradeoff.model_tradeoff import trade_off
from refusal_eval.stats.estimates.estimands import MIXED
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import derived_flags
from refusal_eval.stats.estimates.near_duplicates import PromptPlace, without_duplicates
from refusal_eval.stats.estimates.pooled_rates import SplitRates, components, study_rates
from refusal_eval.stats.estimates.units import Units, clusters_apart

Languages = Mapping[str, Mapping[str, str | None]]


def study_trade_off(
    units: Mapping[tuple[str, str, str], Units],
    study: Mapping[str, Any],
    languages: Languages,
    left_out: Collection[PromptPlace] = (),
) -> list[Estimate]:
    """Return the numbers of a study's trade-off that are in no other file.

    They are those of `model_tradeoff.trade_off` (none without splits of both expectations; the pooled rates themselves
    are in the files of cells), and of each model `contrasts.pair_shares`, `topics` and `languages_compared`.

    Args:
        units: the scored prompts of each (judge, model, split).
        study: `judges`, `models`, `splits` (each `name`, `expectation`, `reading`, `source`), `twins` (pairs of a
            comply and a refuse split that may hold contrast pairs), `related` (lists of splits that may hold
            translations), `samples` and `level`.
        languages: of each split, the language of each prompt.
        left_out: near-duplicates of prompts that count, not to be counted where splits are pooled.
    """
    expected = {
        kind: [split["name"] for split in study["splits"] if split["expectation"] == kind]
        for kind in ("comply", "refuse", "varies")
    }
    units = clusters_apart(units, {split["name"]: split["source"] for split in study["splits"]})
    once = without_duplicates(units, left_out)
    found = []
    for judge in study["judges"]:
        rates, counted = (study_rates(cells, judge, study) for cells in (units, once))
        pools = [[counted[name] for name in expected[kind] if name in counted] for kind in ("comply", "refuse")]
        weighed = trade_off(pools[0], pools[1], study["level"]) if all(pools) else []
        for i, model in enumerate(study["models"]):
            own = [*(weighed[i] if weighed else ())]
            for safe, unsafe in study["twins"]:
                own += pair_shares(rates[safe], rates[unsafe], i, study["level"])
            for split in expected["varies"]:
                own += topics(rates[split], i, study["level"], units[judge, model, split])
            own += _languages(rates, study, i, languages)
            known = {"judge": judge, "model": model, "samples": study["samples"]}
            found += [dataclasses.replace(estimate, **known) for estimate in own]
    return found


def languages_spoken(study: Mapping[str, Any], languages: Languages) -> dict[str, list[str]]:
    """Return the languages of each pooled split, if the study has several (`contrasts.spoken_in`)."""
    pooled = [split["name"] for split in study["splits"] if split["expectation"] in ("comply", "refuse")]
    return spoken_in({split: languages[split] for split in pooled})


def _languages(
    rates: Mapping[str, SplitRates], study: Mapping[str, Any], model: int, languages: Languages
) -> Iterator[Estimate]:
    for related in study["related"]:
        # Translations in several splits share clusters; other splits of one source are compared for themselves.
        for group in components({split: rates[split].clusters.tolist() for split in related}):
            own = [rates[split] for split in group]
            spoken = [languages[r.split].get(prompt) for r in own for prompt in r.prompts]
            clusters = [cluster for r in own for cluster in r.clusters]
            values = np.concatenate([r.rates[model] for r in own])
            draws = np.concatenate([r.draws[model] for r in own])
            readings = {r.reading for r in own}
            name, reading = "+".join(group), readings.pop() if len(readings) == 1 else MIXED
            # Which answers of a split a language lacks is not known here: the marks are those of all its cells.
            cells = [r.flags[model] for r in own]
            for found in languages_compared(values, clusters, spoken, study["level"], name, draws):
                marks = derived_flags(cells, found.flags)
                yield dataclasses.replace(found, flags=marks, split=name, reading=reading)
