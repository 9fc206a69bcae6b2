"""The store's content, file by file, how much of it no study uses, and its removal."""

import contextlib
import json
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from refusal_eval.ask import store_index
from refusal_eval.ask.store import GATE, writer_mark
from refusal_eval.ask.store_index import KEY_START, LINE_START, FileIndex, index_path
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import utf8, written_whole

KEY = slice(len(LINE_START), len(LINE_START) + 64)  # of a line: the key
# A file that its writer has not closed may still be written: when it was written to in the last hour, or when the
# process that its name tells runs on this host. After a day in silence such a process is another one of that number.
HOUR, DAY = 3600.0, 86400.0
Usage = dict[str, Any]  # of a store file
SUMS = ["responses", "bytes", "unasked", "unasked_bytes"]


def store_indexes(store: Path) -> dict[str, list[FileIndex]]:
    """Return the indexes of the store's files as they are now, by engine id. Nothing is written, no link followed.

    Call this before reading the studies' requests: later turns follow from the responses so far, so a
    response that arrives in between would look unused.
    """
    folders = sorted(entry.name for entry in os.scandir(store) if entry.is_dir(follow_symlinks=False))
    indexes: dict[str, list[FileIndex]] = {name: [] for name in folders}
    for name, found in indexes.items():
        for path in sorted((store / name).glob("*.jsonl")):
            with contextlib.suppress(FileNotFoundError):  # a writer without responses removes its file
                found += [] if path.is_symlink() else [store_index.load_index(path, save=False)]
    return indexes


def store_usage(indexes: Mapping[str, Sequence[FileIndex]], asked: Mapping[str, Collection[str]]) -> list[Usage]:
    """Return the store's content, file by file; `asked` are the keys that studies use, by engine id.

    A row has the engine, the file's index, its records and bytes, how many of them are unused, the times of the first
    and the last record (UTC, ISO 8601; empty without), and why it counts as still being written.
    """
    usage, now = list[Usage](), time.time()
    for engine, own in indexes.items():
        numbers = store_index.key_numbers(sorted(asked.get(engine, ())))
        for index in own:
            with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
                usage.append({"engine": engine, "index": index, **_file_usage(index, numbers, now)})
    return usage


def by_engine(usage: Sequence[Usage]) -> pd.DataFrame:
    """Return the sums of its files for every engine, and how many `distinct` keys it has."""
    files = pd.DataFrame(usage, columns=["engine", "index", *SUMS, "first", "last"]).groupby("engine")
    found = files[SUMS].sum().assign(distinct=files["index"].agg(_distinct), files=files.size())
    return found.assign(
        first=files["first"].agg(lambda times: min(filter(None, times), default="")), last=files["last"].max()
    )


def _distinct(indexes: Sequence[FileIndex]) -> int:
    frames = [pd.DataFrame({name: index.entries[name] for name in ("high", "low")}) for index in indexes]
    return len(pd.concat(frames).drop_duplicates())


def _file_usage(index: FileIndex, asked: store_index.KeyNumbers, now: float) -> Usage:
    offsets = np.sort(index.entries["offset"].astype(np.int64))
    unasked = np.delete(index.entries["offset"].astype(np.int64), store_index.matches(asked, index.entries)[1])
    sizes = np.diff(offsets, append=index.covered)[np.searchsorted(offsets, unasked)]
    first, last = (_time_at(index.path, int(place)) for place in offsets[[0, -1]]) if len(offsets) else ("", "")
    return {
        "responses": len(offsets),
        "bytes": index.size,
        "unasked": len(unasked),
        "unasked_bytes": int(sizes.sum()),
        "first": first,
        "last": last,
        "written": still_written(index, now),
    }


def _time_at(path: Path, offset: int) -> str:
    with open(path, "rb") as handle:
        handle.seek(offset)
        try:
            return utf8(str(json.loads(handle.readline())["time"])).decode()  # half a pair fits no frame
        except (ValueError, KeyError, TypeError, RecursionError):
            return ""  # a damaged record


def still_written(index: FileIndex, now: float) -> str:
    """Return why a file is taken for one that is still written at `now`; empty when it is not."""
    if index.closed:
        return ""
    silent = now - index.path.stat().st_mtime
    digits = re.search(r"-(\d+)$", index.path.stem)
    pid = int(digits.group(1)) if digits else 0
    if silent < DAY and index.path.stem.endswith(writer_mark(pid)) and psutil.pid_exists(pid):
        return f"process {pid} of this host writes it"
    if silent < HOUR:
        return f"written to {max(silent, 0) / 60:.0f} minutes ago, and not closed by its job"
    return ""


def prune_file(index: FileIndex, asked: Collection[str]) -> int:
    """Remove the unused records of a store file, and the file if none remains; return their number.

    The file is replaced in one step. A partial record that a killed writer left at the end goes, too.

    Raises:
        UserError: if the file has changed since its index was made, or cannot be rewritten; it is then unchanged.
    """
    path = index.path
    if path.stat().st_size != index.size:
        raise UserError(f"{path} has changed meanwhile and was left alone")
    kept, end, removed = store_index.IndexBuilder(), 0, 0
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
        raise UserError(f"{path} cannot be rewritten, nothing of it was removed: {error}") from error
    if len(kept):  # until this is done the old index does not fit, for the file is shorter than what it covers
        store_index.save_index(FileIndex(path, kept.entries(), end, end, closed=True))
    else:
        path.unlink()
        for beside in (index_path(path), path.with_suffix(GATE)):
            beside.unlink(missing_ok=True)
    return removed
