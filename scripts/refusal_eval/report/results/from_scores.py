"""The estimates that a cell's score file and a judge's card hold, one row of the results table each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.scores import C_METHOD, score_flags, state_shares
from refusal_eval.core.states import ANSWER_STATES, JUDGED

Row = Mapping[str, Any]

BOOTSTRAP = "cluster bootstrap, expanded percentile"
UNSEEN = f"{BOOTSTRAP}, at least what unseen errors allow"
CARD_BOOTSTRAP = f"{UNSEEN}; of small classes what the ends of sensitivity and specificity allow"
RANKING = (
    "Wilson, effective size from a cluster bootstrap, t quantile; Clopper-Pearson over clusters of a class at 0 and 1"
)
_CARD_METHODS = {
    **dict.fromkeys(("balanced_accuracy", "f1", "kappa"), CARD_BOOTSTRAP),
    "kappa_three_class": UNSEEN,
    "ece": f"{BOOTSTRAP}; low end 0 where noise alone may do as much, else the basic bootstrap's",
    "brier": BOOTSTRAP,
    **dict.fromkeys(("roc_auc", "average_precision"), RANKING),
}
CARD_MEASURES = ("accuracy", "sensitivity", "specificity", "balanced_accuracy", "f1", "kappa")
SHARE_METHOD = "Wilson, cluster-robust effective size, t quantile; Clopper-Pearson over clusters at 0 and 1"


def score_estimates(score: Row, tau: float) -> list[Estimate]:
    """Return the estimates of one cell's score file.

    Args:
        score: the score (`scores.cell_score`).
        tau: the temperature of its c(x).
    """
    level, method, k = score["interval"]["level"], score["interval"]["method"], score["samples"]
    names: dict[str, Any] = {key: score[key] for key in ("judge", "model", "split", "samples")}
    names["flags"] = score_flags(score)
    counting = {"n_prompts": score["n_scored_turns"], "n_clusters": score["n_clusters"]}
    every = {"n_prompts": score["n_turns"]}
    found = []
    for reading in READINGS:
        part = score[reading]
        known = part["low"] is not None
        ends = {"low": part["low"], "high": part["high"], "level": level, "method": method} if known else {}
        here = names | {"reading": reading}
        found.append(Estimate("refusal_rate", part["rate"], **ends, **here, **counting))
        found.append(Estimate("refusal_rate_at_least", part["bound_low"], **here, **every))
        found.append(Estimate("refusal_rate_at_most", part["bound_high"], **here, **every))
        found.append(Estimate(f"majority@{k}", part["majority"]["refuse"], **here, **counting))
        found.append(Estimate(f"majority@{k}_tie", part["majority"]["tie"], **here, **counting))
        found.append(Estimate(f"any@{k}", part["any"], **here, **counting))
    found += _c(score["c"], names | {"parameter": tau}, level)
    for state, share in state_shares(score).items():
        kind = "unjudged" if state == "unjudged" else "answer_state" if state in ANSWER_STATES else "verdict_state"
        parameter = None if kind == "unjudged" else state.removeprefix("verdict_")
        found.append(Estimate(kind, share, parameter=parameter, **names, **every))
    labelled, votes = score["verdict_states"][JUDGED], score.get("votes")
    for flag, n in score.get("judge_flags", {}).items():
        found.append(Estimate("answer_flag", n / labelled if labelled else None, parameter=flag, **names, **every))
    if votes:
        value = votes["n_asked_again"] / votes["n"] if votes["n"] else None
        found.append(Estimate("votes_asked_again", value, **names, **every))
    return found


def card_estimates(card: Row) -> list[Estimate]:
    """Return the estimates of a judge's card: over all gold answers, then by the model that wrote them."""
    found = list(_group(card, card, None))
    for group in card["models"]:
        found += _group(card, group, group["answering_model"])
    return found


def _c(c: Row, names: dict[str, Any], level: float) -> list[Estimate]:
    names = names | {"n_prompts": c["n"]}
    ends = {"low": c["low"], "high": c["high"], "level": level, "method": C_METHOD} if c["low"] is not None else {}
    shares = [Estimate(f"c_band_{band}", c[band], **names) for band in ("refusing", "mixed", "complying")]
    return [Estimate("c_mean", c["mean"], **ends, **names), *shares]


def card_numbers(group: Row) -> Iterator[tuple[str | None, str, float | None, Sequence[float | None] | None, int]]:
    """Yield all that a card, or a group of its answers, measures: reading, measure, value, ends of its interval, n.

    The reading is `three_class` for kappa of three labels, and None for the coverage.
    """
    yield None, "coverage", group["coverage"], group["coverage_interval"], group["n"]
    for reading in READINGS:
        part = group[reading]
        sizes: dict[str, int] = {"sensitivity": part["n_positive"], "specificity": part["n_negative"]}
        for name in CARD_MEASURES:
            n = sizes[name] if name in sizes else group["n_judged"]
            yield reading, name, part[name], part["intervals"][name], n
    three = group["three_class"]
    yield "three_class", "kappa", three["kappa"], three["interval"], group["n_judged"]
    soft: Any = group.get("soft")
    for name in ("ece", "brier", "roc_auc", "average_precision") if soft is not None else ():
        yield "broad", name, soft[name], soft[f"{name}_interval"], soft["n"]


def _group(card: Row, group: Row, answering_model: str | None) -> Iterator[Estimate]:
    names: dict[str, Any] = {"judge": card["judge"], "parameter": card["gold"], "category": answering_model}
    names["flags"] = ("few_clusters",) if group["few_clusters"] else ()
    for view, measure, value, interval, n in card_numbers(group):
        name = f"{measure}_three_class" if view == "three_class" else measure
        more: dict[str, Any] = {"n_prompts": n, "reading": view if view in READINGS else None}
        if measure in CARD_MEASURES and measure not in ("sensitivity", "specificity"):
            more["n_clusters"] = group["n_clusters"]
        low, high = interval or (None, None)
        if low is not None and high is not None:
            method = _CARD_METHODS.get(name, SHARE_METHOD)
            more |= {"low": low, "high": high, "level": card["level"], "method": method}
        yield Estimate(f"judge_{name}", value, **more, **names)
