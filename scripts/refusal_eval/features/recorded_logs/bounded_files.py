"""Files of answers that anybody may have written: read in bounded pieces, each with its place."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import refuse_irregular, size_text
from refusal_eval.core.json_text import DoubleKeyError, parse_json
from refusal_eval.data.rows import kind_of

MOST_BYTES = 2_000_000_000  # of a file
MOST_LINE = 8_000_000  # of a line: no answer is so long
FOREIGN = {
    b"\x1f\x8b": "packed by gzip; unpack it: gunzip",
    b"PK\x03\x04": "a zip archive; unpack it (a log of inspect ends in .eval)",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it: unzstd",
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}
HEAD = 65536  # by which a file is recognised


def refuse_large(path: Path) -> None:
    """Raise `UserError` for what is no regular file, or larger than any log that fits the memory."""
    refuse_irregular(path)
    if (size := path.stat().st_size) > MOST_BYTES:
        raise UserError(
            f"{path} has {size_text(size)}, and at most {size_text(MOST_BYTES)} are read; split it by model"
        )


def refuse_foreign(path: Path, head: bytes) -> None:
    """Raise `UserError` for a file whose first bytes are those of something else than UTF-8 text."""
    for begin, what in FOREIGN.items():
        if head.startswith(begin):
            raise UserError(f"{path} is {what}")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank.

    Only "\\n" ends a line: answers may hold other line separators.

    Raises:
        UserError: for a line that is too long or no UTF-8.
    """
    refuse_large(path)
    with open(path, "rb") as handle:
        number = 0
        while line := handle.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise UserError(f"{path}, line {number}: is longer than {size_text(MOST_LINE)}")
            if number == 1:
                refuse_foreign(path, line)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}, line {number}: is not UTF-8 (byte {error.start}); save it as UTF-8"
                ) from error
            if text.strip():
                yield number, text


def objects_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line and the object of each line of a JSONL file.

    Raises:
        UserError: for a line that holds no object.
    """
    for number, text in lines_of(path):
        yield number, parsed_object(text.rstrip("\r\n"), f"{path}, line {number}")


def parsed_object(text: str, place: str) -> dict[str, Any]:
    """Return the object that a JSON text is.

    Raises:
        UserError: if it is no JSON, or no object.
    """
    value = parsed(text, place)
    if not isinstance(value, dict):
        raise UserError(f"{place}: must be a JSON object, not {kind_of(value)}")
    return value


def parsed(text: str, place: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        UserError: if it is none.
    """
    try:
        return parse_json(text)
    except DoubleKeyError as error:
        raise UserError(f"{place}: {error}; leave one of them out") from error
    except RecursionError as error:
        raise UserError(f"{place}: is nested too deeply") from error
    except ValueError as error:
        said = "a number has too many digits" if "integer string conversion" in str(error) else error
        raise UserError(f"{place}: is not valid JSON: {said}") from error


def head_of(path: Path) -> bytes:
    """Return the beginning of a file."""
    with open(path, "rb") as handle:
        return handle.read(HEAD)


def first_object(path: Path) -> dict[str, Any] | None:
    """Return the object of the first line of a JSONL file; None if it is no such file.

    Raises:
        UserError: for a file that is too large.
    """
    refuse_large(path)
    try:
        return next((found for _, found in objects_of(path)), None)
    except UserError:
        return None
