"""What a direction rests on where few prompts, or few that weigh anything, are behind it.

With fewer negative prompts than dimensions their covariance has no rank outside the span of what they vary in. There
(Sigma + lambda I)^-1 only divides by lambda, so that almost all of a vector of `rmd` or `wrmd` lies there: it is the
difference of means without what the negative prompts vary in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from refusal_eval.activations.groups import Floats, Group, States
from refusal_eval.core.errors import UserError
from refusal_eval.features.steering.direction_entry import LEAST_NEGATIVE as LEAST
from refusal_eval.features.steering.directions import RIDGE, FitMethod
from refusal_eval.features.steering.held_out import held_out_of, split_held


def fitted_groups(positive: Group, negative: Group, hold_out: float, seed: int) -> tuple[Group, Group]:
    """Return the prompts of both sides that a vector is made from: those that are not held out."""
    return split_held(positive, negative, held_out_of(positive, negative, hold_out, seed))[0]


def refuse_few(method: FitMethod, negative: Group, allowed: bool) -> None:
    """Raise `UserError` if a covariance would be estimated from fewer than ten prompts, unless that is allowed.

    Args:
        negative: the prompts of the negative side that are not held out.
        allowed: the entry's `allow_few`.
    """
    count = _with_weight(method.weighting(negative))
    if method.name in RIDGE and count < LEAST and not allowed:
        without = f" (and {len(negative) - count} of weight 0)" if count < len(negative) else ""
        raise UserError(
            f"`{method.name}` needs the covariance of the negative side, and that side has {_prompts(count)} to fit "
            f"on{without}; {LEAST} are needed. Add prompts, take `{method.name.replace('rmd', 'md')}`, lower "
            "`hold_out`, or say `allow_few: true`"
        )


def support(
    positive: Group, negative: Group, layers: Sequence[int], method: FitMethod, vectors: States
) -> dict[str, Any]:
    """Return what the card says of the prompts behind a direction.

    `width`, `n_effective` of each side (the squared sum of the weights over the sum of their squares: how many equally
    weighted prompts they are worth), of `rmd` and `wrmd` with fewer negative prompts than dimensions also
    `outside_negative_span` by layer (see `outside_span`), and `few`: sentences about what is too few.

    Args:
        positive, negative: the prompts that are not held out, at the layers of `layers`.
        vectors: the fitted vectors, [layers, width].
    """
    sides = {"positive": method.weighting(positive), "negative": method.weighting(negative)}
    worth = {side: effective_number(group.weights) for side, group in sides.items()}
    width = vectors.shape[1]
    found: dict[str, Any] = {"width": width, "n_effective": worth}
    if method.name in RIDGE and _with_weight(sides["negative"]) < width:
        shares = [outside_span(vector, sides["negative"].at(place)) for place, vector in enumerate(vectors)]
        found["outside_negative_span"] = [
            {"layer": layer, "share": share} for layer, share in zip(layers, shares, strict=True)
        ]
    return found | {"few": list(_sentences(sides, worth, found))}


def effective_number(weights: Floats) -> float:
    """Return how many equally weighted prompts have a mean as sure as that with these weights; 0 without a weight."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def outside_span(vector: States, group: Group) -> float:
    """Return the share of a vector's energy (its squared length) outside the span of a group's variation.

    Args:
        vector: [width].
        group: at one layer; prompts without a weight vary nothing.
    """
    centred = (group.states - group.mean())[group.weights > 0]
    basis, triangle, _ = scipy.linalg.qr(centred.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    rank = int((sizes > sizes.max(initial=0.0) * max(centred.shape) * np.finfo(np.float32).eps).sum())
    unit = vector.astype(np.float64) / np.linalg.norm(vector.astype(np.float64))
    inside = basis[:, :rank].T @ unit
    return float(np.clip(1 - inside @ inside, 0, 1))


def _sentences(sides: Mapping[str, Group], worth: Mapping[str, float], found: Mapping[str, Any]) -> Iterator[str]:
    if outside := [layer["share"] for layer in found.get("outside_negative_span", ())]:
        count = _prompts(_with_weight(sides["negative"]), "negative ")
        least, most = (f"{100 * share:.2f}" for share in (min(outside), max(outside)))
        yield (
            f"its {count} to fit on are fewer than the {found['width']} "
            f"dimensions, and {least if least == most else f'{least} to {most}'} % of the energy of its fitted vectors "
            "lies outside the span of their variation, where the inverse covariance is the ridge's alone"
        )
    for side, group in sides.items():
        if len(group) < LEAST:
            yield f"its {side} side has only {_prompts(len(group))} to fit on"
        elif worth[side] < LEAST:
            yield (
                f"by their weights the {_prompts(len(group))} of its {side} side to fit on are worth only "
                f"{worth[side]:.1f} equally weighted ones"
            )


def _with_weight(group: Group) -> int:
    """The number of prompts that a mean or a covariance is made of."""
    return int((group.weights > 0).sum())


def _prompts(count: int, kind: str = "") -> str:
    return f"{count} {kind}prompt{'' if count == 1 else 's'}"
