"""Indexes of store files: where the record of a key lies, without parsing a record.

`<job>.index.npz` has the positions of the records of `<job>.jsonl` up to some byte. Files only grow, so an index stays
valid while its file is written; what follows that byte is read from the file, and all of it without an index.
"""

from __future__ import annotations

import binascii
import contextlib
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from refusal_eval.core.files import written_whole

LINE_START = b'{"key":"'  # canonical JSON puts the key first
KEY_START = slice(len(LINE_START), len(LINE_START) + 32)  # of a line: the 32 hex digits of its key that are indexed

# An index holds the first 128 bits of a key, as two numbers: no two keys, which are SHA-256, will ever agree in them.
INDEX_ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("offset", "<u8")])
Index = npt.NDArray[np.void]  # of INDEX_ENTRY, ascending by `high`; the records of one key ascending by offset
KeyNumbers = npt.NDArray[np.uint64]  # (number of keys, 2): high and low
FilePositions = npt.NDArray[np.int64]

SAVED_FROM = 1_000_000  # bytes that were read for want of an index, from which on a reader saves one


@dataclass(frozen=True)
class FileIndex:
    """The positions of the records in one store file."""

    path: Path
    entries: Index
    covered: int  # bytes up to the end of the last whole line
    size: int  # bytes of the file when it was read; an incomplete last line may follow `covered`
    closed: bool = False  # whether the writer has said that it is done

    def brought_up_to_date(self) -> FileIndex:
        """Return the index with what was appended to the file since; itself if that is nothing."""
        size = self.path.stat().st_size
        if size == self.size:
            return self
        if size < self.covered:  # this is another file, and not the one that grows
            return load_index(self.path)
        new, covered = _scan(self.path, self.covered)
        entries = np.concatenate([self.entries, new])
        return replace(self, entries=_ascending(entries), covered=covered, size=size, closed=False)


class IndexBuilder:
    """Collects index entries in little memory: 24 bytes a record."""

    def __init__(self) -> None:
        self._rows = bytearray()

    def __len__(self) -> int:
        return len(self._rows) // INDEX_ENTRY.itemsize

    def add(self, key_start: bytes, offset: int) -> None:
        """Add a record by the first 32 hex digits of its key (else `ValueError`) and the byte where its line begins."""
        numbers = binascii.unhexlify(key_start)
        if len(numbers) != 16:
            raise ValueError(f"not a key: {key_start!r}")
        self._rows += numbers + offset.to_bytes(8)

    def entries(self) -> Index:
        return _ascending(np.frombuffer(bytes(self._rows), dtype=INDEX_ENTRY.newbyteorder(">")).astype(INDEX_ENTRY))


def load_index(path: Path, save: bool = True) -> FileIndex:
    """Return a store file's index up to its last whole line, whatever of it was saved.

    Args:
        path: the store file.
        save: save the index when more was read for it than will be written. The file of a writer that was killed
            would otherwise be read again by every reader.
    """
    saved = _saved_index(path) or FileIndex(path, np.empty(0, dtype=INDEX_ENTRY), 0, 0)
    index = saved.brought_up_to_date()
    if save and index.covered - saved.covered > max(SAVED_FROM, index.entries.nbytes):
        save_index(index)
    return index


def save_index(index: FileIndex) -> None:
    """Save an index next to its file; it is optional, so failures to write are ignored."""
    with contextlib.suppress(OSError), written_whole(index_path(index.path), "wb") as stream:
        np.savez(stream, entries=index.entries, size=np.int64(index.covered), closed=np.bool_(index.closed))


def rebuild_index(path: Path) -> FileIndex:
    """Return the index of a store file that is not what its saved index says; that one is removed."""
    with contextlib.suppress(OSError):
        index_path(path).unlink()
    return load_index(path)


def index_path(path: Path) -> Path:
    return path.with_suffix(".index.npz")


def key_numbers(keys: Sequence[str]) -> KeyNumbers:
    """Return the numbers by which an index knows these keys."""
    digits = "".join(key[:32] for key in keys)
    return np.frombuffer(bytes.fromhex(digits), dtype=">u8").astype(np.uint64).reshape(-1, 2)


def matches(keys: KeyNumbers, entries: Index) -> tuple[FilePositions, FilePositions]:
    """Return the position in `keys` and the position in `entries` of every entry that belongs to one of the keys.

    `keys` is ascending, without duplicates.
    """
    if len(keys) <= len(entries):
        key, entry = _equal(keys[:, 0], entries["high"])
    else:
        entry, key = _equal(entries["high"], keys[:, 0])
    same = keys[key, 1] == entries["low"][entry]
    return key[same], entry[same]


def _equal(some: npt.NDArray[np.uint64], more: npt.NDArray[np.uint64]) -> tuple[FilePositions, FilePositions]:
    """Return the positions of all pairs of equal numbers; both ascend."""
    first = np.searchsorted(more, some, "left")
    counts = np.searchsorted(more, some, "right") - first
    in_some = np.repeat(np.arange(len(some)), counts)
    nth = np.arange(len(in_some)) - np.repeat(np.cumsum(counts) - counts, counts)
    return in_some, first[in_some] + nth


def _ascending(entries: Index) -> Index:
    # Stable: the records of one key stay in the order of the file, and a sorted part costs next to nothing.
    return entries[np.argsort(entries["high"], kind="stable")]


def _scan(path: Path, start: int) -> tuple[Index, int]:
    """Return the index of the whole lines from byte `start` on, and the byte where the last of them ends."""
    found, offset = IndexBuilder(), start
    with open(path, "rb") as handle:
        handle.seek(start)
        for line in handle:
            if not line.endswith(b"\n"):
                break
            if line.startswith(LINE_START):
                with contextlib.suppress(ValueError):  # not a record of ours
                    found.add(line[KEY_START], offset)
            offset += len(line)
    return found.entries(), offset


def _saved_index(path: Path) -> FileIndex | None:
    """Return the saved index of a file, or None if there is none, or none that fits the file."""
    # An index is a convenience: whatever is wrong with it, the file itself says all.
    with contextlib.suppress(Exception):
        if not _holds_what_it_says(index_path(path)):
            return None
        with np.load(index_path(path)) as saved:
            entries, covered = saved["entries"], int(saved["size"])
            closed = bool(saved["closed"]) if "closed" in saved else False
        if _fits(path, entries, covered):
            return FileIndex(path, entries, covered, covered, closed)
    return None


def _holds_what_it_says(index: Path) -> bool:
    """Tell whether an index is of our kind, and no array larger than its file: numpy takes memory before it reads."""
    most = index.stat().st_size
    with zipfile.ZipFile(index) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                np.lib.format.read_magic(stream)
                shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            if math.prod(shape) * dtype.itemsize > most or (name == "entries.npy" and dtype != INDEX_ENTRY):
                return False
    return True


def _fits(path: Path, entries: Index, covered: int) -> bool:
    """Tell whether a line of the file ends where the index ends, and its last record begins where the index says."""
    with open(path, "rb") as handle:
        handle.seek(max(covered - 1, 0))
        if handle.read(1) != b"\n":
            return False
        if not len(entries):
            return True
        last = entries[np.argmax(entries["offset"])]
        handle.seek(int(last["offset"]))
        return handle.read(KEY_START.stop) == LINE_START + f"{int(last['high']):016x}{int(last['low']):016x}".encode()
