"""Sweeps: one entry that stands for models whose interventions differ in scale or layers, and their curves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from refusal_eval.config.intervention_entry import BestLayers, Intervention, Layers
from refusal_eval.config.shapes import Entry, Number

if TYPE_CHECKING:
    from refusal_eval.config.entries import Model

MINUS = "\u2212"
# Fields of a model that two points of one curve may differ in.
OWN = {"label", "sweep", "unverified"}


def _different(values: list[Any]) -> list[Any]:
    if any(value in values[:place] for place, value in enumerate(values)):
        raise ValueError("names a value twice")
    return values


class Sweep(Entry):
    """What the models of a dose-response study differ in; all combinations are models."""

    scale: Annotated[list[Number], Field(min_length=1), AfterValidator(_different)] | None = Field(
        None, description="Scales, such as `[-1, -0.5, 0.5, 1]`. The model without an intervention is scale 0."
    )
    layers: Annotated[list[Layers | BestLayers], Field(min_length=1), AfterValidator(_different)] | None = Field(
        None, description="Choices of layers, such as `[[15], [15, 16, 17, 18], {best: 4}]`."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Sweep:
        if self.scale is None and self.layers is None:
            raise ValueError("name `scale` or `layers`, or both: what its models differ in")
        return self


def swept(name: str, model: Model) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each model of a sweep, and the keys in which it differs from the sweep's entry.

    Args:
        name: of the entry.
        model: the entry.
    """
    assert model.sweep is not None
    scales: Sequence[float | None] = model.sweep.scale or [None]
    choices: Sequence[list[int] | BestLayers | None] = model.sweep.layers or [None]
    for scale, layers in itertools.product(scales, choices):
        changes: dict[str, Any] = {}
        names, labels = [name], [model.label]
        if scale is not None:
            changes["scale"] = scale
            names.append(f"scale{scale:g}".replace("+", ""))
            labels.append(f"scale {scale:g}".replace("-", MINUS))
        if layers is not None:
            changes["layers"] = layers if isinstance(layers, list) else layers.model_dump()
            names.append(f"layers{_layers_text(layers, 'to', '-')}".replace("layersbest ", "best"))
            labels.append(f"layers {_layers_text(layers)}")
        label = ", ".join(map(str, labels)) if model.label else None
        yield ".".join(names), {"sweep": None, "label": label, "intervention": changes}


def _layers_text(layers: Sequence[int] | BestLayers, to: str = "\u2013", between: str = ", ") -> str:
    """Return layers in few characters: neighbours as a range."""
    if isinstance(layers, BestLayers):
        return f"best {layers.best}"
    runs: list[list[int]] = []
    for layer in sorted(layers):
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return between.join(str(run[0]) if len(run) == 1 else f"{run[0]}{to}{run[-1]}" for run in runs)


# ---------------------------------------------------------------- curves


def curves(models: Mapping[str, Model], directions: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the scales, ascending, of models that differ in nothing else, by model and by the curve that they are.

    The model without an intervention has scale 0 in each of its curves. A curve's label says what it differs in from
    the others: what is steered, the direction, the mode, its layers.

    Args:
        models: in order.
        directions: entries of the directions that their interventions name.
    """
    groups: dict[str, dict[str, float]] = {}
    plain: dict[str, str] = {}
    parts: dict[str, list[str]] = {}
    for name, model in models.items():
        rest = repr(model.model_dump(exclude={*OWN, "intervention"}))
        if model.intervention is None:
            plain.setdefault(rest, name)
            continue
        asked = model.intervention
        key = rest + repr(asked.model_dump(exclude={"scale"}))
        groups.setdefault(key, {})[name] = 1.0 if asked.scale is None else asked.scale
        parts.setdefault(key, [rest, *_words(asked, directions)])
    base = {key: plain.get(rest) for key, (rest, *_) in parts.items()}
    labels = {name: models[name].label or name for name in plain.values()}
    told = {key: [labels.get(base[key] or "", ""), *words] for key, (_, *words) in parts.items()}
    differing = [place for place, column in enumerate(zip(*told.values(), strict=True)) if len(set(column)) > 1]
    found: dict[str, dict[str, float]] = {}
    for key, scales in groups.items():
        label = ", ".join(told[key][place] for place in differing or [1] if told[key][place])
        if label in found:
            label = f"{label} ({next(iter(scales))})"
        unsteered = base[key]
        points = scales if unsteered is None else {unsteered: 0.0, **scales}
        found[label] = dict(sorted(points.items(), key=lambda item: item[1]))
    return found


def _words(asked: Intervention, directions: Mapping[str, Any]) -> list[str]:
    """What tells an intervention from others, but for its scale."""
    direction = directions.get(asked.direction)
    more = [f"gate {asked.gate:g}" if asked.gate is not None else "", asked.offset if asked.offset != "none" else ""]
    more += [f"towards {asked.towards}"] if asked.mode == "pull" else [""]
    label = getattr(direction, "label", None) or asked.direction
    return [label, asked.mode, f"layers {_layers_text(asked.layers)}", *more]
