"""Whether a LoRA adapter fits the weights that it is to change.

vLLM 0.32 does not ask: layers that the model does not have are left out without a word, and matrices that are too
small are filled up with zeros (both tried). Answers would then be the base model's, or nobody's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from refusal_eval.core.errors import UserError
from refusal_eval.weights.adapter import WEIGHTS, module_shapes
from refusal_eval.weights.tensors import Tensor, read_tensors

# Models name their parts differently in training and in serving; from the layer's number on they agree.
FROM_THE_LAYER = re.compile(r"(?:^|\.)([A-Za-z_]+\.\d+\..+)$")
WHOLE_NUMBERS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")  # one stored number per weight; others are packed

Shape = tuple[int, ...]


def check_fits(adapter_folder: str | Path, weights_folder: str | Path, log: logging.Logger) -> None:
    """Check an adapter against the weights of its engine.

    Raises:
        UserError: if it was made for a model of another depth or width.
    """
    modules = module_shapes(read_tensors(Path(adapter_folder) / WEIGHTS))
    base = base_modules(
        (name, tensor)
        for path in sorted(Path(weights_folder).glob("*.safetensors"))
        for name, tensor in read_tensors(path).items()
    )
    compared = count_fitting(modules, base, f"the adapter {adapter_folder}", str(weights_folder))
    if compared:
        log.info("%s: %d of %d modules were compared with the weights", adapter_folder, compared, len(modules))
    else:
        log.warning("%s: its modules have other names than the weights; whether it fits is not known", adapter_folder)


def base_modules(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, list[Shape | None]]:
    """Return the shapes of a model's modules by the name from the layer on; None where the weights are packed."""
    found: dict[str, list[Shape | None]] = {}
    for name, tensor in tensors:
        module, _, last = name.rpartition(".")
        plain = last == "weight" and tensor.kind in WHOLE_NUMBERS and len(tensor.shape) == 2
        found.setdefault(_from_the_layer(module), []).append(tensor.shape if plain else None)
    return found


def count_fitting(
    modules: Mapping[str, Mapping[str, Shape]], base: Mapping[str, list[Shape | None]], adapter: str, weights: str
) -> int:
    """Return how many modules of an adapter were found among those of the weights.

    Args:
        modules: shapes of the adapter's matrices by module (see `module_shapes`).
        base: shapes of the model's modules (see `base_modules`).
        adapter: what messages call the adapter.
        weights: what messages call the weights.

    Raises:
        UserError: if a layer is missing, or a shape is another one.
    """
    patterns, compared = {_pattern(name) for name in base}, 0
    for module, shapes in modules.items():
        name = _from_the_layer(module)
        if name not in base:
            if _pattern(name) in patterns:
                raise UserError(f"{adapter} does not fit {weights}, which has no {name}: it was made for another model")
            continue
        compared += 1
        known = [shape for shape in base[name] if shape is not None]
        wanted = (shapes["b"][0], shapes["a"][1])
        # Some old models store their matrices the other way round.
        if known and not any(shape in (wanted, wanted[::-1]) for shape in known):
            told = " x ".join(map(str, known[0])), " x ".join(map(str, wanted))
            raise UserError(
                f"{adapter} does not fit {weights}: {name} has {told[0]} weights, but the adapter is for {told[1]}; "
                "it was made for another model"
            )
    return compared


def _from_the_layer(module: str) -> str:
    found = FROM_THE_LAYER.search(module)
    return found[1] if found else module


def _pattern(name: str) -> str:
    return re.sub(r"\d+", "#", name)
