"""A store of what programs of the engine environment computed once, by all that decides it, shared by studies.

Layout: `<store>/<folder>/<engine id>/<stamp>-<writer>.jsonl`, one file per job, a line for each piece as soon as it is
complete. A line that a killed job left torn is ignored. Where a key is in several files, the first file in the order of
their names counts.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import socket
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LOG = logging.getLogger(__name__)


class LineStore:
    """The stored lines of one kind for one engine, as they were when this was made or last refreshed.

    Args:
        folder: of the kind.
        fields: what each line has; `key` is one of them.
        pieces: what lines are, for messages: `texts`.
    """

    def __init__(self, store_dir: str | Path, folder: str, engine_id: str, fields: Iterable[str], pieces: str) -> None:
        self.folder = Path(store_dir, folder, engine_id)
        self._fields, self._pieces = set(fields), pieces
        self.refresh()

    def refresh(self) -> None:
        """Read the files as they are now."""
        self.lines: dict[str, dict[str, Any]] = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            for line in self._whole_lines(path):
                self.lines.setdefault(line["key"], line)

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the keys that are not stored, each once, in the order given."""
        return [key for key in dict.fromkeys(keys) if key not in self.lines]

    def new_file(self) -> Path:
        """Return the path of a file for one more job."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
        return self.folder / f"{now}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"

    def _whole_lines(self, path: Path) -> list[dict[str, Any]]:
        """Return the lines of a file that are whole; what is lost is computed again."""
        found, lost = [], 0
        for text in path.read_bytes().split(b"\n"):
            try:
                line = json.loads(text) if text else None
            except ValueError:
                lost, line = lost + 1, None
            if isinstance(line, dict) and line.keys() >= self._fields:
                found.append(line)
        if lost:
            LOG.warning("%s: %d lines are damaged; their %s are computed again", path, lost, self._pieces)
        return found
