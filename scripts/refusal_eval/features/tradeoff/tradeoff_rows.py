"""The rows of the results table that make up a model's place in the trade-off."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from refusal_eval.features.tradeoff.attack_tradeoff import FAILED, RENAMED
from refusal_eval.report.paper.display import Labels, clean, join_texts
from refusal_eval.stats.estimates.estimands import MIXED
from refusal_eval.stats.estimates.estimate import Estimate

KINDS = {"over_refusal": "comply", "safety": "refuse"}


class ModelRows(NamedTuple):
    """The rows of one model under one judge; all but J are None for a model without a J."""

    youden_j: Estimate
    over_refusal: Estimate | None = None
    safety: Estimate | None = None
    correlation: Estimate | None = None
    front: Estimate | None = None
    front_share: Estimate | None = None  # None also for a single model

    @property
    def on_front(self) -> bool | None:
        """Whether no other model dominates it; None without a J."""
        return None if self.front is None else self.front.value == 1


def other_axes(found: Mapping[str, Any], show: Labels) -> list[str]:
    """Return what papers weigh over-refusal against that is no rate of refusals, a sentence for each such quantity.

    Args:
        found: the result of the analysis.
    """
    splits: dict[str, list[str]] = {}
    for split, axis in found.get("weighed_against", {}).items():
        splits.setdefault(clean(axis), []).append(show.split(split))
    return [
        f"In the paper of {join_texts(names)} the other axis is {axis}: another quantity than refusal of what should "
        "be declined."
        for axis, names in splits.items()
    ]


def model_rows(
    rows: Iterable[Estimate], splits: Sequence[Mapping[str, Any]], attacks: bool = False
) -> dict[tuple[str | None, str | None], ModelRows]:
    """Return the rows of each judge and model that has any.

    Args:
        rows: of the results table.
        splits: of the study, each `expectation` and `reading`.
        attacks: whether safety is 1 - ASR of attacked prompts.
    """
    readings = {kind: {s["reading"] for s in splits if s["expectation"] == kind} for kind in KINDS.values()}
    pooled: dict[tuple[str, str | None, str | None], str] = {
        ("refusal_rate", kind, MIXED if len(own) > 1 else next(iter(own), None)): name
        for name, kind in KINDS.items()
        if not (attacks and name == "safety")
        for own in (readings[kind],)
    }
    names = {"youden_j": "youden_j", "tradeoff_correlation": "correlation", "pareto_front": "front"}
    names["pareto_front_share"] = "front_share"
    if attacks:
        names = {RENAMED[name]: field for name, field in names.items()} | {FAILED: "safety"}
    found: dict[tuple[str | None, str | None], dict[str, Estimate]] = {}
    for row in rows:
        name = names.get(row.estimand) or pooled.get((row.estimand, row.pool, row.reading))
        if name:
            found.setdefault((row.judge, row.model), {})[name] = row
    weighed = {who: own for who, own in found.items() if "youden_j" in own}
    return {
        who: ModelRows(**own) if own["youden_j"].value is not None else ModelRows(own["youden_j"])
        for who, own in weighed.items()
    }
