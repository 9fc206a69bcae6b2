"""The trade-off of a study: all models under all judges, contrast pairs, topics and languages."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.features.tradeoff.contrasts import CELLS, differences, pair_shares, spoken_in, topics
from refusal_eval.features.tradeoff.model_tradeoff import REGION, trade_off
from refusal_eval.stats.estimates.estimands import MIXED
from refusal_eval.stats.estimates.estimate import Estimate, Number, estimated
from refusal_eval.stats.estimates.flags import derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.stats.estimates.near_duplicates import Place, counted_once
from refusal_eval.stats.estimates.pooled_rates import SplitRates, components, study_rates
from refusal_eval.stats.estimates.units import Units, clusters_apart, dialogue_splits, few_of

Study = Mapping[str, Any]
RATE_METHOD = "recovered from the Wilson intervals of the splits, Clopper-Pearson over clusters for splits at 0 and 1"
PAIR_METHOD = "Wilson over pairs, t quantile; Clopper-Pearson at 0 and 1"
ONE_CLUSTER = "none (a split is one cluster, which no resample varies)"


def study_trade_off(
    units: Mapping[tuple[str, str, str], Units],
    study: Study,
    languages: Mapping[str, Mapping[str, str | None]],
    left_out: Collection[Place] = (),
) -> dict[str, Any]:
    """Return all of a study's trade-off as JSON: `estimates` (see `estimate.Estimate`) and

    models      entries of `model_tradeoff.trade_off` with `judge` and `model`; none without splits of both expectations
    pairs       by judge, model and pair of splits: entries of `contrasts.pair_shares`
    topics      by judge, model and `varies` split: entries of `contrasts.topics`
    languages   by judge, model and splits: entries of `contrasts.differences`
    dialogues   splits of which scored turns are counted, and not prompts
    spoken      the languages of each split that is pooled, where there are several in all

    Args:
        units: the scored prompts of each (judge, model, split).
        study: `judges`, `models`, `splits` (each `name`, `expectation`, `reading`, `source`), `twins` (pairs of a
            comply and a refuse split that may hold contrast pairs), `related` (lists of splits that may hold
            translations), `samples` and `level`.
        languages: of each split, the language of each prompt.
        left_out: near-duplicates of prompts that count, not to be counted where splits are pooled.
    """
    result: dict[str, Any] = {"level": study["level"], "region": REGION, "method": RATE_METHOD}
    result |= {name: [] for name in ("models", "pairs", "topics", "languages")}
    result["splits"] = {
        kind: [split["name"] for split in study["splits"] if split["expectation"] == kind]
        for kind in ("comply", "refuse", "varies")
    }
    result["dialogues"] = dialogue_splits(units)
    pooled = (*result["splits"]["comply"], *result["splits"]["refuse"])
    if spoken := spoken_in({split: languages[split] for split in pooled}):
        result["spoken"] = spoken
    units = clusters_apart(units, {split["name"]: split["source"] for split in study["splits"]})
    once = counted_once(units, left_out)
    for judge in study["judges"]:
        rates, counted = (study_rates(cells, judge, study) for cells in (units, once))
        pools = [[counted[name] for name in result["splits"][k] if name in counted] for k in ("comply", "refuse")]
        if all(pools):
            found = trade_off(pools[0], pools[1], study["level"])
            result["models"] += [
                {"judge": judge, "model": model} | entry for model, entry in zip(study["models"], found, strict=True)
            ]
        for i, model in enumerate(study["models"]):
            names = {"judge": judge, "model": model}
            result["pairs"] += _pairs(rates, study, names, i)
            own = {split: units[judge, model, split] for split in result["splits"]["varies"]}
            result["topics"] += _topics(rates, own, names, i, study["level"])
            result["languages"] += _languages(rates, study, names, i, languages)
    result["estimates"] = [estimate.row() for estimate in _estimates(result, study)]
    return result


def _pairs(rates: Mapping[str, SplitRates], study: Study, names: Mapping[str, str], model: int) -> list[dict[str, Any]]:
    found = []
    for safe, unsafe in study["twins"]:
        shares = pair_shares(rates[safe], rates[unsafe], model, study["level"])
        if shares is not None:
            cells = (rates[safe].flags[model], rates[unsafe].flags[model])
            flags = list(derived_flags(cells, few_flags(shares["n_pairs"])))
            found.append({**names, "safe": safe, "unsafe": unsafe, "flags": flags, **shares})
    return found


def _topics(
    rates: Mapping[str, SplitRates], units: Mapping[str, Units], names: Mapping[str, str], model: int, level: float
) -> list[dict[str, Any]]:
    """Topics of all splits; `rate_flags` are of a topic's rate, `flags` of its difference from the rest."""
    found = []
    for split, own in units.items():
        for topic in topics(rates[split], model, level):
            part, rate = own.kept(own["category"] == topic["topic"]), topic["rate"]
            of_topic = part.own_flags(rates[split].reading, (rate["low"], rate["high"]))
            sides = (rates[split].categories == topic["topic"], rates[split].categories != topic["topic"])
            few = {flag for side in sides for flag in rates[split].few(model, side)}
            flags = derived_flags((own.flags, of_topic), few)
            found.append({**names, "split": split, "rate_flags": list(of_topic), "flags": list(flags), **topic})
    return found


def _languages(
    rates: Mapping[str, SplitRates],
    study: Study,
    names: Mapping[str, str],
    model: int,
    languages: Mapping[str, Mapping[str, str | None]],
) -> list[dict[str, Any]]:
    found = []
    for related in study["related"]:
        # Translations in several splits share clusters; other splits of one source are compared for themselves.
        for group in components({split: rates[split].clusters.tolist() for split in related}):
            own = [rates[split] for split in group]
            spoken = [languages[r.split].get(prompt) for r in own for prompt in r.prompts]
            if len({language for language in spoken if language is not None}) < 2:
                continue
            clusters = [cluster for r in own for cluster in r.clusters]
            values = np.concatenate([r.rates[model] for r in own])
            draws = np.concatenate([r.draws[model] for r in own])
            entries = differences(values, clusters, spoken, study["level"], "+".join(group), draws)
            readings = {r.reading for r in own}
            about = {"splits": list(group), "reading": readings.pop() if len(readings) == 1 else MIXED}
            for entry in entries:
                # Of both rates, and of their difference: which answers of a split a language lacks is not known here.
                few = [_few_of_language(values, clusters, spoken, entry[side]) for side in ("first", "second")]
                few.append(few_flags(entry["n_twins"]) if entry["paired"] else tuple({*few[0], *few[1]}))
                flags = [list(derived_flags((r.flags[model] for r in own), flag)) for flag in few]
                found.append({**names, **about, "rate_flags": flags[:2], "flags": flags[2], **entry})
    return found


def _few_of_language(
    values: Floats, clusters: Sequence[str], spoken: Sequence[str | None], language: str
) -> tuple[str, ...]:
    rows = [i for i, own in enumerate(spoken) if own == language and not np.isnan(values[i])]
    return few_of(values[rows], [clusters[i] for i in rows])


def _estimates(result: Mapping[str, Any], study: Study) -> Iterator[Estimate]:
    """The numbers that are in no other file: of pooled rates only what is made of two of them."""
    readings = {split["name"]: split["reading"] for split in study["splits"]}
    placed = Counter(entry["judge"] for entry in result["models"] if entry["youden_j"] is not None)

    def made(estimand: str, entry: Mapping[str, Any], number: Number | None, **names: Any) -> Estimate:
        known = {"judge": entry["judge"], "model": entry["model"], "flags": tuple(entry["flags"])} | names
        return estimated(estimand, number, study["level"], samples=study["samples"], **known)

    for entry in result["models"]:
        names = {"pool": "comply+refuse", "n_prompts": entry["n_prompts"], "n_clusters": entry["n_clusters"]}
        if entry["youden_j"] is None:
            yield made("youden_j", entry, None, method=f"none (nothing judged in {', '.join(entry['lost'])})", **names)
            continue
        yield made("youden_j", entry, Number(**entry["youden_j"]), **names)
        # Of one model alone there is nothing to tell: nobody could beat it.
        if placed[entry["judge"]] > 1:
            share = None if entry["front_share"] is None else Number(entry["front_share"])
            names |= {"flags": tuple(entry["front_flags"]), "method": None if share else ONE_CLUSTER}
            yield made("pareto_front_share", entry, share, **names)
    for entry in result["pairs"]:
        names = {"split": entry["safe"], "parameter": entry["unsafe"]}
        names |= {"n_prompts": entry["n_prompts"], "n_clusters": entry["n_pairs"]}
        for name in CELLS:
            share = Number(entry[name]["share"], entry[name]["low"], entry[name]["high"], PAIR_METHOD)
            yield made(f"pairs_{name}", entry, share, **names)
    for entry in result["topics"]:
        names = {name: entry[name] for name in ("split", "n_prompts", "n_clusters")}
        names |= {"category": entry["topic"], "reading": readings[entry["split"]]}
        yield made("topic_difference", entry, Number(**entry["difference"]), **names)
    for entry in result["languages"]:
        names = {"split": "+".join(entry["splits"]), "reading": entry["reading"], "n_prompts": entry["n_compared"]}
        names["n_clusters"] = entry["n_twins"] if entry["paired"] else sum(entry["n_clusters"]) - entry["n_twins"]
        names["parameter"] = f"{entry['first']} - {entry['second']}"
        yield made("language_difference", entry, Number(**entry["difference"]), **names)
