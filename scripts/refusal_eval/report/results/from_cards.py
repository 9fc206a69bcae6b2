"""The estimates that a judge's card holds, one row of the results table each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate, Number, estimated
from refusal_eval.stats.estimates.cell_estimates import INTERVAL_METHOD

Row = Mapping[str, Any]

BOOTSTRAP = "cluster bootstrap, expanded percentile"
UNSEEN = f"{BOOTSTRAP}, at least what unseen errors allow"
CARD_BOOTSTRAP = f"{UNSEEN}; for small classes, what the ends of sensitivity and specificity allow"
RANKING = (
    "Wilson, effective size from a cluster bootstrap, t quantile; Clopper-Pearson over clusters of a class at 0 and 1"
)
_CARD_METHODS = {
    **dict.fromkeys(("balanced_accuracy", "f1", "kappa"), CARD_BOOTSTRAP),
    "kappa_three_class": UNSEEN,
    "ece": f"{BOOTSTRAP}; lower end 0 if noise alone may explain the value, else that of the basic bootstrap",
    "brier": BOOTSTRAP,
    **dict.fromkeys(("roc_auc", "average_precision"), RANKING),
}
CARD_MEASURES = ("accuracy", "sensitivity", "specificity", "balanced_accuracy", "f1", "kappa")
SHARE_METHOD = INTERVAL_METHOD


def card_estimates(card: Row) -> list[Estimate]:
    """Return the estimates of a judge's card: over all gold answers, then by the model that wrote them."""
    found = list(_group(card, card, None))
    for group in card["models"]:
        found += _group(card, group, group["answering_model"])
    return found


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
        number = None if value is None else Number(value, low, high, _CARD_METHODS.get(name, SHARE_METHOD))
        yield estimated(f"judge_{name}", number, card["level"], **more, **names)
