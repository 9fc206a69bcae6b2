"""The store: every response ever paid for, by key, shared by studies.

Layout: `<store>/<engine id>/<job>.jsonl`, one record a line. A file has one writer, and nobody appends to another's,
so that no locks are needed, on network file systems too. A line without its end of line was cut off by a kill: it is
ignored. When a key stands twice, the first in (file name, offset) order counts. `<job>.index.npz` is a small index,
rebuilt when missing.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from refusal_eval.files import BadFile, canonical_json

LINE_START = b'{"key":"'  # canonical JSON puts the key first, so that an index needs no parsing
KEY_DIGITS = 64

# The first 128 bits of a key, as two numbers; the whole key is compared when the record is read.
INDEX_ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("offset", "<u8")])
Index = npt.NDArray[np.void]


class StoreReader:
    """Finds responses of one engine by key."""

    def __init__(self, store_dir: str | Path, engine_id: str) -> None:
        self.folder = Path(store_dir, engine_id)
        self._indexes = [(path, load_index(path)) for path in sorted(self.folder.glob("*.jsonl"))]

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the keys without a response, each once, in the order given."""
        wanted = list(dict.fromkeys(keys))
        found = self.lookup(wanted, read=False)
        return [key for key in wanted if key not in found]

    def lookup(self, keys: Iterable[str], read: bool = True) -> dict[str, Any]:
        """Return the record of every key that has one (or None in its place when `read` is false).

        A record: {"key", "response": {...}, "serving": id of the serving record, "time"}.
        """
        wanted = sorted(set(keys))
        found: dict[str, Any] = {}
        for path, index in self._indexes:
            wanted = [key for key in wanted if key not in found]
            hits = _positions(index, wanted)
            if not hits:
                continue
            with open(path, "rb") as handle:
                for key, offset in sorted(hits, key=lambda hit: hit[1]):
                    handle.seek(offset)
                    line = handle.readline() if read else handle.read(len(LINE_START) + KEY_DIGITS)
                    if line[len(LINE_START) :][:KEY_DIGITS] == key.encode() and key not in found:
                        found[key] = _parsed(path, line) if read else None
        return found

    def serving(self) -> dict[str, Any]:
        """Return the serving records by id: versions, hardware and flags behind the responses."""
        records: dict[str, Any] = {}
        for path, _ in self._indexes:
            with open(path, "rb") as handle:
                for line in handle:
                    if not line.startswith(b'{"serving_id"') or not line.endswith(b"\n"):
                        break  # serving records stand at the head of a file
                    record = json.loads(line)
                    records[record["serving_id"]] = record["serving_record"]
        return records


class StoreWriter:
    """Appends responses to a file of its own. Each is on its way to the disk when `append` returns."""

    def __init__(self, store_dir: str | Path, engine_id: str, job: str) -> None:
        folder = Path(store_dir, engine_id)
        folder.mkdir(parents=True, exist_ok=True)
        started = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
        self.path = folder / f"{started}-{job}-{socket.gethostname()}-{os.getpid()}.jsonl"
        self._handle = open(self.path, "xb", buffering=0)  # noqa: SIM115 - lives as long as the writer
        self._offset = 0
        self._entries: list[tuple[int, int, int]] = []

    def describe(self, serving_id: str, serving_record: Mapping[str, Any]) -> None:
        """Write the serving record that the responses of this file refer to; call it before the first `append`."""
        self._write({"serving_id": serving_id, "serving_record": dict(serving_record)})

    def append(self, key: str, response: Mapping[str, Any], serving_id: str) -> None:
        """Append one response.

        Raises:
            OSError: if the disk takes no more; nothing of the record then counts.
        """
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        offset = self._offset
        self._write({"key": key, "response": dict(response), "serving": serving_id, "time": time})
        self._entries.append((*_halves(key), offset))

    def _write(self, record: Mapping[str, Any]) -> None:
        line = canonical_json(record).encode() + b"\n"
        written = self._handle.write(line) or 0
        while written < len(line):  # an unbuffered write may be cut short (disk full raises at the next)
            written += self._handle.write(line[written:]) or 0
        self._offset += len(line)

    def close(self) -> None:
        """Flush to the disk and write the index; an empty file is removed."""
        with contextlib.suppress(OSError):
            os.fsync(self._handle.fileno())
        self._handle.close()
        if not self._entries:
            self.path.unlink()
            return
        entries = np.array(self._entries, dtype=INDEX_ENTRY)
        _save_index(self.path, entries[np.argsort(entries, order=("high", "low", "offset"))], self._offset)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load_index(path: Path) -> Index:
    """Return a store file's index: entries (first 128 bits of the key, offset) in ascending order.

    Records behind what a saved index covers (their writer may still be at work) are read from the file itself.
    """
    saved, covered = _saved_index(path)
    size = path.stat().st_size
    if size <= covered:
        return saved
    entries = []
    with open(path, "rb") as handle:
        handle.seek(covered)
        offset = covered
        for line in handle:
            if line.endswith(b"\n") and line.startswith(LINE_START):
                entries.append((*_halves(line[len(LINE_START) :][:KEY_DIGITS].decode("ascii", "replace")), offset))
            offset += len(line)
    index: Index = np.concatenate([saved, np.array(entries, dtype=INDEX_ENTRY)])
    return index[np.argsort(index, order=("high", "low", "offset"))]


def _saved_index(path: Path) -> tuple[Index, int]:
    with contextlib.suppress(OSError, ValueError, KeyError, EOFError), np.load(_index_path(path)) as saved:
        if int(saved["size"]) <= path.stat().st_size:
            return saved["entries"], int(saved["size"])
    return np.empty(0, dtype=INDEX_ENTRY), 0


def _save_index(path: Path, entries: Index, size: int) -> None:
    with contextlib.suppress(OSError):  # an index is a convenience; without it the file is read
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".npz")
        with open(handle, "wb") as stream:
            np.savez(stream, entries=entries, size=np.int64(size))
        os.replace(temporary, _index_path(path))


def _index_path(path: Path) -> Path:
    return path.with_suffix(".index.npz")


def _halves(key: str) -> tuple[int, int]:
    try:
        return int(key[:16], 16), int(key[16:32], 16)
    except ValueError:
        return 0, 0  # not a record of ours; the comparison of the whole key turns it away


def _positions(index: Index, keys: list[str]) -> list[tuple[str, int]]:
    """Return (key, offset) of the index entries that share the first 128 bits with a key."""
    if not len(index) or not keys:
        return []
    halves = np.array([_halves(key) for key in keys], dtype=np.uint64)
    first = np.searchsorted(index["high"], halves[:, 0], side="left")
    hits = []
    for key, (_, low), position in zip(keys, halves, first, strict=True):
        high = np.uint64(int(key[:16], 16))
        while position < len(index) and index["high"][position] == high:
            if index["low"][position] == low:
                hits.append((key, int(index["offset"][position])))
            position += 1
    return hits


def _parsed(path: Path, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        what = f"{path}: a record is damaged: {error}"
        raise BadFile(f"{what}. Move this file away; its responses will be executed again.") from error
