"""The estimates of judge_agreement.json (judges beside each other), one row of the results table each."""

from collections.abc import Iterator, Mapping
from typing import Any

from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.judge_pairs.pair_agreement import THREE
from refusal_eval.report.results.from_cards import BOOTSTRAP, SHARE_METHOD, UNSEEN

Part = Mapping[str, Any]

ALL = "all"  # the pool of all splits
# A pair of judges of which one opinion is part of both, such as a panel and its member.
SHARED_OPINION = "shared_opinion"


def agreement_estimates(agreement: Part) -> list[Estimate]:
    """Return how far the judges agree: every two of them, all of them, and their orders of the models.

    Of two judges `judge` is the first and the parameter names the other; of all of them the parameter names all. All
    splits together are the pool `all`. A pair with a common opinion, such as a panel and its member, is flagged, and
    so is what rests on few clusters.
    """
    level = agreement["level"]
    found = [estimate for group in agreement["groups"] for estimate in _group(group, level)]
    for rank in agreement["rankings"]:
        about: dict[str, Any] = {"judge": rank["first"], "parameter": _other(rank["second"]), "split": rank["split"]}
        about |= {"n_clusters": rank["n_clusters"], "flags": tuple(rank["flags"])}
        ends = _ends(rank["interval"], level, BOOTSTRAP)
        found.append(Estimate("judges_tau", rank["tau"], **ends, **about, reading=rank["reading"]))
    return found


def _group(group: Part, level: float) -> Iterator[Estimate]:
    where = {"split": group["split"], "pool": ALL if group["split"] is None else None}
    for pair in group["pairs"]:
        about: dict[str, Any] = where | {"judge": pair["first"], "parameter": _other(pair["second"])}
        about |= {"n_prompts": pair["n"], "n_clusters": pair["n_clusters"]}
        about["flags"] = (*pair["flags"], *((SHARED_OPINION,) if pair["overlap"] else ()))
        for view in (*READINGS, THREE):
            yield _number("judges_same_label", pair[view]["same"], view, level, SHARE_METHOD, about)
            yield _number("judges_kappa", pair[view]["kappa"], view, level, UNSEEN, about)
    if group["alpha"]:
        about = where | {"parameter": ", ".join(group["raters"])}
        about |= {"n_prompts": group["n_alpha"], "n_clusters": group["n_alpha_clusters"]}
        about["flags"] = tuple(group["alpha_flags"])
        for view, alpha in group["alpha"].items():
            yield _number("judges_alpha", alpha, view, level, UNSEEN, about)


def _number(name: str, part: Part, view: str, level: float, method: str, about: Mapping[str, Any]) -> Estimate:
    """A number in a reading, or with three classes, which its name then says."""
    ends = _ends(part["interval"], level, method)
    if view == THREE:
        return Estimate(f"{name}_{THREE}", part["value"], **ends, **about)
    return Estimate(name, part["value"], **ends, **about, reading=view)


def _ends(interval: Any, level: float, method: str) -> dict[str, Any]:
    return {} if interval is None else {"low": interval[0], "high": interval[1], "level": level, "method": method}


def _other(judge: str) -> str:
    return f"with judge {judge}"
