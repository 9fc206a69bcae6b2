"""The numbers of agreement between judges, and the row of the results table that each is."""

from collections.abc import Iterator, Mapping
from typing import Any

from refusal_eval.features.judge_pairs.pair_agreement import THREE
from refusal_eval.stats.agreement.measures import UNSEEN
from refusal_eval.stats.estimates.cell_estimates import INTERVAL_METHOD
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
from refusal_eval.stats.estimates.resampling import METHOD as BOOTSTRAP

ALL = "all"  # the pool of all splits
_ESTIMANDS = {
    "same": ("judges_same_label", INTERVAL_METHOD),
    "kappa": ("judges_kappa", UNSEEN),
    "alpha": ("judges_alpha", UNSEEN),
    "tau": ("judges_tau", BOOTSTRAP),
}


def agreement_numbers(agreement: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all numbers: of every two judges, of all of them, and of their orders of the models.

    `split` (None for all), `first` and `second` judge (of all judges `first` has all names and `second` is None),
    `overlap`, `reading` (or three_class), `measure` (same, kappa, alpha, tau), `value`, `interval`, `n` (answers; of
    tau models), `n_clusters` and `flags`.
    """
    for group in agreement["groups"]:
        where = {"split": group["split"]}
        for pair in group["pairs"]:
            about = where | {name: pair[name] for name in ("first", "second", "overlap", "n", "n_clusters", "flags")}
            for reading in (*READINGS, THREE):
                for measure in ("same", "kappa"):
                    yield about | {"reading": reading, "measure": measure} | pair[reading][measure]
        about = where | {"first": ", ".join(group["raters"]), "second": None, "overlap": False, "measure": "alpha"}
        about |= {"n": group["n_alpha"], "n_clusters": group["n_alpha_clusters"], "flags": group["alpha_flags"]}
        for reading in (*READINGS, THREE) if group["alpha"] else ():
            yield about | {"reading": reading} | group["alpha"][reading]
    for rank in agreement["rankings"]:
        about = {
            name: rank[name] for name in ("split", "first", "second", "reading", "interval", "n_clusters", "flags")
        }
        yield about | {"overlap": False, "measure": "tau", "value": rank["tau"], "n": rank["n_models"]}


def agreement_estimates(agreement: Mapping[str, Any]) -> list[Estimate]:
    """Return how far the judges agree: every two of them, all of them, and their orders of the models.

    Of two judges `judge` is the first and the parameter names the other; of all of them the parameter names all. All
    splits together are the pool `all`. A pair with a common opinion, such as a judge and one that it reads, is flagged,
    and so is what rests on few clusters. With three classes the estimand's name says so.
    """
    return [_estimate(number, agreement["level"]) for number in agreement_numbers(agreement)]


def _estimate(of: Mapping[str, Any], level: float) -> Estimate:
    name, method = _ESTIMANDS[of["measure"]]
    low, high = of["interval"] or (None, None)
    three, alone = of["reading"] == THREE, of["second"] is None
    return estimate_from(
        f"{name}_{THREE}" if three else name,
        NumberInterval(of["value"], low, high, method),
        level,
        judge=None if alone else of["first"],
        split=of["split"],
        pool=ALL if of["split"] is None else None,
        reading=None if three else of["reading"],
        n_prompts=None if of["measure"] == "tau" else of["n"],
        n_clusters=of["n_clusters"],
        parameter=of["first"] if alone else f"with judge {of['second']}",
        flags=(*of["flags"], *(("shared_opinion",) if of["overlap"] else ())),
    )
