"""Interventions: directions, and what a model does with them, compiled into the one file that a worker of vLLM reads.

With v the direction's raw vector at a layer (positive minus negative mean, in units of the residual stream),
u = v / |v|, s the scale and h the residual stream after the layer at one token:

    add      h + s v
    ablate   h - s <h - o, u> u, with o = 0 or the midpoint of both means
    gated    h + s v where cos(h, v) > gate, else h
    reposition
             h - <h - o, u> u + s v, with o the mean of the neutral prompts
    pull     h + s (mu - h), with mu the mean of the negative or the positive side
    constellation
             h + s (mu - h) where cos(h, mu) > gate, else h; with several directions, one for each task, and mu the one
             of their negative means that is most similar to h

Of `add`, `gated` and `reposition` the step may be alpha s+ u, or alpha s- u where alpha < 0, in place of s v, with the
direction's scales by quantile (projections.py); these and `reposition` are those of Refusal Steering (arXiv 2512.16602,
section 3.3).

With a control in place of a direction, v is the control's; `gated` compares h with the vector that it is the control
of, so that the same tokens are pushed; and `pull` and `constellation` move to the middle of both means plus or minus
v / 2, as far from the middle as mu. What task a token has, and whether it passes, is decided by mu all the same.

`add` and, with o = 0 and s = 1, `ablate` are activation addition and directional ablation of Arditi et al. (arXiv
2406.11717, section 2.4), after chosen layers; the offset is that of affine editing (Marshall et al., arXiv 2411.09003),
here at the midpoint. `constellation` approximates SafeConstellations (Maskey et al., arXiv 2508.11290), which finds one
task for a prompt, by the mean cosine of its last token over all layers, and adds s (mu - that token's h) to all tokens.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, written_whole
from refusal_eval.core.text_config import LAYERS_KEY, of_text
from refusal_eval.core.texts import ranges
from refusal_eval.features.steering.direction_files import CONTROLLED, NEUTRAL, read_direction
from refusal_eval.features.steering.intervention_file import METADATA, VERSION, intervention_sha256
from refusal_eval.features.steering.layers_left import layers_left
from refusal_eval.weights.engine_file import model_config, quantization_of

# What a model's card says of each direction, and what directions of one constellation have in common.
TOLD = ("direction", "method", "model", "positions", "dtype", "prompts")
ALIKE = ("architecture", "model_layers", "width", "model", "dtype", "positions", "layers")
RANKINGS = {"area": "ranking", "correlation": "correlation_ranking"}  # keys of a direction's file
Vector = np.ndarray  # [width], float64


@dataclass(frozen=True)
class FittedDirection:
    """A direction as its file has it: a raw vector for each captured layer, and both means."""

    file: str  # where it lies, for messages
    card: Mapping[str, Any]  # what the file's metadata says
    vectors: np.ndarray  # [layers, width], float32, in units of the residual stream
    mean_positive: np.ndarray  # the same
    mean_negative: np.ndarray  # the same
    controlled: np.ndarray | None = None  # the same, of a control: the vectors that it is the control of
    mean_neutral: np.ndarray | None = None  # the same, of a direction with neutral prompts

    @classmethod
    def of_file(cls, path: str | Path) -> FittedDirection:
        """Return the direction in a file.

        Raises:
            BadFile: see `read_direction`.
        """
        tensors, card = read_direction(path)
        own = {name: tensors[name] for name in ("mean_positive", "mean_negative")}
        return cls(
            str(path),
            card,
            tensors["direction"],
            **own,
            controlled=tensors.get(CONTROLLED),
            mean_neutral=tensors.get(NEUTRAL),
        )

    @property
    def layers(self) -> list[int]:
        """The captured decoder layers, 0-based, ascending."""
        return list(self.card["layers"])

    def at(self, layer: int) -> LayerParts:
        """Return what modes take of it at one layer, in float64."""
        place = self.layers.index(layer)
        like = self.vectors if self.controlled is None else self.controlled
        rows = (self.vectors, like, self.mean_negative, self.mean_positive)
        v, like_v, negative, positive = (row[place].astype(np.float64) for row in rows)
        targets = negative, positive
        if self.card["method"] == "random":
            middle = (negative + positive) / 2
            targets = middle - v / 2, middle + v / 2
        neutral = None if self.mean_neutral is None else self.mean_neutral[place].astype(np.float64)
        steps = self.card["scales"][place] if "scales" in self.card else None
        return LayerParts(v, like_v, negative, *targets, neutral=neutral, steps=steps)


@dataclass(frozen=True)
class LayerParts:
    """A direction at one layer."""

    v: Vector
    like: Vector  # what tokens are compared with: v, of a control the vector that it is the control of
    mean: Vector  # that of the negative side
    negative: Vector  # what tokens are pulled to: the mean, of a control a point as far from the middle of both means
    positive: Vector  # the same of the positive side
    neutral: Vector | None  # the mean of the neutral prompts
    steps: Sequence[float] | None  # what alpha is multiplied by where it is positive, and where it is negative


def ranking_of(directions: Sequence[FittedDirection], by: str = "area") -> list[int]:
    """Return the layers of directions, the best first: by the sum of their places in all rankings, then by number.

    Raises:
        UserError: for a direction without the ranking that is asked for.
    """
    key = RANKINGS[by]
    if lacking := next((direction for direction in directions if key not in direction.card), None):
        raise UserError(f"{lacking.file} has no ranking by {by}: it has no neutral prompts; give it some and run again")
    rankings = [direction.card[key] for direction in directions]
    return sorted(rankings[0], key=lambda layer: (sum(ranking.index(layer) for ranking in rankings), layer))


def chosen_layers(directions: Sequence[FittedDirection], asked: Sequence[int] | Mapping[str, Any]) -> list[int]:
    """Return the decoder layers to change, ascending: those that are named, or the best of the directions' ranking.

    Args:
        directions: one, or several that have the same layers.
        asked: the `layers` of an intervention.

    Raises:
        UserError: for layers that the directions do not have.
    """
    direction = directions[0]
    if isinstance(asked, Mapping):
        left = layers_left(direction.card["model_layers"], asked.get("drop_deepest"))
        ranking = [layer for layer in ranking_of(directions, asked.get("by", "area")) if layer < left]
        best = asked["best"]
        if best > len(ranking):
            without = " without the deepest" if asked.get("drop_deepest") is not None else ""
            raise UserError(
                f"`best: {best}` asks for more layers than {direction.file} ranks ({len(ranking)}{without})"
            )
        return sorted(ranking[:best])
    missing = sorted(set(asked) - set(direction.layers))
    if missing:
        has = f"layers {ranges(direction.layers)}"
        raise UserError(f"{direction.file} has no vector for layer {missing[0]}; it has those of {has}, counted from 0")
    return sorted(asked)


def refuse_other_model(direction: FittedDirection, folder: str | Path, where: str) -> None:
    """Raise `UserError` for a model that a direction does not belong to, or whose engine was never tried.

    Args:
        folder: the model's; what its config.json does not say is not compared here, but by the worker.
        where: whose it is, for the message.
    """
    config, card, wrong = model_config(folder), direction.card, f"{direction.file} does not fit {where}"
    text = of_text(config)
    architecture = next(iter(config.get("architectures") or ()), None)
    for what, has, needs in (
        ("the architecture", architecture, card["architecture"]),
        ("the number of decoder layers", text.get(LAYERS_KEY), card["model_layers"]),
        ("the width", text.get("hidden_size"), card["width"]),
    ):
        if has is not None and has != needs:
            raise UserError(f"{wrong}: {what} is {has}, and it was fitted on a model with {needs}")
    if quantization_of(folder):
        raise UserError(f"{where} has quantized weights, and interventions were never tried on these; take others")


def refuse_unlike(directions: Sequence[FittedDirection]) -> None:
    """Raise `UserError` unless all directions are of one model and alike, so that their means can be compared."""
    first = directions[0]
    for other in directions[1:]:
        if key := next((key for key in ALIKE if other.card[key] != first.card[key]), None):
            raise UserError(
                f"{other.file} does not fit {first.file}: its `{key}` is {other.card[key]}, and not {first.card[key]}; "
                "fit all directions of a constellation alike"
            )


def compiled(
    directions: Sequence[FittedDirection], asked: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what a compiled file says of itself and its tensors, `<layer>.<part>`, float32, with the scale folded in.

    Args:
        directions: one, or for `constellation` one for each task; their order does not change the file.
        asked: the `intervention` of a model's entry.

    Raises:
        UserError: for layers that the directions do not have, for directions that are unlike each other, for vectors
            without a direction, and for numbers beyond float32.
    """
    refuse_unlike(directions)
    layers, mode, card = chosen_layers(directions, asked["layers"]), asked["mode"], directions[0].card
    tensors: dict[str, np.ndarray] = {}
    for layer in layers:
        parts = MODES[mode](directions, layer, asked)
        with np.errstate(over="ignore"):
            found = {f"{layer}.{name}": np.asarray(part, dtype=np.float32) for name, part in parts.items()}
        if not all(np.isfinite(part).all() for part in found.values()):
            raise UserError(
                f"{directions[0].file}: with scale {asked['scale']}, layer {layer} needs more than float32 holds"
            )
        tensors |= found
    shape = {"model_layers": card["model_layers"], "width": card["width"], "architecture": card["architecture"]}
    gate = None if asked["gate"] is None else float(asked["gate"])
    return {"version": VERSION, "mode": mode, "layers": layers, "gate": gate, **shape}, tensors


def write_intervention(
    path: str | Path, model: str, directions: Sequence[FittedDirection], asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a model's compiled intervention; return its card.

    Raises:
        UserError: see `compiled`.
    """
    spec, tensors = compiled(directions, asked)
    with written_whole(path, "wb") as handle:
        handle.write(save(tensors, metadata={METADATA: canonical_json(spec)}))
    return {
        "model": model,
        "sha256": intervention_sha256(spec, tensors),
        **{key: spec[key] for key in ("version", "mode", "layers", "gate")},
        "asked": dict(asked),
        "directions": [{key: direction.card[key] for key in TOLD} for direction in directions],
    }


# ---------------------------------------------------------------- modes

Parts = Mapping[str, Any] | None


def _step(at: LayerParts, asked: Mapping[str, Any]) -> Vector | None:
    """Return what is added: the vector times the scale, or a step of alpha; None where the vector has no direction."""
    if not isinstance(asked["scale"], Mapping):
        return np.asarray(asked["scale"] * at.v)
    if at.steps is None:
        raise UserError("an `alpha` needs a direction with neutral prompts; give it some and run again")
    u, alpha = _unit(at.v), asked["scale"]["alpha"]
    return None if u is None else np.asarray(alpha * at.steps[0 if alpha > 0 else 1] * u)


def _add(at: LayerParts, asked: Mapping[str, Any]) -> Parts:
    step = _step(at, asked)
    return None if step is None else {"add": step}


def _ablate(at: LayerParts, asked: Mapping[str, Any]) -> Parts:
    u = _unit(at.v)
    if u is None:
        return None
    offset = 0.0 if asked["offset"] == "none" else math.fsum((at.negative + at.positive) / 2 * u)
    scale = 1.0 if asked["scale"] is None else asked["scale"]
    return {"unit": u, "offset": [offset], "remove": scale * u}


def _gated(at: LayerParts, asked: Mapping[str, Any]) -> Parts:
    u, step = _unit(at.like), _step(at, asked)
    return None if u is None or step is None else {"unit": u, "add": step}


def _reposition(at: LayerParts, asked: Mapping[str, Any]) -> Parts:
    """Return a removal to another point: h - <h - o, u> u + s v is h - (<h, u> - t) u with t = <o, u> + <s v, u>."""
    if at.neutral is None:
        raise UserError("`reposition` needs a direction with neutral prompts; give it some and run again")
    u, step = _unit(at.v), _step(at, asked)
    if u is None or step is None:
        return None
    return {"unit": u, "offset": [math.fsum(at.neutral * u) + math.fsum(step * u)], "remove": u}


def _pull(at: LayerParts, asked: Mapping[str, Any]) -> Parts:
    return {"target": at.positive if asked["towards"] == "positive" else at.negative, "share": [asked["scale"]]}


def _along(
    mode: Callable[[LayerParts, Mapping[str, Any]], Parts],
    directions: Sequence[FittedDirection],
    layer: int,
    asked: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return the parts of a mode with one direction, at one layer."""
    parts = mode(directions[0].at(layer), asked)
    if parts is None:
        raise UserError(f"{directions[0].file}: the vector of layer {layer} is zero and has no direction")
    return parts


def _tasks(directions: Sequence[FittedDirection], layer: int, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parts of `constellation` at one layer: targets and units are [tasks, width]."""
    pairs = list[tuple[Vector, Vector]]()
    for direction in directions:
        at = direction.at(layer)
        unit = _unit(at.mean)
        if unit is None:
            raise UserError(
                f"{direction.file}: the negative side's mean at layer {layer} is zero, and no token is like it"
            )
        pairs.append((at.negative, unit))
    # In an order that their numbers alone decide: neither names nor the order of the list are in a key.
    targets, units = zip(*sorted(pairs, key=lambda pair: pair[0].tobytes()), strict=True)
    return {"targets": targets, "units": units, "share": [asked["scale"]]}


MODES: dict[str, Callable[[Sequence[FittedDirection], int, Mapping[str, Any]], Mapping[str, Any]]] = {
    "add": functools.partial(_along, _add),
    "ablate": functools.partial(_along, _ablate),
    "gated": functools.partial(_along, _gated),
    "reposition": functools.partial(_along, _reposition),
    "pull": functools.partial(_along, _pull),
    "constellation": _tasks,
}


def _unit(v: Vector) -> Vector | None:
    """Return a vector at length 1, by an exactly rounded sum, so that every machine compiles the same bytes."""
    length = math.sqrt(math.fsum(v.astype(np.float64) ** 2))
    return None if length == 0 else v / length
