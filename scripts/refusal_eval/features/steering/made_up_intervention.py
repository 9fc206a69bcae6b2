"""Made-up interventions whose effect is known without a reference, for `refusal-eval check --model`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from refusal_eval.activations.model_facts import model_facts
from refusal_eval.features.steering.intervention import FittedDirection, write_intervention
from refusal_eval.features.steering.intervention_file import CompiledIntervention
from refusal_eval.features.steering.loaded_intervention import LoadedIntervention

# Far longer than any state, so that what a state is rounded to hardly turns the vector that takes its place.
SIZE = 1e4
NEUTRAL = {"gate": None, "offset": "none", "towards": "negative"}


def made_up_intervention(weights: str, folder: Path, alike: bool) -> LoadedIntervention:
    """Return one that moves all streams to one vector after the last layer, or one of scale 0 after every layer.

    Raises:
        UserError: if the model is of no kind that can be steered.
    """
    mode, scale = ("pull", 1.0) if alike else ("add", 0.0)
    direction = made_up_direction(weights)
    layers = direction.layers[-1:] if alike else direction.layers
    file = folder / f"{mode}.safetensors"
    card = write_intervention(file, "checked", [direction], {"mode": mode, "layers": layers, "scale": scale, **NEUTRAL})
    return LoadedIntervention([CompiledIntervention.of_card(card, str(file))])


def made_up_direction(folder: str) -> FittedDirection:
    """Return a direction for the model in a folder, out of random numbers.

    Raises:
        UserError: if the folder does not say how many layers it has and how wide they are, or has quantized weights.
    """
    facts = model_facts(folder)
    layers = list(range(facts["model_layers"]))
    means = np.random.default_rng(0).normal(0.0, SIZE, (2, len(layers), facts["width"])).astype(np.float32)
    card: dict[str, Any] = {**facts, "direction": "made-up", "method": "md", "layers": layers, "ranking": layers}
    card |= {"model": "checked", "positions": "none", "dtype": "float32", "prompts": []}
    return FittedDirection("a made-up direction", card, means[0] - means[1], means[0], means[1])
