"""What held-out prompts say of a direction with neutral prompts: the unit of alpha, and a ranking by correlation.

After Refusal Steering (arXiv 2512.16602, section 3.3), at each layer, with u the vector at length 1, o the mean of the
neutral prompts and p(x) = <h(x) - o, u> the projection of a held-out prompt with refusal score c(x):

    s+     |Q.95(p | c > 0) / Q.95(c | c > 0)|, what alpha > 0 is multiplied by
    s-     |Q.05(p | c < 0) / Q.05(c | c < 0)|, what alpha < 0 is multiplied by
    score  r - RMSE, with r Pearson's correlation of p and c, and RMSE the root mean square of c 1[sign p != sign c]

s+ and s- are 1 where there is no such prompt, or the ratio is not finite. The code that the paper builds on takes the
quantile over the projections of all layers; here it is of one layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refusal_eval.activations.groups import Floats, Group
from refusal_eval.features.steering.directions import FittedVectors

HIGH, LOW = 0.95, 0.05


@dataclass(frozen=True)
class Projected:
    """What the projections of held-out prompts say of one layer."""

    scale_positive: float  # s+
    scale_negative: float  # s-
    correlation: float | None  # r; None where projections or scores do not vary
    rmse: float

    @classmethod
    def of(cls, projections: Floats, scores: Floats) -> Projected:
        """Return it for the projections and c(x) of the same prompts."""
        positive, negative = scores > 0, scores < 0
        wrong = np.where(np.sign(projections) != np.sign(scores), scores, 0.0)
        varies = len(scores) > 1 and np.ptp(projections) > 0 and np.ptp(scores) > 0
        return cls(
            _ratio(projections[positive], scores[positive], HIGH),
            _ratio(projections[negative], scores[negative], LOW),
            float(np.corrcoef(projections, scores)[0, 1]) if varies else None,
            float(np.sqrt(np.mean(wrong**2))),
        )

    def order(self) -> float:
        """Return what is smallest for the layer that comes first."""
        return np.inf if self.correlation is None else self.rmse - self.correlation

    def in_card(self) -> dict[str, Any]:
        """Return what the card says of the layer."""
        return {
            "correlation": self.correlation,
            "correlation_rmse": self.rmse,
            "scale_positive": self.scale_positive,
            "scale_negative": self.scale_negative,
        }


def _ratio(projections: Floats, scores: Floats, share: float) -> float:
    if not len(scores):
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = abs(np.quantile(projections, share) / np.quantile(scores, share))
    return float(ratio) if np.isfinite(ratio) else 1.0


def measured(
    fitted: FittedVectors, held_out: tuple[Group, Group], scores: Floats, neutral: Group, layers: Sequence[int]
) -> FittedVectors:
    """Return a direction with the mean of its neutral prompts, and in its card what held-out prompts say.

    Args:
        held_out: the held-out prompts of both sides, at the layers.
        scores: c(x) of each of them, those of the positive side first.
        neutral: the neutral prompts, likewise.
        layers: the numbers of the layers.
    """
    found, means = list[Projected](), list[Floats]()
    for place, vector in enumerate(fitted.direction.astype(np.float64)):
        mean = neutral.at(place).states.mean(axis=0)
        means.append(mean)
        states = np.concatenate([group.at(place).states for group in held_out])
        found.append(Projected.of((states - mean) @ (vector / np.linalg.norm(vector)), scores))
    by_layer = [layer | own.in_card() for layer, own in zip(fitted.card["layers"], found, strict=True)]
    ranked = sorted(zip(found, layers, strict=True), key=lambda pair: (pair[0].order(), pair[1]))
    card = fitted.card | {"layers": by_layer, "correlation_ranking": [number for _, number in ranked]}
    return replace(fitted, card=card, mean_neutral=np.asarray(means, dtype=np.float32))


def carried_over(measured_one: FittedVectors, control: FittedVectors) -> FittedVectors:
    """Return the control of a direction with what was measured of the direction.

    As its lengths and its ranking do, its steps and its ranking by correlation stay those of the direction.
    """
    keys = ("correlation", "correlation_rmse", "scale_positive", "scale_negative")
    by_layer = [
        own | {key: layer[key] for key in keys}
        for own, layer in zip(control.card["layers"], measured_one.card["layers"], strict=True)
    ]
    card = control.card | {"layers": by_layer, "correlation_ranking": measured_one.card["correlation_ranking"]}
    return replace(control, card=card, mean_neutral=measured_one.mean_neutral)
