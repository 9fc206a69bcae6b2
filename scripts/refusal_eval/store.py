"""The store: every response ever paid for, by key, shared by studies.

Layout: `<store>/<engine id>/<job>.jsonl`, one record a line. A file has one writer, and nobody appends to another's,
so that no locks are needed, on network file systems too. A line without its end of line was cut off by a kill: it is
ignored. When a key stands more than once, the record of the earliest (time, file name, offset) counts: a job that is
still running adds later times only, and so never changes an answer that was read before.

Beside each file stands a small index (see `store_index.py`), made anew when missing.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from refusal_eval.errors import UserError
from refusal_eval.files import BadFile, canonical_json
from refusal_eval.store_index import (
    LINE_START,
    FileIndex,
    IndexBuilder,
    key_numbers,
    load_index,
    matches,
    save_index,
)

# What to do where a receipt tells of responses that are gone. All answers of a batch have to be read anew then: what is
# executed in the place of the lost ones need not be the same.
BRING_BACK = (
    "Bring the store back, or delete the folders receipts, answers, verdicts and published of this study and run "
    "again: what the store lacks is then executed anew."
)
DATA_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # what a disk answers when it does not keep what was written


class StoreError(UserError, OSError):
    """The store cannot be written; the message says which file, and why."""


class StoreReader:
    """Finds responses of one engine by key, as the store stood when the reader was made or last refreshed."""

    def __init__(self, store_dir: str | Path, engine_id: str) -> None:
        self.folder = Path(store_dir, engine_id)
        self._files: dict[Path, FileIndex] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Take in what was written since, reading only that; return whether there was anything."""
        files: dict[Path, FileIndex] = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            with contextlib.suppress(FileNotFoundError):  # a writer without responses removes its file
                known = self._files.get(path)
                files[path] = load_index(path) if known is None else known.brought_up_to_date()
        before, self._files = self._files, files
        return any(before.get(path) is not index for path, index in files.items())

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the keys without a response, each once, in the order given. No record is read for it."""
        in_order = list(dict.fromkeys(keys))
        wanted = sorted(in_order)
        numbers = key_numbers(wanted)
        found: set[int] = set()
        for index in self._files.values():
            found.update(matches(numbers, index.entries)[0].tolist())
        stored = {wanted[number] for number in found}
        return [key for key in in_order if key not in stored]

    def lookup(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the record of every key that has one: {"key", "response": {...}, "serving": id of the serving
        record, "time": UTC, ISO 8601}.

        Raises:
            BadFile: if a record is damaged.
        """
        wanted = sorted(set(keys))
        numbers = key_numbers(wanted)
        found: dict[str, Any] = {}
        for path, index in self._files.items():
            which, where = matches(numbers, index.entries)
            if not len(which):
                continue
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as handle:
                for offset, number in sorted(zip(index.entries["offset"][where].tolist(), which.tolist(), strict=True)):
                    handle.seek(offset)
                    line, key = handle.readline(), wanted[number]
                    if line.startswith(LINE_START + key.encode() + b'"'):
                        record = _parsed(path, line)
                        # The order of files and offsets decides between equal times. Seconds of older records and
                        # microseconds of newer ones compare well as text: "+00:00" comes before ".".
                        if key not in found or record["time"] < found[key]["time"]:
                            found[key] = record
        return found

    def serving(self) -> dict[str, Any]:
        """Return the serving records by id: versions, hardware and flags behind the responses."""
        records: dict[str, Any] = {}
        for path in self._files:
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as handle:
                for line in handle:
                    if not line.startswith(b'{"serving_id"') or not line.endswith(b"\n"):
                        break  # serving records stand at the head of a file
                    record = json.loads(line)
                    records[record["serving_id"]] = record["serving_record"]
        return records


class StoreWriter:
    """Appends responses to a file of its own. Each is on its way to the disk when `append` returns.

    Raises:
        StoreError: if the file cannot be made.
    """

    def __init__(self, store_dir: str | Path, engine_id: str, job: str) -> None:
        folder = Path(store_dir, engine_id)
        started = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
        self.path = folder / f"{started}-{job}{writer_mark(os.getpid())}.jsonl"
        self._index = IndexBuilder()
        self._offset = 0  # the end of the last whole record
        self._failure: OSError | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = open(self.path, "xb", buffering=0)  # noqa: SIM115 - lives as long as the writer
        except OSError as error:
            raise self._explained(error) from error

    def describe(self, serving_id: str, serving_record: Mapping[str, Any]) -> None:
        """Write the serving record that the responses of this file refer to; call it before the first `append`."""
        self._write({"serving_id": serving_id, "serving_record": dict(serving_record)})

    def append(self, key: str, response: Mapping[str, Any], serving_id: str) -> None:
        """Append one response.

        Raises:
            StoreError: if the disk takes no more. Nothing of this record then counts, and no later one is taken.
        """
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        offset = self._offset
        self._write({"key": key, "response": dict(response), "serving": serving_id, "time": time})
        self._index.add(key[:32].encode(), offset)

    def _write(self, record: Mapping[str, Any]) -> None:
        if self._failure is not None:
            raise StoreError(f"{self.path} takes no more responses, for an earlier write failed: {self._failure}")
        line = canonical_json(record).encode() + b"\n"
        try:
            if os.fstat(self._handle.fileno()).st_nlink == 0 and not self._is_in_place():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            written = self._handle.write(line) or 0
            while written < len(line):  # an unbuffered write may be cut short (disk full raises at the next)
                written += self._handle.write(line[written:]) or 0
        except OSError as error:
            self._failure = self._explained(error)
            with contextlib.suppress(OSError):  # if that fails too: nothing follows, and a torn last line is ignored
                self._handle.truncate(self._offset)
            raise self._failure from error
        except BaseException:  # a signal that ends the job
            self._failure = OSError("it was stopped in the middle of a record")
            raise
        self._offset += len(line)

    def close(self) -> None:
        """Flush to the disk and write the index, which covers whole records only; an empty file is removed.

        Raises:
            StoreError: if the disk did not keep what was written, or the file is gone, and no `append` has told so.
        """
        lost: OSError | None = None
        try:
            os.fsync(self._handle.fileno())
        except OSError as error:  # some file systems cannot flush on demand; that is no loss
            lost = error if error.errno in DATA_LOST else None
        in_place = self._is_in_place()
        self._handle.close()
        if not len(self._index):
            self.path.unlink(missing_ok=True)
            return
        if lost is None and not in_place:
            lost = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if lost is None:
            save_index(FileIndex(self.path, self._index.entries(), self._offset, self._offset, closed=True))
        elif self._failure is None:
            raise self._explained(lost, "what it kept counts") from lost

    def _is_in_place(self) -> bool:
        """Tell whether the file of this writer's name is the one that it writes: it may be removed, or replaced."""
        try:
            return os.path.samestat(os.fstat(self._handle.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _explained(self, error: OSError, kept: str = "what was stored before is safe") -> StoreError:
        what = "the store cannot be written"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what, kept = "the disk with the store is full", f"{kept}; free space and run again"
        elif error.errno in (errno.ENOENT, errno.ESTALE) and self._offset:
            what = "the store was moved or removed while it was written"
            kept = f"{len(self._index)} responses of this job were in this file; run again"
        return StoreError(f"{what}: {self.path}: {error.strerror or error}; {kept}")

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def writer_mark(pid: int) -> str:
    """Return how the name of a file ends (before `.jsonl`) that a process of this host writes."""
    return f"-{socket.gethostname()}-{pid}"


def _parsed(path: Path, line: bytes) -> Any:
    try:
        record = json.loads(line)
        record["time"], record["response"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError) as error:
        what = f"{path}: a record is damaged: {error}"
        raise BadFile(f"{what}. Move this file away; its responses will be executed again.") from error
    return record
