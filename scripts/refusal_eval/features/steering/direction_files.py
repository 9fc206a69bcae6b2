"""Files of directions: float32 tensors [layers, width] and one JSON value, in safetensors.

The tensors are `direction`, `mean_positive`, `mean_negative`, of a control `controlled`, and with neutral prompts
`mean_neutral`; the metadata's one key `refusal_eval` holds canonical JSON. A fitted direction is kept in the store,
under `directions/` by the SHA-256 of what it was made from: the last bits of linear algebra differ between machines,
and a steered model with other bits is another model.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from refusal_eval.core.files import BadFile, canonical_json, written_whole
from refusal_eval.features.steering.directions import FittedVectors

LOG = logging.getLogger(__name__)
FOLDER, METADATA = "directions", "refusal_eval"
TENSORS = ("direction", "mean_positive", "mean_negative")
CONTROLLED = "controlled"  # of a control: the vectors that it is the control of
NEUTRAL = "mean_neutral"  # of a direction with neutral prompts


def write_direction(path: str | Path, tensors: Mapping[str, NDArray[np.float32]], said: Mapping[str, Any]) -> None:
    """Write a direction in one step; the same values give the same bytes.

    Args:
        tensors: the arrays `TENSORS`, of a control `CONTROLLED`, with neutral prompts `NEUTRAL` too.
        said: the JSON value of its metadata.
    """
    arrays = {name: np.ascontiguousarray(tensors[name], dtype=np.float32) for name in tensors}
    with written_whole(path, "wb") as handle:
        handle.write(save(arrays, {METADATA: canonical_json(dict(said))}))


def read_direction(path: str | Path) -> tuple[dict[str, NDArray[np.float32]], dict[str, Any]]:
    """Return the tensors of a direction, [layers, width], and the JSON value of its metadata.

    Raises:
        BadFile: if it is damaged, or its tensors do not fit together or hold NaN or infinite values.
    """
    try:
        with safe_open(str(path), "numpy") as file:
            names = [*TENSORS, *sorted({CONTROLLED, NEUTRAL} & set(file.keys()))]
            tensors = {name: file.get_tensor(name).astype(np.float32) for name in names}
            said: dict[str, Any] = json.loads(file.metadata()[METADATA])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is not a direction: {error}; delete it and run again") from error
    if not isinstance(said, dict):
        raise BadFile(f"{path} is not a direction: its metadata is no object; delete it and run again")
    shape = tensors["direction"].shape
    if "width" in said:  # files of the store say neither width nor layers here
        if not isinstance(said.get("layers"), list):
            raise BadFile(f"{path} is not a direction: its metadata lacks `layers`; delete it and run again")
        shape = (len(said["layers"]), said["width"])
    for name, tensor in tensors.items():
        if len(shape) != 2 or tensor.shape != shape:
            raise BadFile(f"{path}: `{name}` is {tensor.shape}, and should be {shape}; delete it and run again")
        if not np.isfinite(tensor).all():
            raise BadFile(f"{path}: `{name}` holds NaN or infinite values; its activations overflowed")
    return tensors, said


def kept_or_fitted(store_dir: str | Path, made_from: str, fit: Callable[[], FittedVectors]) -> FittedVectors:
    """Return the stored direction that was made from the same, or fit and store it.

    Of two studies that fit it at the same time, both return what the first of them stored.

    Raises:
        BadFile: if the stored file is damaged.
    """
    path = Path(store_dir, FOLDER, f"{made_from}.safetensors")
    if not path.is_file():
        fitted = fit()
        own = path.with_name(f".{made_from}.{uuid.uuid4().hex}.tmp")
        write_direction(own, fitted.tensors(), {"ranking": fitted.ranking, "card": fitted.card})
        try:
            os.link(own, path)
        except FileExistsError:
            LOG.info("another study fitted the same direction at the same time; what it stored counts")
        except OSError:  # a file system without links: the best that is left
            os.replace(own, path)
        finally:
            own.unlink(missing_ok=True)
    tensors, said = read_direction(path)
    if missing := {"ranking", "card"} - set(said):
        raise BadFile(f"{path} is not a direction: its metadata lacks `{min(missing)}`; delete it and run again")
    return FittedVectors(**tensors, ranking=said["ranking"], card=said["card"])
