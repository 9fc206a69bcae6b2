"""Canonical JSON, hashes, and files that are either complete or absent."""

from __future__ import annotations

import codecs
import contextlib
import errno
import hashlib
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, TypeVar

from refusal_eval.core.errors import UserError
from refusal_eval.core.json_text import DoubleKeyError, parse_json
from refusal_eval.core.texts import MERGE_MARK

if TYPE_CHECKING:
    from pydantic import BaseModel

Form = TypeVar("Form", bound="BaseModel")

_HALF_PAIRS = "refusal_eval.half_pairs"  # the error handler of what is written


class BadFile(UserError):
    """A file that cannot be used; the message names the file and the line."""


# Temporary files as `written_whole` names them, and those of the store.
LEFT_OVER = re.compile(r"\..+\.([a-z0-9_]{8}|[0-9a-f]{32}|safetensors)\.tmp", re.DOTALL)
LEFT_OVER_SECONDS = 86400.0  # no writer takes so long for a file
NOT_WRITTEN = {
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it readable and writable"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a file is where a folder should be: move it away"),
    errno.EISDIR: "a folder is where a file should be: move it away",
}
# What leads out of a folder, here or on another system, or is no name at all: `/x`, `a/../../x`, `C:x`, `a\b`, NUL.
OUTER_NAME = re.compile(r"/|[A-Za-z]:|(.*/)?\.\.(/|$)|.*[\\\x00-\x1f\x7f\ud800-\udfff]", re.DOTALL)


def inner_name(name: str) -> str:
    """Return the name of a file in a folder as it is. Names that others wrote become paths only through here.

    Raises:
        ValueError: if it could lead to another place than below that folder.
    """
    if OUTER_NAME.match(name) or not PurePosixPath(name).parts:
        raise ValueError(f"{name!r} is no file in its folder: a name is relative, with `/`, and without `..`")
    return name


class DiskFull(UserError, OSError):
    """A file that the disk has no room for; the message names the file."""


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, no spaces and no NaN: equal values give equal text.

    Raises:
        ValueError: if `value` holds NaN or an infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_of(value: Any) -> str:
    """Return the SHA-256 (64 hex digits) of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def answer_id(text: str) -> str:
    """Return the id of an answer's text, by which people's labels name it: 16 hex digits of its hash."""
    return sha256_of(text)[:16]


def sha256_of_file(path: str | Path) -> str:
    """Return the SHA-256 (64 hex digits) of a file's bytes."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def refuse_changed(paths: Iterable[str | Path], hashes: Iterable[str | None]) -> None:
    """Raise `UserError` for a file that is not as it was when the run was planned.

    Args:
        hashes: the SHA-256 that each of them had then, in the same order; None for one that may be another.
    """
    for path, sha256 in zip(paths, hashes, strict=True):
        if sha256 is not None and not (Path(path).is_file() and sha256_of_file(path) == sha256):
            raise UserError(f"{path} has changed since this run was planned; run again")


@contextlib.contextmanager
def as_planned(paths: Iterable[str | Path], hashes: Iterable[str | None]) -> Iterator[None]:
    """Run a block that reads a user's files; raise `UserError` if one is another than planned, see `refuse_changed`.

    They are looked at before, so that nothing is computed in vain, and afterwards, as the block may have read later.
    """
    paths, hashes = list(paths), list(hashes)
    refuse_changed(paths, hashes)
    yield
    refuse_changed(paths, hashes)


def shown_path(path: str | Path) -> str:
    """Return a path for display: without `..`, and relative to the working directory if it lies below it."""
    relative = os.path.relpath(os.path.abspath(path))
    return os.path.abspath(path) if relative == ".." or relative.startswith("../") else relative


def size_text(size: int) -> str:
    """Return a number of bytes as people read it: 268 MB."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def _replaced(error: UnicodeError) -> tuple[bytes, int]:
    """Write a replacement character for half of a surrogate pair, which is no text: engines and files may say one."""
    assert isinstance(error, UnicodeEncodeError)
    return "\ufffd".encode() * (error.end - error.start), error.end


codecs.register_error(_HALF_PAIRS, _replaced)


def utf8(text: str) -> bytes:
    """Return text as UTF-8; halves of surrogate pairs become replacement characters."""
    return text.encode("utf-8", _HALF_PAIRS)


@contextlib.contextmanager
def written_whole(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file next to `path` and rename it to `path` only if the block succeeds.

    Raises:
        DiskFull: if there is no room for it.
    """
    path = Path(path)
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle_number, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        # mkstemp makes files private; results follow the user's umask, as other programs' do.
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(handle_number, 0o666 & ~umask)
        text = {} if "b" in mode else {"encoding": "utf-8", "errors": _HALF_PAIRS, "newline": "\n"}
        with open(handle_number, mode, **text) as handle:  # type: ignore[call-overload]
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and disk_is_full(error) and not isinstance(error, UserError):
            raise DiskFull(f"{path}: {no_room(error)}") from error
        raise


def remove_left_over(folders: Iterable[str | Path], now: float) -> int:
    """Remove what killed writers left half written below these folders for more than a day; return the number of files.

    Links are not followed, and what cannot be removed stays.
    """
    count = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            for path in (os.path.join(place, name) for name in names if LEFT_OVER.fullmatch(name)):
                with contextlib.suppress(OSError):
                    found = os.lstat(path)
                    if stat.S_ISREG(found.st_mode) and now - found.st_mtime > LEFT_OVER_SECONDS:
                        os.unlink(path)
                        count += 1
    return count


def disk_is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def no_room(error: OSError) -> str:
    # `strerror` distinguishes a full disk from a full quota.
    return f"{error.strerror}; free space and run again"


def refuse_irregular(path: str | Path) -> None:
    """Raise `BadFile` for a folder, a pipe or a device: to read a pipe or a device may never end.

    Raises:
        OSError: if there is nothing, or it cannot be seen.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise BadFile(f"{path} is no regular file")


def read_users_text(path: str | Path) -> str:
    """Return the text of a file that a user names, without the byte-order mark that some editors write.

    Raises:
        BadFile: if it is not UTF-8, no regular file, or holds both versions of an unfinished merge.
    """
    refuse_irregular(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    marks = [(number, line) for number, line in enumerate(text.split("\n"), 1) if MERGE_MARK.fullmatch(line)]
    if {line[0] for _, line in marks} >= {"<", ">"}:  # a line of `=======` alone may be a heading
        number, line = marks[0]
        raise BadFile(f"{path}, line {number}: `{line[:40]}` is a mark of an unfinished merge; settle it in the file")
    return text


def not_written(error: OSError) -> str | None:
    """Return what is said where a file or folder cannot be written or read at all; None for any other fault."""
    place = str(error.filename2 or error.filename or "")
    if not place or error.errno not in NOT_WRITTEN:
        return None
    if LEFT_OVER.fullmatch(os.path.basename(place)):  # it is the folder that takes no file
        place = os.path.dirname(place)
    return f"{shown_path(place)}: {error.strerror}; {NOT_WRITTEN[error.errno]} and run again"


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in one step."""
    with written_whole(path) as handle:
        handle.write(text)


def write_json(path: str | Path, value: Any) -> None:
    """Write readable JSON (sorted keys, two spaces) in one step."""
    write_text(path, json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path, of_user: bool = False) -> Any:
    """Return a JSON file's value; `of_user` for a file that a user wrote.

    Raises:
        BadFile: if it is not JSON, or no regular file, or a user's and a key stands twice in an object.
    """
    refuse_irregular(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        return parse_json(text) if of_user else json.loads(text)
    except DoubleKeyError as error:
        raise BadFile(f"{path}, line {error.line}: {error}; leave one of them out") from error
    except (ValueError, RecursionError) as error:  # also of bytes that are no UTF-8, and of numbers without end
        raise BadFile(f"{path} is not valid JSON: {error}") from error


def read_json_as(path: str | Path, form: type[Form]) -> Form:
    """Return a JSON file's value as an instance of `form`: what others wrote, or what may be damaged, is read so.

    Raises:
        BadFile: if it is not JSON, or has another form; the message names the field.
    """
    from pydantic import ValidationError

    value = read_json(path)
    try:
        return form.model_validate(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in wrong["loc"] if part != "[key]")
        message = wrong["msg"].removeprefix("Value error, ")
        raise BadFile(f"{path}: {field + ': ' if field else ''}{message[:1].lower()}{message[1:]}") from error


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> int:
    """Write one canonical JSON value a line, in one step; return the number of lines."""
    count = 0
    with written_whole(path) as handle:
        for row in rows:
            handle.write(canonical_json(row) + "\n")
            count += 1
    return count


def read_jsonl(path: str | Path) -> Iterator[Any]:
    """Yield the values of a JSONL file; blank lines are skipped.

    Raises:
        BadFile: for a line that is not JSON, with its number, and for what is no regular file.
    """
    refuse_irregular(path)
    # Only "\n" ends a line: answers may hold other line separators such as U+2028.
    with open(path, "rb") as handle:
        for number, line in enumerate(handle, 1):
            if line.strip():
                try:
                    yield json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
                except (ValueError, RecursionError) as error:
                    raise BadFile(f"{path}, line {number}: not valid JSON: {error}") from error


def refuse_bad_rows(path: str | Path, rows: Iterable[Any], fields: Mapping[str, tuple[type, ...]]) -> None:
    """Raise `BadFile` for the first row that lacks a field, or whose field has the wrong type or is not a number.

    A field whose types include that of `...` is optional.
    """
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise BadFile(f"{path}, row {number}: is no object; delete the file and run again")
        for name, types in fields.items():
            value = row.get(name, ...)
            right = type(value) in types and (not isinstance(value, int | float) or abs(value) < math.inf)
            right = right and (type(value) is not int or abs(value) < 2**63)
            if not right:
                what = "is missing" if value is ... else f"is {value!r:.40}"
                raise BadFile(f"{path}, row {number}: `{name}` {what}; delete the file and run again")
