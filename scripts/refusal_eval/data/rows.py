"""Rows of a JSONL, JSON, CSV or Parquet file, read without guessing types that would change text."""

import codecs
import csv
import datetime
import decimal
import itertools
import math
import re
import stat
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, size_text
from refusal_eval.core.hints import nearest_column
from refusal_eval.core.json_text import DoubleKeyError, parse_json
from refusal_eval.core.texts import MERGE_MARK, is_blank
from refusal_eval.core.texts import valid_text as valid_text

TableRow = dict[str, Any]
ColumnNames = Mapping[str, Any]  # the `columns` of a split or gold set
ENDINGS = (".csv", ".json", ".jsonl", ".parquet")
GROUP = "group"  # column that tells from which of the lists of a JSON object a row comes
# All rows are held at once, in about ten times the room of their text; a small packed file may unpack to any number.
MOST_ROWS = 2_000_000
MOST_BYTES = 4_000_000_000
# What some programs write between the columns of a CSV instead of commas.
SEPARATORS = {";": "`;`", "\t": "a tab", "|": "`|`", "\uff1b": "`\uff1b`", "\uff0c": "`\uff0c`"}
SEPARATOR_LINE = re.compile(r"\ufeff?\"?sep=(.)\"?\s*", re.IGNORECASE)  # a first line that Excel writes and hides


def read_rows(
    path: str | Path, skip_lines: int = 0, name: str | None = None, encoding: str | None = None
) -> list[TableRow]:
    """Return the rows of a file as a list of {column: value}, in the file's order.

    JSONL keeps JSON's types; JSON is one list of objects, or an object of such lists, whose keys become a column
    `group`. CSV gives strings only ("NA", "1.0" and "" stay what they
    are). Parquet gives plain JSON values: times and UUIDs as text, NaN and bytes as None. Blank lines of JSONL and CSV
    are skipped.

    Args:
        path: a file that ends in .jsonl, .json, .csv or .parquet.
        skip_lines: lines before a CSV's header that are not data.
        name: what messages call the file; default its path.
        encoding: of a CSV, JSON or JSONL file; default UTF-8, which may begin with a byte-order mark.

    Raises:
        UserError: for a missing, unreadable, malformed, empty or far too large file, with the line where there is one.
    """
    path, name = Path(path), name or str(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UserError(
            f"{name}: cannot tell the format from the ending `{path.suffix}` (allowed: {', '.join(ENDINGS)})"
        )
    if skip_lines and ending != ".csv":
        raise UserError(f"{name}: skip_lines is for CSV files only; leave it out")
    if encoding and ending == ".parquet":
        raise UserError(f"{name}: encoding is for CSV, JSON and JSONL files only; leave it out")
    rows: list[TableRow] = []
    try:
        _check_file(path, name)
        codec = codecs.lookup(encoding or "utf-8").name
        for row in _rows_of(path, name, ending, skip_lines, "utf-8-sig" if codec == "utf-8" else codec):
            if len(rows) == MOST_ROWS:
                raise _too_large(name, f"more than {MOST_ROWS:,} rows", f"{MOST_ROWS:,}")
            rows.append(row)
    except FileNotFoundError as error:
        raise UserError(f"{name}: there is no such file") from error
    except UnicodeError as error:
        # Some encodings do not say where.
        found = f"{error.reason} at byte {error.start}" if isinstance(error, UnicodeDecodeError) else str(error)
        wanted = "name its `encoding`" if encoding else "save it as UTF-8, or name its `encoding`"
        wanted += ", which a `source` of another kind does not inherit" if not encoding else ""
        raise UserError(f"{name}: is not {encoding or 'UTF-8'} text ({found}); {wanted}") from error
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror or error}") from error
    if not rows:
        raise UserError(f"{name}: holds no rows")
    return rows


def head_columns(path: str | Path, skip_lines: int = 0, encoding: str | None = None) -> set[str] | None:
    """Return the columns of a file that names them at its beginning, CSV or Parquet; None for another.

    Raises:
        UserError, OSError, UnicodeError: if its beginning cannot be read.
    """
    path = Path(path)
    if (ending := path.suffix.lower()) not in (".csv", ".parquet"):
        return None
    row = next(_rows_of(path, str(path), ending, skip_lines, encoding or "utf-8-sig"), None)
    return set(row) if row else None


def _check_file(path: Path, name: str) -> None:
    try:
        state = path.stat()
    except ValueError:  # NUL in the name
        raise FileNotFoundError(path) from None
    if not stat.S_ISREG(state.st_mode):
        raise UserError(f"{name}: is no regular file")  # reading a pipe may never end
    if state.st_size > MOST_BYTES:
        raise _too_large(name, size_text(state.st_size), size_text(MOST_BYTES))


def _too_large(name: str, found: str, most: str) -> UserError:
    return UserError(f"{name}: holds {found}, at most {most} are read; cut the file down to the rows that you need")


def _rows_of(path: Path, name: str, ending: str, skip: int, encoding: str) -> Iterator[TableRow]:
    if ending == ".parquet":
        yield from _parquet_rows(path, name)
        return
    # Only "\n" ends a line of JSONL: texts may hold other line separators such as U+2028. A byte-order mark is no data.
    with open(path, encoding=encoding, newline="" if ending == ".csv" else "\n") as handle:
        if ending == ".csv":
            yield from _csv_rows(handle, name, skip)
        elif ending == ".jsonl":
            lines = ((f"line {number}", line) for number, line in enumerate(handle, 1) if line.strip())
            yield from (_object(_json(line, f"{name}, {place}"), f"{name}, {place}") for place, line in lines)
        else:
            rows = _json(handle.read(), name, lines=True)
            if isinstance(rows, dict) and rows and all(isinstance(group, list) for group in rows.values()):
                yield from _rows_in_groups(rows, name)
                return
            if not isinstance(rows, list):
                also = ", whose values are not all lists of them" if isinstance(rows, dict) else ""
                raise UserError(f"{name}: must be a list of JSON objects, not {kind_of(rows)}{also}")
            yield from (_object(row, f"{name}, row {number}") for number, row in enumerate(rows, 1))


def _rows_in_groups(groups: Mapping[str, list[Any]], name: str) -> Iterator[TableRow]:
    """Yield the rows of an object of lists, each with the key of its list in the column `GROUP`."""
    for group, rows in groups.items():
        for number, value in enumerate(rows, 1):
            place = f"{name}, `{group}`, row {number}"
            row = _object(value, place)
            if GROUP in row:
                raise UserError(f"{place}: has a column `{GROUP}`, which is the name of the column for `{group}`")
            yield row | {GROUP: group}


def _json(text: str, place: str, lines: bool = False) -> Any:
    """Return the value of a JSON text at a place; `lines` where that place does not say the line."""
    try:
        return parse_json(text)
    except DoubleKeyError as error:
        here = f"{place}, line {error.line}" if lines else place
        raise UserError(f"{here}: {error}; leave one of them out") from error
    except (ValueError, RecursionError) as error:
        for number, line in enumerate(text.split("\n"), 1):
            if MERGE_MARK.fullmatch(line):
                raise _merge_mark_error(place if ", line " in place else f"{place}, line {number}", line) from error
        raise UserError(f"{place}: is not valid JSON: {error}") from error


def _object(row: Any, place: str) -> TableRow:
    if not isinstance(row, dict):
        raise UserError(f'{place}: must be a JSON object like {{"prompt": ...}}, not {kind_of(row)}')
    return row


def _csv_rows(handle: IO[str], name: str, skip: int) -> Iterator[TableRow]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default refuses texts over 128 KiB
    for _ in range(skip):
        handle.readline()
    first = list(itertools.islice(handle, 20))
    if SEPARATOR_LINE.fullmatch("".join(first[:1])):
        raise UserError(
            f"{name}, line {skip + 1}: `{first[0].strip()}` is a note to Excel, not the header; delete that line, "
            "and separate the columns by commas"
        )
    if separator := _other_separator(first):
        raise UserError(
            f"{name}, line {skip + 1}: its columns are separated by {SEPARATORS[separator]}, not by commas; save it "
            "with commas, or as JSONL"
        )
    reader = csv.reader(itertools.chain(first, handle), strict=True)
    try:
        header = next(reader, [])
        if header and MERGE_MARK.fullmatch(header[0]):
            raise _merge_mark_error(f"{name}, line {skip + 1}", header[0])
        _refuse_doubled(header, name)
        for number, cells in enumerate(filter(None, reader), 1):
            if MERGE_MARK.fullmatch(cells[0]):
                raise _merge_mark_error(f"{name}, line {skip + reader.line_num}", cells[0])
            if len(cells) != len(header):
                place = f"{name}, line {skip + reader.line_num} (row {number})"
                raise UserError(f"{place}: has {len(cells)} fields, the header has {len(header)}")
            yield dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise UserError(f"{name}, line {skip + reader.line_num}: is not valid CSV: {error}") from error


def _refuse_doubled(columns: Sequence[str], name: str) -> None:
    if doubled := sorted({column for column in columns if column and columns.count(column) > 1}):
        raise UserError(f"{name}: two columns are called `{doubled[0]}`")


def _other_separator(lines: Sequence[str]) -> str | None:
    """Return what separates the columns of the first lines, header and a row, where it is no comma.

    A quoted cell may hold any of them, and a header of one column too, if the row below does not.
    """

    def widths(separator: str) -> list[int]:
        return [len(cells) for cells in itertools.islice(filter(None, csv.reader(lines, delimiter=separator)), 2)]

    try:
        commas = widths(",")
        for separator in SEPARATORS:
            found = widths(separator)
            if len(found) == 2 and found[1] >= found[0] > max(1, commas[0]):
                return separator
    except csv.Error:  # reading the whole file says where
        pass
    return None


def _merge_mark_error(place: str, line: str) -> UserError:
    return UserError(f"{place}: `{line.strip()[:40]}` is a mark of an unfinished merge; settle it in the file")


def _parquet_rows(path: Path, name: str) -> Iterator[TableRow]:
    import pyarrow
    import pyarrow.parquet

    try:
        # ParquetFile reads this one file; read_table would take columns from folder names such as `lang=en/`.
        with pyarrow.parquet.ParquetFile(path) as file:
            if file.metadata.num_rows > MOST_ROWS:
                raise _too_large(name, f"{file.metadata.num_rows:,} rows", f"{MOST_ROWS:,}")
            _refuse_doubled(file.schema_arrow.names, name)
            size = 0
            for batch in file.iter_batches(1000):
                for column in batch.columns:
                    # A column of a dictionary has each text once; rows have it again and again.
                    packed = pyarrow.types.is_dictionary(column.type)
                    size += (column.dictionary_decode() if packed else column).nbytes
                if size > MOST_BYTES:
                    raise _too_large(name, f"more than {size_text(MOST_BYTES)}", size_text(MOST_BYTES))
                try:
                    yield from plain_rows(batch)
                except (ValueError, OverflowError, TypeError, LookupError) as error:  # such as a time after year 9999
                    raise UserError(f"{name}: holds values that cannot be read: {error}") from error
    except pyarrow.ArrowException as error:
        raise UserError(f"{name}: is not a valid Parquet file: {error}") from error


def plain_rows(batch: Any) -> list[TableRow]:
    """Return the rows of a batch or a table of Arrow as plain JSON."""
    return [
        plain_value({field.name: _decode(row[field.name], field.type) for field in batch.schema})
        for row in batch.to_pylist()
    ]


def _decode(value: Any, kind: Any) -> Any:
    """Decode values that Arrow keeps as JSON source, such as a column of numbers and texts by `datasets`."""
    import pyarrow

    if value is None:
        return None
    if isinstance(kind, pyarrow.JsonType):
        return parse_json(value)
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        return [_decode(item, kind.value_type) for item in value]
    if pyarrow.types.is_struct(kind):
        return {field.name: _decode(value[field.name], field.type) for field in kind}
    return value


def plain_value(value: Any) -> Any:
    """Return a value as plain JSON: times and UUIDs as text, durations in seconds, NaN and bytes as None."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return str(value) if isinstance(value, (decimal.Decimal, uuid.UUID)) else None


def need_columns(rows: Sequence[TableRow], columns: Iterable[str | None], name: str) -> None:
    """Check that each named column stands in at least one row.

    Raises:
        UserError: for a column that no row has, with the nearest name.
    """
    known = {column for row in rows for column in row}
    for column in columns:
        if column is not None and column not in known:
            raise UserError(f"{name}: has no column `{column}`{nearest_column(column, known, name)}")


def need_cells(rows: Sequence[TableRow], column: str | None, name: str) -> None:
    """Check that a named column holds something: bytes, which give no text, would count as no column.

    Raises:
        UserError: if every cell is empty.
    """
    if column is not None and all(cell_text(row, column, name) is None for row in rows):
        raise UserError(
            f"{name}: column `{column}` is empty, or holds nothing that is text, in every row; leave it out"
        )


def value_text(value: Any) -> str:
    """Return a value as text: JSON for what is no string (3 -> "3", True -> "true", None -> "null")."""
    value = plain_value(value)
    # A column of whole numbers with a gap comes out of Parquet as 1.0; of larger ones than these not all are exact.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return value if isinstance(value, str) else canonical_json(value)


def text_or_none(value: Any, place: str) -> str | None:
    """Return a cell as text (see `value_text`); None for an empty or missing one.

    Raises:
        UserError: if the text holds lone surrogates.
    """
    value = plain_value(value)
    if value is None or (isinstance(value, str) and is_blank(value)):
        return None
    return valid_text(value_text(value), place)


def cell_text(row: TableRow, column: str | None, place: str) -> str | None:
    """Return a cell as text (see `text_or_none`); None without a column."""
    return None if column is None else text_or_none(row.get(column), f"{place}: column `{column}`")


def kind_of(value: Any) -> str:
    """Return how JSON calls the type of a value, with its article ("a list", "null")."""
    kinds = {list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}
    kinds |= {type(None): "null", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)
