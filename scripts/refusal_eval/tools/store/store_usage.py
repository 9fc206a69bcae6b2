"""What lies in the store, engine by engine, and how much of it nobody asks for; removing that."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from refusal_eval.ask.store import writer_mark
from refusal_eval.ask.store_index import (
    KEY_START,
    LINE_START,
    FileIndex,
    IndexBuilder,
    index_path,
    key_numbers,
    load_index,
    matches,
    save_index,
)
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import written_whole

KEY = slice(len(LINE_START), len(LINE_START) + 64)  # of a line: the key
# A file that its writer has not closed may still be written: when it was written to in the last hour, or when the
# process that its name tells runs on this host. After a day in silence such a process is another one of that number.
HOUR, DAY = 3600.0, 86400.0


@dataclass(frozen=True)
class FileUsage:
    """One store file.

    Attributes:
        index: where its records lie.
        unasked: number of its records that nobody asks for, and `unasked_bytes` their size.
        first: time of its first record (UTC, ISO 8601), and `last` of its last; empty when it has none.
        written: why the file is taken for one that is still written; empty when it is not.
    """

    index: FileIndex
    unasked: int
    unasked_bytes: int
    first: str
    last: str
    written: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.index.path


@dataclass
class EngineUsage:
    """What the store holds of one engine."""

    engine_id: str
    files: list[FileUsage] = field(default_factory=list)
    distinct: int = 0

    @property
    def responses(self) -> int:
        """Number of records."""
        return sum(len(file.index.entries) for file in self.files)

    @property
    def bytes(self) -> int:
        """Size of the files without their indexes."""
        return sum(file.index.size for file in self.files)

    @property
    def first(self) -> str:
        """Time of the first record."""
        return min((file.first for file in self.files if file.first), default="")

    @property
    def last(self) -> str:
        """Time of the last record."""
        return max((file.last for file in self.files), default="")

    @property
    def unasked(self) -> int:
        """Number of records that nobody asks for."""
        return sum(file.unasked for file in self.files)

    @property
    def unasked_bytes(self) -> int:
        """Size of the records that nobody asks for."""
        return sum(file.unasked_bytes for file in self.files)


def store_indexes(store: Path) -> dict[str, list[FileIndex]]:
    """Return the indexes of the store's files as they are now, by engine id. Nothing is written, no link followed.

    To be asked before what the studies ask for is: later turns of dialogues are known from the responses so far, so
    that a response which comes after that would look as if nobody asked for it.
    """
    folders = sorted(entry.name for entry in os.scandir(store) if entry.is_dir(follow_symlinks=False))
    return {name: _indexes(store / name) for name in folders}


def store_usage(indexes: Mapping[str, Sequence[FileIndex]], asked: Mapping[str, Collection[str]]) -> list[EngineUsage]:
    """Return what the store holds, an entry per engine.

    Args:
        indexes: of the store's files, by engine id.
        asked: the keys that are asked for, by engine id.
    """
    return [_engine_usage(name, files, sorted(asked.get(name, ()))) for name, files in indexes.items()]


def links(store: Path) -> list[Path]:
    """Return the symbolic links in a store and in its folders, which are left alone."""
    return [path for pattern in ("*", "*/*") for path in sorted(store.glob(pattern)) if path.is_symlink()]


def bytes_on_disk(store: Path) -> int:
    """Return the size of all files of a store, indexes included."""
    paths = (Path(folder, name) for folder, _, names in os.walk(store) for name in names)
    return sum(path.lstat().st_size for path in paths)


def _indexes(folder: Path) -> list[FileIndex]:
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        if path.is_symlink():
            continue
        with contextlib.suppress(FileNotFoundError):  # a writer without responses removes its file
            found.append(load_index(path, save=False))
    return found


def _engine_usage(engine_id: str, indexes: Sequence[FileIndex], asked: Sequence[str]) -> EngineUsage:
    usage, numbers, now = EngineUsage(engine_id), key_numbers(asked), time.time()
    for index in indexes:
        with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
            usage.files.append(_file_usage(index, numbers, now))
    usage.distinct = _distinct(indexes)
    return usage


def _file_usage(index: FileIndex, asked: npt.NDArray[np.uint64], now: float) -> FileUsage:
    offsets = index.entries["offset"].astype(np.int64)
    in_order = np.argsort(offsets)
    sizes = np.empty(len(offsets), dtype=np.int64)
    sizes[in_order] = np.diff(offsets[in_order], append=index.covered)
    unasked = np.ones(len(offsets), dtype=bool)
    unasked[matches(asked, index.entries)[1]] = False
    times = [_time_at(index.path, int(offsets[place])) for place in in_order[[0, -1]]] if len(offsets) else ["", ""]
    return FileUsage(
        index=index,
        unasked=int(unasked.sum()),
        unasked_bytes=int(sizes[unasked].sum()),
        first=times[0],
        last=times[1],
        written=still_written(index, now),
    )


def _time_at(path: Path, offset: int) -> str:
    with open(path, "rb") as handle:
        handle.seek(offset)
        try:
            return str(json.loads(handle.readline())["time"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return ""  # a damaged record


def _distinct(indexes: Sequence[FileIndex]) -> int:
    if not indexes:
        return 0
    entries = np.concatenate([index.entries for index in indexes])
    entries = entries[np.lexsort((entries["low"], entries["high"]))]
    same = (entries["high"][1:] == entries["high"][:-1]) & (entries["low"][1:] == entries["low"][:-1])
    return len(entries) - int(same.sum())


def still_written(index: FileIndex, now: float) -> str:
    """Return why a file is taken for one that is still written; empty when it is not.

    Args:
        index: the index of the file.
        now: seconds since 1970.
    """
    if index.closed:
        return ""
    silent = now - index.path.stat().st_mtime
    digits = re.search(r"-(\d+)$", index.path.stem)
    pid = int(digits.group(1)) if digits else 0
    if silent < DAY and index.path.stem.endswith(writer_mark(pid)) and _runs(pid):
        return f"process {pid} of this host writes it"
    if silent < HOUR:
        return f"written to {max(silent, 0) / 60:.0f} minutes ago, and not closed by its job"
    return ""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # only asks
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True


def prune_file(index: FileIndex, asked: Collection[str]) -> int:
    """Remove the records of a store file that nobody asks for, and the file if none stays; return their number.

    The file is replaced in one step. What its killed writer left behind the last whole record goes, too.

    Raises:
        UserError: if the file has changed since its index was made, or cannot be written anew; it is then as it was.
    """
    path = index.path
    if path.stat().st_size != index.size:
        raise UserError(f"{path} has changed meanwhile and was left alone")
    kept, end, removed = IndexBuilder(), 0, 0
    try:
        with open(path, "rb") as source, written_whole(path, "wb") as target:
            for line in source:
                if not line.endswith(b"\n"):
                    break
                if line.startswith(LINE_START):
                    if line[KEY].decode("ascii", "replace") not in asked:
                        removed += 1
                        continue
                    kept.add(line[KEY_START], end)
                target.write(line)
                end += len(line)
    except OSError as error:
        raise UserError(f"{path} cannot be written anew, nothing of it was removed: {error}") from error
    if len(kept):  # until this is done the old index does not fit, for the file is shorter than what it covers
        save_index(FileIndex(path, kept.entries(), end, end, closed=True))
    else:
        path.unlink()
        index_path(path).unlink(missing_ok=True)
    return removed
