"""The store of activations: states that were computed once, by what they were computed from, shared by studies.

Layout: `<store>/activations/<engine id>/<stamp>-<batch>.safetensors`, one file per batch of prompts, never changed. Its
metadata tells the key of each row and the layers. A key says what was computed (engine identity, token ids, positions),
not which layers: those are added by later files. Where a (key, layer) stands in several files, the first in the order
of their names counts; names begin with the time at which a file was complete, so that what was read once stays. A
store has thousands of files: only their headers are read until their states are wanted, and then one at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.activations.tensor_files import HELD_AS, StateHead, read_head, read_states
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile

LOG = logging.getLogger(__name__)
FOLDER = "activations"


class ActivationStore:
    """The stored activations of one engine, as they were when this was made or last refreshed."""

    def __init__(self, store_dir: str | Path, engine_id: str) -> None:
        self.folder = Path(store_dir, FOLDER, engine_id)
        self._heads: dict[Path, StateHead] = {}
        self._damaged = set[Path]()
        self.refresh()

    def refresh(self) -> None:
        """Take in files that were written since."""
        self._where: dict[str, dict[int, tuple[Path, int, int]]] = {}  # of a key and a layer: file, row, column
        for path in sorted(self.folder.glob("*.safetensors")):
            if path not in self._heads and path not in self._damaged:
                self._take_in(path)
        for path, head in sorted(self._heads.items()):
            for row, key in enumerate(head.metadata["keys"]):
                places = self._where.setdefault(key, {})
                for column, layer in enumerate(head.metadata["layers"]):
                    places.setdefault(layer, (path, row, column))

    def _take_in(self, path: Path) -> None:
        """Read a file's header; the prompts of one that is damaged or cannot be read are computed again."""
        try:
            head = read_head(path)
            rows = len(head.metadata["keys"]), len(head.metadata["layers"])
            if head.shape[:2] != rows:
                raise BadFile(f"{path} has {head.shape[:2]} keys and layers, and names {rows}")
            self._heads[path] = head
        except (BadFile, KeyError, TypeError, OSError) as error:
            LOG.warning("%s; its prompts are computed again", _unread(path, error))
            self._damaged.add(path)

    def missing(self, keys: Iterable[str], layers: Sequence[int]) -> list[str]:
        """Return the keys of which a layer is not stored, each once, in the order given."""
        return [key for key in dict.fromkeys(keys) if not set(layers) <= set(self._where.get(key, ()))]

    def states(self, keys: Sequence[str], layers: Sequence[int]) -> tuple[NDArray[Any], str]:
        """Return the states [keys, layers, width] as they are held, and their safetensors type.

        Raises:
            KeyError: if one is not stored.
            UserError: if a file cannot be read any more.
        """
        first = self._heads[self._where[keys[0]][layers[0]][0]]
        out = np.empty((len(keys), len(layers), first.shape[2]), HELD_AS[first.kind])
        places: dict[Path, list[tuple[int, int, int, int]]] = {}  # of each file: row and column here, and there
        for row, key in enumerate(keys):
            for column, layer in enumerate(layers):
                path, there_row, there_column = self._where[key][layer]
                places.setdefault(path, []).append((row, column, there_row, there_column))
        for path, cells in places.items():
            try:
                bits = read_states(path).bits
            except OSError as error:
                raise UserError(f"{_unread(path, error)}; run again, and what is lost is computed again") from error
            for row, column, there_row, there_column in cells:
                out[row, column] = bits[there_row, there_column]
        return out, first.kind


def _unread(path: Path, error: Exception) -> str:
    """Return why a file was not read."""
    return f"{path} cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
