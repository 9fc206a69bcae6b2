"""The store: every response ever paid for, by key, shared by studies.

Layout: `<store>/<engine id>/<job>.jsonl`, one record a line. A file has one writer, and nobody appends to another's, so
that no locks are needed, on network file systems too. A line without its end of line was cut off by a kill: it is
ignored. If a key occurs more than once, the record with the earliest (time, file name, offset) counts.

What was read once never changes, whatever the clocks of hosts say: who looks records up notes in the engine's folder
the newest time among them, and who writes gives later times only. A time more than a day ahead is neither noted nor
followed: each later one would have to be still further ahead. On network file systems this holds as far as
hosts see each other's files: a response that two of them write within their delay may change until both are seen.

A damaged record counts as missing: it is not found, and its request is executed again. A file that cannot be read is an
error, since its records may be readable a moment later.

Next to each file lies a small index (see `store_index.py`), rebuilt when missing; if its writer steered a model behind
a gate, also the number of tokens that passed.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeVar

import numpy as np
from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from refusal_eval.ask import store_index as indexes
from refusal_eval.ask.wrong_loads import why_not_to_be_read
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile, canonical_json, read_json, sha256_of, utf8, write_text
from refusal_eval.core.packing import unpack_floats

# What to do where a receipt tells of responses that are gone. All answers of a batch are then read again: what is
# executed in the place of the lost ones need not be the same.
BRING_BACK = (
    "Bring the store back, or delete the folders receipts, answers, verdicts and published of this study and run "
    "again: what the store lacks is then executed."
)
DAMAGED = {"damaged": True}  # in place of a serving record that cannot be read
GATE = ".gate.json"  # how the name of the file ends that says what passed the gate, instead of `.jsonl`
END_OF_TIME = "3000"  # from here on no time is taken for one
NEWEST_READ = "newest_read.txt"  # in an engine's folder: the newest time of a record that anybody has looked up
LATE_SECONDS = (5.0, 10.0, 20.0, 30.0)  # between looks for responses; network file systems hide files for a minute
LOG = logging.getLogger(__name__)
T = TypeVar("T")
# How a response ended; `failed` and `too_long` come with HTTP 200 or 400 and would come again, and the last two are of
# engines that write no text. What is stored may have other words.
FINISH_REASONS = ("stop", "length", "content_filter", "failed", "too_long", "classified", "embedded")
PROBE_BYTES = 2**20  # a store that does not take so much is full
DATA_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # what a disk answers when it does not keep what was written


def rejections(receipts: Iterable[str | Path]) -> dict[str, str]:
    """Return the message of each request that the engine rejected for its own sake, by key: it has no response.

    Raises:
        BadFile: if a receipt is damaged.
    """
    found: dict[str, str] = {}
    for path in (path for path in receipts if Path(path).is_file()):
        found |= {row["key"]: row["message"] for row in read_receipt(path)["rejected"]}
    return found


def read_receipt(path: str | Path) -> dict[str, Any]:
    """Read a load's receipt.

    Raises:
        BadFile: if it is none; the message says what to do.
    """
    try:
        receipt: dict[str, Any] = read_json(path)
        if all(type(row["key"]) is type(row["message"]) is str for row in receipt["rejected"]):
            return receipt
        raise TypeError("a request that was rejected has a `key` and a `message`")
    except (KeyError, TypeError, BadFile) as error:
        raise BadFile(f"{path} is not a receipt; delete it and run again") from error


class NotInStore(UserError):
    """A receipt names responses that the store lacks."""


def not_in_store(what: str) -> NotInStore:
    """Return the error for `what`, such as `2 responses are`, that a receipt names and the store lacks."""
    return NotInStore(
        f"{what} not in the store, although executed before (was the store moved or pruned?). {BRING_BACK}"
    )


def when_stored(read: Callable[[], T]) -> T:
    """Return what `read` returns, which looks at the store; where responses are missing, look again for a minute.

    On a network file system a file that another host has closed may be seen late.

    Raises:
        NotInStore: if they are missing at the last look, too.
    """
    for seconds in LATE_SECONDS:
        try:
            return read()
        except NotInStore as error:
            LOG.warning("%s; looking again in %g s", str(error).split(",")[0], seconds)
            time.sleep(seconds)
    return read()


class StoreError(UserError, OSError):
    """The store cannot be written or read; the message says which file, and why."""


# Of times in this form the earlier one is the smaller text, seconds and microseconds mixed: "+" comes before ".".
Time = Annotated[str, StringConstraints(pattern=r"^[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00$")]


class Block(TypedDict):
    """Who stopped an answer that the model did not write to its end; null where nobody says."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    by: Literal["classifier", "filter", "policy", "gateway", "guardrail"] | None
    stage: Literal["prompt", "answer"] | None
    category: str | None  # in the provider's words
    severity: str | None  # likewise
    partial: str | None  # what came of the answer before it; never judged
    code: str | None  # the provider's word for it


class ServedBy(TypedDict, total=False):
    """What a server of another party says of itself in a reply."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    model: str | None
    fingerprint: str | None
    provider: str | None
    region: str | None
    request_id: str | None


class TokenUsage(TypedDict):
    """The tokens that a provider bills: all of the prompt, those of it that came out of its cache, the answer's."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    input: int
    cached: int
    output: int


class StoredResponse(TypedDict):
    """What an engine answered. Log-probabilities, logits and vectors are packed (see `packing.py`).

    Without tokens and log-probabilities `token_ids` is empty and `logprobs` None.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="allow")  # type: ignore[misc]

    text: str
    token_ids: list[int]
    logprobs: str | None
    finish_reason: str
    stop_reason: int | str | None
    named_logprobs: NotRequired[str]
    prompt_logprobs: NotRequired[str]
    logits: NotRequired[str]
    vectors: NotRequired[str]
    model_version: NotRequired[str | None]  # as a server of another party calls what answered
    text_logprobs: NotRequired[str]  # one log-probability for each token of `text`, of a server that gives no ids
    reasoning: NotRequired[str]  # which a server gives apart from the text
    declared: NotRequired[bool]  # the text is the model's own refusal, in a field of its own
    blocked: NotRequired[Block]  # of a `content_filter`
    reason: NotRequired[str]  # of a `failed`
    marks: NotRequired[list[str]]  # what else is to be known of it: `unfiltered`, a filter was out of order
    served_by: NotRequired[ServedBy]
    usage: NotRequired[TokenUsage]


class StoredRecord(TypedDict):
    """A line of a store file. `serving` is the id of the serving record, `time` is UTC, ISO 8601."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    key: str
    response: StoredResponse
    serving: str
    time: Time


_RECORD: TypeAdapter[StoredRecord] = TypeAdapter(StoredRecord)
_RESPONSE: TypeAdapter[StoredResponse] = TypeAdapter(StoredResponse)
_TIME: TypeAdapter[str] = TypeAdapter(Time)


class StoreReader:
    """Finds responses of one engine by key, as the store stood when the reader was made, last refreshed or asked."""

    def __init__(self, store_dir: str | Path, engine_id: str) -> None:
        self.folder = Path(store_dir, engine_id)
        self.files: dict[Path, indexes.FileIndex] = {}  # as they were when they were last looked at
        self.read_from: set[Path] = set()  # the files that records were found in so far
        self._damaged: set[tuple[Path, int]] = set()  # where the log has said so
        self._left_out: set[Path] = set()  # files that earlier versions wrote and that are not to be read
        self._noted = ""  # no note of a time up to this one is needed
        self._news = set[Path]()
        self.refresh()

    def refresh(self) -> set[Path]:
        """Take in what was written since, reading only that; return the files that changed, came or went."""
        self._look()
        news, self._news = self._news, set()
        return news

    def _look(self) -> bool:
        files: dict[Path, indexes.FileIndex] = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            with _reading(path):
                known = self.files.get(path)
                if known is None and self._is_left_out(path):
                    continue
                files[path] = indexes.load_index(path) if known is None else known.brought_up_to_date()
        before, self.files = self.files, files
        changed = {path for path in before.keys() | files.keys() if before.get(path) is not files.get(path)}
        self._news |= changed
        return bool(changed)

    def _is_left_out(self, path: Path) -> bool:
        """Tell whether a file's responses are not those of the models whose keys they have, and say so once."""
        if path not in self._left_out and (why := why_not_to_be_read(path)):
            self._left_out.add(path)
            LOG.warning("%s: %s; its responses count as not stored. You can delete the file", path, why)
        return path in self._left_out

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the keys without a response, each once, in the order given: those that `lookup` does not find."""
        in_order = list(dict.fromkeys(keys))
        stored = {record["key"] for record in self._records(in_order)}
        return [key for key in in_order if key not in stored]

    def lookup(self, keys: Iterable[str]) -> dict[str, StoredRecord]:
        """Return the record of every key that has one, and note that it was read: no later one takes its place."""
        wanted = list(keys)
        found = self._first_records(wanted)
        # A writer that has not seen the note yet may have stamped an earlier time meanwhile.
        while self._note(found.values()) and self._look():
            found = self._first_records(wanted)
        return found

    def _first_records(self, keys: Iterable[str]) -> dict[str, StoredRecord]:
        found: dict[str, StoredRecord] = {}
        for record in self._records(keys):
            key = record["key"]
            if key not in found or record["time"] < found[key]["time"]:  # equal times: files and offsets decide
                found[key] = record
        return found

    def _records(self, keys: Iterable[str]) -> Iterator[StoredRecord]:
        """Yield the whole records of these keys, in the order of files and offsets; one may come twice."""
        wanted = sorted(set(keys))
        numbers = indexes.key_numbers(wanted)
        for path in list(self.files):
            with _reading(path):
                for load in (None, indexes.load_index, indexes.rebuild_index):
                    with contextlib.suppress(_StaleIndex):
                        if load is not None:
                            self.files[path] = load(path)
                        yield from self._records_in(path, wanted, numbers)
                        break

    def _records_in(self, path: Path, wanted: Sequence[str], numbers: indexes.KeyNumbers) -> Iterator[StoredRecord]:
        entries = self.files[path].entries
        which, where = indexes.matches(numbers, entries)
        if not len(which):
            return
        with open(path, "rb") as handle:
            for offset, number in sorted(zip(entries["offset"][where].tolist(), which.tolist(), strict=True)):
                handle.seek(offset)
                line, key = handle.readline(), wanted[number].encode()
                if line[: indexes.KEY_START.stop] != (indexes.LINE_START + key)[: indexes.KEY_START.stop]:
                    self._say(path, offset, "not what the index of the file says; the file is read again")
                    raise _StaleIndex
                try:
                    record = _whole(line)
                    if record["key"].encode() != key:
                        raise ValueError("another key than the index says")
                except (ValueError, RecursionError) as error:
                    self._say(path, offset, f"damaged: {_reason(error)}; it counts as not stored and is executed again")
                else:
                    self.read_from.add(path)
                    yield record

    def _say(self, path: Path, offset: int, what: str) -> None:
        """Log what is wrong with a record, once."""
        if (path, offset) not in self._damaged:
            self._damaged.add((path, offset))
            LOG.warning("%s, line %d: %s", path, _line_number(path, offset), what)

    def _note(self, records: Iterable[StoredRecord]) -> bool:
        """Note the newest time of these records where it is newer than all noted; return whether it was."""
        newer = {record["time"] for record in records if record["time"] > self._noted}
        newest = max((time for time in newer if not _far_ahead(time, self.folder)), default="")
        if not newest:
            return False
        self._noted = newest
        if newest <= _newest_read(self.folder):
            return False
        try:
            write_text(self.folder / NEWEST_READ, newest + "\n")
        except OSError:  # without write access, others cannot be kept from writing earlier times
            return False
        return True

    def serving(self, numbers: indexes.KeyNumbers | None = None) -> dict[str, Any]:
        """Return the serving records by id: versions, hardware and flags behind the responses.

        An unreadable record appears as `DAMAGED` under a hash of the file's name.

        Args:
            numbers: sorted numbers of the keys to consider (see `store_index.key_numbers`); None for all.
        """
        records: dict[str, Any] = {}
        for path, index in self.files.items():
            if numbers is not None and not len(indexes.matches(numbers, index.entries)[0]):
                continue
            own: dict[str, Any] = {}
            with _reading(path), open(path, "rb") as handle:
                while line := handle.readline():
                    if not line.startswith(b'{"serving_id"') or not line.endswith(b"\n"):
                        break  # serving records are at the head of a file
                    try:
                        record = json.loads(line)
                        own[record["serving_id"]] = record["serving_record"]
                    except (ValueError, KeyError, TypeError, RecursionError) as error:
                        self._say(
                            path,
                            handle.tell() - len(line),
                            f"damaged: {_reason(error)}; what served its file is not known",
                        )
                records |= own or {sha256_of(path.name)[:16]: DAMAGED}
        return records

    def unknown(self, numbers: indexes.KeyNumbers) -> indexes.KeyNumbers:
        """Return those of the keys that stand in no file, by the indexes alone: no record is read.

        Args:
            numbers: of the keys, sorted (see `store_index.key_numbers`).
        """
        known = np.zeros(len(numbers), dtype=bool)
        for index in self.files.values():
            known[indexes.matches(numbers, index.entries)[0]] = True
        return numbers[~known]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Read a file of the store, which may be gone: a writer without responses removes its own.

    Raises:
        StoreError: if it is there and cannot be read.
    """
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(
            f"{path}, a file of the store, cannot be read: {error.strerror or error}. Run again once it can; if it is "
            "lost, move it out of the store, and what it held is executed again"
        ) from error


class StoreWriter:
    """Appends responses to a file of its own. Each is on its way to the disk when `append` returns.

    Raises:
        StoreError: if the file cannot be made.
    """

    def __init__(self, store_dir: str | Path, engine_id: str, job: str) -> None:
        folder = Path(store_dir, engine_id)
        started = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
        self.path = folder / f"{started}-{job}{writer_mark(os.getpid())}.jsonl"
        self._index = indexes.IndexBuilder()
        self._offset = 0  # the end of the last whole record
        self._failure: OSError | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = open(self.path, "xb", buffering=0)  # noqa: SIM115 - lives as long as the writer
        except OSError as error:
            raise self._explain(error) from error

    def refuse_full(self) -> None:
        """Raise `StoreError` if the disk takes no data; one that is full still takes empty files."""
        try:
            with tempfile.TemporaryFile(dir=self.path.parent) as probe:
                probe.write(bytes(PROBE_BYTES))
                probe.flush()
                _flush_to_disk(probe.fileno())
        except OSError as error:
            raise self._explain(error) from error

    def describe(self, serving_id: str, serving_record: Mapping[str, Any]) -> None:
        """Write the serving record of this file's responses; call it before the first `append`."""
        self._write({"serving_id": serving_id, "serving_record": dict(serving_record)})

    def append(self, key: str, response: Mapping[str, Any], serving_id: str) -> None:
        """Append one response.

        Raises:
            StoreError: if the disk takes no more. Nothing of this record then counts, and no later one is taken.
        """
        time = max(datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"), _behind(self.path.parent))
        self._write({"key": key, "response": dict(response), "serving": serving_id, "time": time}, key)

    def _write(self, record: Mapping[str, Any], key: str | None = None) -> None:
        if self._failure is not None:
            raise StoreError(f"{self.path} takes no more responses, for an earlier write failed: {self._failure}")
        line = utf8(canonical_json(record)) + b"\n"
        try:
            if os.fstat(self._handle.fileno()).st_nlink == 0 and not self._is_in_place():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            written = self._handle.write(line) or 0
            while written < len(line):  # an unbuffered write may be cut short (disk full raises at the next)
                written += self._handle.write(line[written:]) or 0
            if key is not None:
                self._index.add(key[:32].encode(), self._offset)
            # Last: what a signal leaves behind this offset is not covered by the index, and is read from the file.
            self._offset += len(line)
        except OSError as error:
            self._failure = self._explain(error)
            with contextlib.suppress(OSError):  # if that fails too: nothing follows, and a torn last line is ignored
                self._handle.truncate(self._offset)
            raise self._failure from error
        except BaseException:  # a signal that ends the job
            self._failure = OSError("it was stopped in the middle of a record")
            raise

    def close(self) -> None:
        """Flush to the disk and write the index, which covers whole records only; an empty file is removed.

        Raises:
            StoreError: if the disk did not keep what was written, or the file is gone, and no `append` has said so.
        """
        lost: OSError | None = None
        try:
            _flush_to_disk(self._handle.fileno())
        except OSError as error:
            lost = error
        in_place = self._is_in_place()
        self._handle.close()
        if not len(self._index):
            self.path.unlink(missing_ok=True)
            return
        if lost is None and not in_place:
            lost = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if lost is None:
            entries = self._index.entries()
            entries = entries[entries["offset"] < self._offset]
            indexes.save_index(indexes.FileIndex(self.path, entries, self._offset, self._offset, closed=True))
        elif self._failure is None:
            raise self._explain(lost, "what it kept counts") from lost

    def _is_in_place(self) -> bool:
        """Tell whether the file of this writer's name is the one that it writes: it may be removed, or replaced."""
        try:
            return os.path.samestat(os.fstat(self._handle.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _explain(self, error: OSError, kept: str = "what was stored before is safe") -> StoreError:
        what = "the store cannot be written"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what, kept = "the disk with the store is full", f"{kept}; free space and run again"
        elif error.errno in (errno.ENOENT, errno.ESTALE) and self._offset:
            what = "the store was moved or removed while it was written"
            kept = f"{len(self._index)} responses of this job were in this file; run again"
        return StoreError(f"{what}: {self.path}: {error.strerror or error}; {kept}")

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def writer_mark(pid: int) -> str:
    """Return the suffix (before `.jsonl`) of store files that a process of this host writes."""
    return f"-{socket.gethostname()}-{pid}"


def writer_is_gone(path: Path) -> bool:
    """Tell whether the process that wrote a file of the store has ended; False where only its host knows."""
    pid = path.stem.rpartition("-")[2]
    if not pid.isdecimal() or not path.stem.endswith(writer_mark(int(pid))):
        return False
    return not Path("/proc", pid).exists()


def _flush_to_disk(file: int) -> None:
    try:
        os.fsync(file)
    except OSError as error:  # some file systems cannot flush on demand; that is no loss
        if error.errno in DATA_LOST:
            raise


class _StaleIndex(Exception):
    """A file is not what its index says."""


def _whole(line: bytes) -> StoredRecord:
    """Return the record of a line.

    Raises:
        ValueError: if it is not one whose values can be read.
    """
    record = _RECORD.validate_json(line)
    datetime.datetime.fromisoformat(record["time"])
    _check_numbers(record["response"])
    return record


def checked_response(response: Mapping[str, Any]) -> StoredResponse:
    """Return an engine's new response in the form in which the store will return it.

    Follow-up requests depend on that form, now and in every later run.

    Raises:
        ValueError: if it cannot be stored, or has an unknown finish reason.
    """
    try:
        stored = _RESPONSE.validate_json(utf8(canonical_json(response)))
        _check_numbers(stored)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the engine's response is not as it should be: {_reason(error)}") from error
    if stored["finish_reason"] not in FINISH_REASONS:
        known = ", ".join(FINISH_REASONS)
        raise ValueError(f"the engine's response has the finish_reason {stored['finish_reason']!r}, not one of {known}")
    return stored


def _check_numbers(response: StoredResponse) -> None:
    """Raise `ValueError` if a number of a response cannot be read, or one is missing."""
    token_ids, values = response["token_ids"], unpack_floats(response["logprobs"] or "")
    if len(values) != len(token_ids):
        raise ValueError("there is not one log-probability for each token")
    fit = np.isfinite(values).all() and 0 <= min(token_ids, default=0) <= max(token_ids, default=0) < 2**31
    if "text_logprobs" in response:
        fit &= np.isfinite(unpack_floats(response["text_logprobs"])).all()
    if "prompt_logprobs" in response:
        fit &= np.isfinite(unpack_floats(response["prompt_logprobs"])).all()
    if "named_logprobs" in response:  # may be -inf: the engine never says this token
        fit &= not np.isnan(unpack_floats(response["named_logprobs"])).any()
    for name in ("logits", "vectors"):
        if name in response:
            fit &= np.isfinite(unpack_floats(response[name])).all()
    if not fit:
        raise ValueError("a token, log-probability or logit is no number that an engine gives")


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
    return str(error)


def _line_number(path: Path, offset: int) -> int:
    """Return the number of the line that begins at a byte."""
    with open(path, "rb") as handle:
        return 1 + sum(handle.read(min(1 << 20, offset - at)).count(b"\n") for at in range(0, offset, 1 << 20))


def _newest_read(folder: Path) -> str:
    """Return the newest time of a record ever looked up; empty if none was, or the note is damaged."""
    try:
        noted = (folder / NEWEST_READ).read_text(encoding="utf-8").strip()
        datetime.datetime.fromisoformat(_TIME.validate_python(noted))
    except (OSError, ValueError):
        return ""
    return "" if _far_ahead(noted, folder) else noted


def _far_ahead(time: str, folder: Path) -> bool:
    """Tell whether a time is more than a day ahead of this host's clock, and of the folder's files.

    The files are looked at because this host's clock may be behind.
    """
    if time <= _a_day_after(datetime.datetime.now(datetime.UTC)):
        return False
    newest = 0.0
    with contextlib.suppress(OSError):
        newest = max((entry.stat().st_mtime for entry in os.scandir(folder)), default=0.0)
    try:
        return time > _a_day_after(datetime.datetime.fromtimestamp(newest, datetime.UTC))
    except (ValueError, OverflowError, OSError):  # no time of a file that was written here
        return True


def _a_day_after(time: datetime.datetime) -> str:
    return (time + datetime.timedelta(days=1)).isoformat(timespec="microseconds")


def _behind(folder: Path) -> str:
    """Return the first time after all that were ever looked up; empty if none was."""
    noted = _newest_read(folder)
    if not noted:
        return ""
    time = datetime.datetime.fromisoformat(noted) + datetime.timedelta(microseconds=1)
    behind = time.isoformat(timespec="microseconds")
    # A folder whose files have odd times may let one pass behind which no time is one.
    return behind if behind < END_OF_TIME else ""
