"""A compiled intervention: the file that a worker of vLLM reads, and what identifies it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json

if TYPE_CHECKING:
    import numpy as np

VERSION = 1  # of the file and of what the modes mean, as in vllm_worker/steered_stream.py
HASHED = ("gate", "layers", "mode", "version")
METADATA = "refusal_eval"  # the one key of the file's metadata


@dataclass(frozen=True)
class CompiledIntervention:
    """A model's compiled intervention, as its card has it."""

    model: str  # the model's name
    sha256: str  # of its content, see `intervention_sha256`
    version: int
    mode: str
    layers: tuple[int, ...]  # 0-based decoder layers, ascending
    file: str  # the compiled file
    gate: float | None = None  # of modes that leave tokens as they are

    @classmethod
    def of_card(cls, card: Mapping[str, Any], file: str) -> CompiledIntervention:
        """Return the intervention that a card describes, compiled into `file`."""
        keys = ("model", "sha256", "version", "mode", "gate")
        return cls(**{key: card[key] for key in keys}, layers=tuple(card["layers"]), file=file)

    @property
    def identity(self) -> dict[str, Any]:
        """The part of it that is in the key of every request of its model; it never changes form."""
        return {"sha256": self.sha256, "version": self.version}

    def unchanged(self) -> CompiledIntervention:
        """Return it with its whole path, for the engine.

        Raises:
            UserError: for a file whose content is not the card's: it has another key.
        """
        spec, tensors = read_compiled(self.file)
        if intervention_sha256(spec, tensors) != self.sha256:
            raise UserError(f"{self.file} has changed since its requests were planned; delete it and run again")
        return replace(self, file=os.path.abspath(self.file))


def intervention_sha256(spec: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 (64 hex digits) that identifies an intervention.

    It is taken over canonical JSON of mode, layers, gate and version, and the bytes of the tensors in the order of
    their names: not over the file, whose header may be written in other ways.
    """
    digest = hashlib.sha256(canonical_json({key: spec[key] for key in HASHED}).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].astype("<f4").tobytes())
    return digest.hexdigest()


def read_compiled(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what a compiled file says of itself, and its tensors by name.

    Raises:
        UserError: if it is none.
    """
    import json

    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            spec = json.loads((file.metadata() or {})[METADATA])
            if not isinstance(spec, dict) or not set(HASHED) <= set(spec):
                raise ValueError(f"its metadata lacks one of {', '.join(HASHED)}")
            return spec, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(f"{path} is not a compiled intervention ({error}); delete it and run again") from error
