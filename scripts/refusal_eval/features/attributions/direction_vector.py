"""The vector of one layer of a direction of the study, on which the score `direction` projects."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile

TENSOR, METADATA = "direction", "refusal_eval"  # of directions/{direction}.safetensors


class LayerVector(NamedTuple):
    """A vector of length 1, and the layer behind which it is."""

    layer: int
    model_layers: int
    values: NDArray[np.float32]

    @property
    def identity(self) -> dict[str, Any]:
        """What of it decides a projection."""
        return {"layer": self.layer, "sha256": hashlib.sha256(self.values.astype("<f4").tobytes()).hexdigest()}

    @property
    def asked(self) -> dict[str, Any]:
        """What the program that projects is told."""
        return {"layer": self.layer, "model_layers": self.model_layers, "vector": self.values.tolist()}


def layer_vector(path: str | Path, layer: int) -> LayerVector:
    """Return the vector of a layer of a direction's file.

    Raises:
        BadFile: if the file is no direction.
        UserError: if the direction has no vector of this layer, or one of length 0.
    """
    try:
        with safe_open(str(path), "numpy") as file:
            vectors = file.get_tensor(TENSOR).astype(np.float64)
            said = json.loads(file.metadata()[METADATA])
        name, layers, depth = str(said["direction"]), list(said["layers"]), int(said["model_layers"])
        whole = vectors.shape == (len(layers), said["width"]) and bool(np.isfinite(vectors).all())
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is not a direction: {error}; delete it and run again") from error
    if not whole:
        raise BadFile(f"{path} is not a direction: its vectors are not whole; delete it and run again")
    if layer not in layers:
        known = ", ".join(map(str, layers))
        raise UserError(f"direction `{name}` has no vector of layer {layer}; it has those of {known}")
    vector = vectors[layers.index(layer)]
    if not (length := float(np.linalg.norm(vector))):
        raise UserError(f"direction `{name}` has a vector of length 0 in layer {layer}; name another layer")
    return LayerVector(layer, depth, (vector / length).astype(np.float32))
