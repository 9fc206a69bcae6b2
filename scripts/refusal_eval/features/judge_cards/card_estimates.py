"""The numbers of judge cards, and the row of the results table that each is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.features.judge_cards.card_tasks import REFUSES
from refusal_eval.stats.agreement.measures import UNSEEN
from refusal_eval.stats.estimates.cell_estimates import INTERVAL_METHOD
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS
from refusal_eval.stats.estimates.intervals import LIMIT_INTERVAL, RATE_INTERVAL
from refusal_eval.stats.estimates.resampling import METHOD as BOOTSTRAP

CardGroup = Mapping[str, Any]

CARD_BOOTSTRAP = f"{UNSEEN}; for small classes, what the ends of sensitivity and specificity allow"
RANKING = (
    f"{RATE_INTERVAL}, effective size from a cluster bootstrap, t quantile; {LIMIT_INTERVAL} over clusters of a class "
    "at 0 and 1"
)
_CARD_METHODS = {
    **dict.fromkeys(("balanced_accuracy", "f1", "kappa"), CARD_BOOTSTRAP),
    **dict.fromkeys(("kappa_three_class", "kappa_kinds"), UNSEEN),
    "ece": f"{BOOTSTRAP}; lower end 0 if noise alone may explain the value, else that of the basic bootstrap",
    "brier": BOOTSTRAP,
    **dict.fromkeys(("roc_auc", "average_precision"), RANKING),
}
# By the card's own word.
_CARD_FLAGS = {"written_to_label": "written_to_label", "labelled_by_model": "model_labels", "seen": "seen_gold"}
CARD_MEASURES = ("accuracy", "sensitivity", "specificity", "balanced_accuracy", "f1", "kappa")


def card_estimates(card: CardGroup) -> list[Estimate]:
    """Return the estimates of a judge's card: over all gold answers, then by the model that wrote them."""
    found = list(_group(card, card, None))
    for group in card["models"]:
        found += _group(card, group, group["answering_model"])
    return [*found, *_tasks(card)]


def _tasks(card: CardGroup) -> Iterator[Estimate]:
    """Yield the F1 of each task on each part of the gold set (`card_tasks.card_tasks`)."""
    for part in card.get("tasks", ()):
        for reading in (reading for reading in READINGS if reading in part):
            own = part[reading]
            few = (FEW_CLUSTERS,) if part["few_classes"][reading] else ()
            flags = (*few, *(flag for name, flag in _CARD_FLAGS.items() if card.get(name)))
            low, high = own["intervals"]["f1"] or (None, None)
            number = None if own["f1"] is None else NumberInterval(own["f1"], low, high, CARD_BOOTSTRAP)
            yield estimate_from(
                "judge_task_f1",
                number,
                card["level"],
                judge=card["judge"],
                parameter=card["gold"],
                category=part_name(part),
                reading=reading if part["task"] == REFUSES else None,
                n_prompts=part["n_judged"],
                n_clusters=part["n_clusters"],
                flags=flags,
            )


def part_name(part: CardGroup) -> str:
    """Return the name of a task on a part of a gold set, such as `response_harm, adversarial`."""
    of = part["slice"] or (part["expectation"] and f"expected to {part['expectation']}")
    return ", ".join(filter(None, (part["task"], of)))


def card_numbers(
    group: CardGroup,
) -> Iterator[tuple[str | None, str, float | None, Sequence[float | None] | None, int]]:
    """Yield all measures of a card or a group of its answers: reading, measure, value, ends of its interval, n.

    The reading is `three_class` for kappa of three labels, `kinds` for that of the judge's own label set, and None for
    the coverage.
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
    if own := group.get("kinds"):
        yield "kinds", "kappa", own["kappa"], own["interval"], own["n_judged"]
    soft: Any = group.get("soft")
    for name in ("ece", "brier", "roc_auc", "average_precision") if soft is not None else ():
        yield "broad", name, soft[name], soft[f"{name}_interval"], soft["n"]


def _group(card: CardGroup, group: CardGroup, answering_model: str | None) -> Iterator[Estimate]:
    names: dict[str, Any] = {"judge": card["judge"], "parameter": card["gold"], "category": answering_model}
    for view, measure, value, interval, n in card_numbers(group):
        name = measure if view in (*READINGS, None) else f"{measure}_{view}"
        more: dict[str, Any] = {"n_prompts": n, "reading": view if view in READINGS else None}
        few = (FEW_CLUSTERS,) if _is_of_few(group, view, measure) else ()
        more["flags"] = (*few, *(flag for name, flag in _CARD_FLAGS.items() if card.get(name)))
        if measure in CARD_MEASURES:
            sides = {"sensitivity": "n_positive_clusters", "specificity": "n_negative_clusters"}
            more["n_clusters"] = group[str(view)][sides[measure]] if measure in sides else group["n_clusters"]
        low, high = interval or (None, None)
        number = None if value is None else NumberInterval(value, low, high, _CARD_METHODS.get(name, INTERVAL_METHOD))
        yield estimate_from(f"judge_{name}", number, card["level"], **more, **names)


def _is_of_few(group: CardGroup, view: str | None, measure: str) -> bool:
    """Tell whether a number rests on few clusters: what classes decide by their own, of several the one with fewest."""
    if view in ("three_class", "kinds"):
        return bool(group[view]["few_clusters"])
    if view is None or measure in ("accuracy", "ece", "brier"):
        return bool(group["few_clusters"])
    few = group["few_classes"][view]
    return measure in few if measure in ("sensitivity", "specificity") else bool(few)
