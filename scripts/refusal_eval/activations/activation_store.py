"""The store of activations: states that were computed once, by what they were computed from, shared by studies.

Layout: `<store>/activations/<engine id>/<stamp>-<batch>.safetensors`, one file per batch of prompts, never changed. Its
metadata tells the key of each row and the layers. A key says what was computed (engine identity, token ids, positions),
not which layers: those are added by later files. Where a (key, layer) stands in several files, the first in the order
of their names counts; names begin with the time, so that what was read once stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.activations.tensor_files import StateFile, read_states
from refusal_eval.core.files import BadFile

LOG = logging.getLogger(__name__)
FOLDER = "activations"


class ActivationStore:
    """The stored activations of one engine, as they were when this was made or last refreshed."""

    def __init__(self, store_dir: str | Path, engine_id: str) -> None:
        self.folder = Path(store_dir, FOLDER, engine_id)
        self._read: dict[Path, StateFile] = {}
        self._damaged = set[Path]()
        self.refresh()

    def refresh(self) -> None:
        """Take in files that were written since."""
        self._where: dict[str, dict[int, tuple[Path, int, int]]] = {}  # of a key and a layer: file, row, column
        for path in sorted(self.folder.glob("*.safetensors")):
            if path not in self._read and path not in self._damaged:
                self._take_in(path)
        for path, file in sorted(self._read.items()):
            for row, key in enumerate(file.metadata["keys"]):
                places = self._where.setdefault(key, {})
                for column, layer in enumerate(file.metadata["layers"]):
                    places.setdefault(layer, (path, row, column))

    def _take_in(self, path: Path) -> None:
        """Read a file; the prompts of one that is damaged are computed again."""
        try:
            file = read_states(path)
            rows = len(file.metadata["keys"]), len(file.metadata["layers"])
            if file.bits.shape[:2] != rows:
                raise BadFile(f"{path} has {file.bits.shape[:2]} keys and layers, and names {rows}")
            self._read[path] = file
        except (BadFile, KeyError, TypeError) as error:
            LOG.warning("%s; its prompts are computed again", error)
            self._damaged.add(path)

    def missing(self, keys: Iterable[str], layers: Sequence[int]) -> list[str]:
        """Return the keys of which a layer is not stored, each once, in the order given."""
        return [key for key in dict.fromkeys(keys) if not set(layers) <= set(self._where.get(key, ()))]

    def states(self, keys: Sequence[str], layers: Sequence[int]) -> tuple[NDArray[Any], str]:
        """Return the states [keys, layers, width] as they are held, and their safetensors type.

        Raises:
            KeyError: if one is not stored.
        """
        first = self._read[self._where[keys[0]][layers[0]][0]]
        out = np.empty((len(keys), len(layers), first.bits.shape[2]), first.bits.dtype)
        for row, key in enumerate(keys):
            for column, layer in enumerate(layers):
                path, there_row, there_column = self._where[key][layer]
                out[row, column] = self._read[path].bits[there_row, there_column]
        return out, first.kind
