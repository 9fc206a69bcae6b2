"""Files of activations: one tensor `states` [rows, layers, width] in safetensors, in the number format of the model.

bfloat16, which numpy lacks, is held as its 16 bits (`uint16`) until it is widened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.files import BadFile, canonical_json, written_whole

TENSOR, METADATA = "states", "refusal_eval"
HELD_AS: Mapping[str, type[np.generic]] = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32}
LARGEST_HEADER = 100_000_000  # bytes, as in safetensors itself
Bits = NDArray[Any]


@dataclass(frozen=True)
class StateHead:
    """What the header of a file says of its states; nothing of the file is kept open."""

    shape: tuple[int, ...]  # rows, layers, width
    kind: str  # BF16, F16 or F32
    offset: int  # of the states in the file, in bytes
    metadata: dict[str, Any]


@dataclass(frozen=True)
class StateFile:
    """A file's states, not yet read (a memory map), and its metadata."""

    bits: Bits
    kind: str  # BF16, F16 or F32
    metadata: dict[str, Any]


def widened(bits: Bits, kind: str) -> NDArray[np.float32]:
    """Return held bits as float32; each bfloat16 is the upper half of a float32."""
    if kind == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.astype(np.float32)


def read_states(path: str | Path) -> StateFile:
    """Return a file of states; it stays open as long as its states are used.

    Raises:
        BadFile: if it is damaged.
        OSError: if it cannot be opened.
    """
    head = read_head(path)
    held = np.dtype(HELD_AS[head.kind])
    bits = np.memmap(path, held, "r", head.offset, head.shape) if np.prod(head.shape) else np.zeros(head.shape, held)
    return StateFile(bits, head.kind, head.metadata)


def read_head(path: str | Path) -> StateHead:
    """Return what the header of a file of states says.

    Raises:
        BadFile: if the file is damaged, as far as header and size show it.
        OSError: if it cannot be opened.
    """
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            if not 0 < length <= min(size, LARGEST_HEADER):
                raise ValueError("no header")
            header = json.loads(handle.read(length))
        tensor, metadata = header[TENSOR], json.loads(header["__metadata__"][METADATA])
        begin, end = tensor["data_offsets"]
        shape, kind = tuple(tensor["shape"]), tensor["dtype"]
        held = np.dtype(HELD_AS[kind])
        if len(shape) != 3 or end - begin != held.itemsize * np.prod(shape) or 8 + length + end != size:
            raise ValueError("its size is not what its header says")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise BadFile(f"{path} is not a whole file of activations: {error}") from error
    return StateHead(shape, kind, 8 + length + begin, metadata)


def write_states(path: str | Path, bits: Bits, kind: str, metadata: Mapping[str, Any]) -> None:
    """Write a file of states in one step.

    Args:
        bits: the states as they are held, [rows, layers, width].
        kind: their safetensors type, a key of `HELD_AS`.
        metadata: what the file says of them.
    """
    bits = np.ascontiguousarray(bits)
    tensor = {"dtype": kind, "shape": list(bits.shape), "data_offsets": [0, bits.nbytes]}
    header = canonical_json({"__metadata__": {METADATA: canonical_json(dict(metadata))}, TENSOR: tensor}).encode()
    header += b" " * (-len(header) % 8)
    with written_whole(path, "wb") as handle:
        handle.write(len(header).to_bytes(8, "little"))
        handle.write(header)
        handle.write(bits.tobytes())
