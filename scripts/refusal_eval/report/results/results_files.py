"""The results table: all estimates of a study, each once, in an order that does not depend on the files' order.

As CSV and as Parquet it has the same rows, columns and numbers, and always the same bytes.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.texts import csv_line, escaped_cell, plain_cell, visible
from refusal_eval.report.results.dictionary import COLUMNS, KEY, DictionaryColumn
from refusal_eval.stats.comparisons.corrections import ESTIMANDS
from refusal_eval.stats.estimates.estimate import Estimate, estimate_of
from refusal_eval.stats.estimates.model_alone import MODEL_ALONE

# Digits that count: far more than any sample supports, and few enough that no machine disagrees about the last one.
DIGITS = 10


class Result(NamedTuple):
    """An estimate, and the file of the study's folder that it was taken from."""

    estimate: Estimate
    source: str


def estimates_in(content: Mapping[str, Any]) -> list[Estimate]:
    """Return the estimates of a file of estimates/, `{"estimates": [row, ...]}`."""
    return [estimate_of(row) for row in content["estimates"]]


def collect_results(results: Iterable[Result]) -> list[Result]:
    """Return the results sorted by what they estimate, each once.

    A comparison in several families has a corrected p or q value for each: cite the largest.

    Raises:
        UserError: if two files give a value for one number.
    """
    found: dict[tuple[str, ...], Result] = {}
    for result in results:
        key = tuple(text_of(getattr(result.estimate, name)) for name in KEY)
        other = found.get(key)
        if other is not None and not _is_corrected(result.estimate):
            names = ", ".join(f"{name} {part}" for name, part in zip(KEY, key, strict=True) if part)
            values = f"{other.estimate.value} in {other.source} and {result.estimate.value} in {result.source}"
            raise UserError(f"two values of one number ({names}): {values}")
        if other is None or (result.estimate.value or 0.0) > (other.estimate.value or 0.0):
            found[key] = result
    return [found[key] for key in sorted(found)]


def _is_corrected(estimate: Estimate) -> bool:
    return estimate.estimand.removesuffix(MODEL_ALONE) in ESTIMANDS.values()


def table_rows(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Return the rows of the table: texts, whole numbers, rounded floats, and None for missing values."""
    return [{column.name: _cell(column, result) for column in COLUMNS} for result in results]


def results_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table as CSV: a header, an empty field for None, texts that neither spreadsheet nor terminal obeys."""
    header = csv_line(column.name for column in COLUMNS)
    as_written = [(column.name, _cell_shown if column.kind == "text" else str) for column in COLUMNS]
    return header + "".join(csv_line(write(text_of(row[name])) for name, write in as_written) for row in rows)


def _cell_shown(text: str) -> str:
    return escaped_cell(visible(text))


def results_parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    """Return the table as Parquet: strings, 64-bit floats and 64-bit whole numbers, with nulls and without an index."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"text": pa.string(), "number": pa.float64(), "count": pa.int64()}
    schema = pa.schema([(column.name, kinds[column.kind]) for column in COLUMNS])
    columns = [pa.array([row[column.name] for row in rows], kinds[column.kind]) for column in COLUMNS]
    sink = pa.BufferOutputStream()
    # One row group and no statistics of the machine: equal rows give equal bytes under one version of pyarrow.
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), sink, row_group_size=max(1, len(rows)))
    return bytes(sink.getvalue().to_pybytes())


def read_results(text: str) -> list[Estimate]:
    """Return the estimates of a results table that `results_csv` wrote.

    A parameter comes back as text.

    Raises:
        UserError: if the columns are others.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if reader.fieldnames != [column.name for column in COLUMNS]:
        raise UserError(f"not a results table: its columns are {reader.fieldnames}")
    return [_estimate(row) for row in reader]


def text_of(value: Any) -> str:
    """Return a name, a count or a parameter as the table writes it; empty for None."""
    if value is None:
        return ""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def round_value(value: float | None) -> float | None:
    """Round to the digits that the table keeps, without negative zeros; None stays None."""
    return None if value is None else float(f"{value:.{DIGITS}g}") + 0.0


def _cell(column: DictionaryColumn, result: Result) -> Any:
    if column.name == "source":
        return result.source
    value = getattr(result.estimate, column.name)
    if column.name == "flags":
        return " ".join(value) or None
    if value is None or column.kind == "count":
        return value
    return round_value(float(value)) if column.kind == "number" else text_of(value)


def _estimate(row: dict[str, str]) -> Estimate:
    values: dict[str, Any] = {}
    for column in COLUMNS:
        text = row[column.name]
        kind: Any = {"text": plain_cell, "number": float, "count": int}[column.kind]
        values[column.name] = kind(text) if text else None
    values.pop("source")
    return Estimate(**values | {"flags": tuple((values["flags"] or "").split())})
