"""Reads tables of answers: JSONL, JSON, CSV or Parquet; a row for each answer, or a column for each model."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.log_reader import NO_ENDS, LogContent, LogReader
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest_name
from refusal_eval.core.json_text import parse_json
from refusal_eval.core.states import FAILED
from refusal_eval.data.rows import ENDINGS, kind_of, read_rows, value_text
from refusal_eval.features.recorded_logs.bounded_files import head_of, objects_of, refuse_foreign, refuse_large
from refusal_eval.features.recorded_logs.columns import refuse_unknown, value_at
from refusal_eval.features.recorded_logs.label_words import WORDS, label_of
from refusal_eval.features.recorded_logs.neutral_row import neutral_row

# What columns are called where the user names none; the first that is there counts.
USUAL = {
    "prompt": ("prompt", "question", "instruction", "query", "input"),
    "messages": ("messages", "conversation"),
    "answer": ("answer", "response", "completion", "output", "generation", "model_answer"),
    "model": ("model", "model_name", "generator"),
    "split": ("split", "task", "dataset"),
    "prompt_id": ("prompt_id", "id"),
    "sample": ("sample", "epoch"),
    "reasoning": ("reasoning", "reasoning_content", "thinking"),
    "state": ("state",),
    "finish_reason": ("finish_reason", "stop_reason"),
    "answer_logprob": ("answer_logprob", "logprob", "mean_logprob"),
    "category": ("category", "topic", "subject", "type"),
    "cluster": ("cluster",),
    "expectation": ("expectation",),
    "system": ("system", "system_prompt"),
}
CONVERTED = {"schema_version", "evaluation_id", "evaluation_result_id"}  # only in files of Every Eval Ever
LABEL = "label"  # columns with labels of others; only those that the user names
TEXTS = ("model", "split", "prompt_id", "finish_reason", "category", "cluster")
NUMBERS = {"sample": int, "answer_logprob": float}
Names = Mapping[str, Sequence[str]]


class TableReader(LogReader):
    """Reads tables of answers."""

    name = "table"
    reads = "tables (.jsonl, .json, .csv, .parquet)"

    @classmethod
    def takes(cls, path: Path) -> bool:
        return path.suffix.lower() in ENDINGS

    def read(self, path: Path, columns: Names) -> LogContent:
        refuse_unknown(columns, (*USUAL, LABEL), path)
        counts, rows, named = Counter[str](), list[dict[str, Any]](), dict[str, Sequence[str]]()
        for number, what, values in _values(path):
            place = f"{path}, {what} {number}"
            if values.keys() >= CONVERTED:
                raise UserError(
                    f"{path} is a sample file of Every Eval Ever, which holds what scorers read in place of answers, "
                    "and one of K; name the log that it was made of"
                )
            named = named or _named(values, columns, place)
            for column in named["answer"]:
                made = _row(values, {**named, "answer": [column]}, place, len(named["answer"]) > 1, counts)
                rows.append(neutral_row({"source": {"file": path.name, "line": number}} | made, place))
        lost = [f"{count} rows: {said}" for said, count in counts.items()]
        if rows and not {"state", "finish_reason"} & named.keys():
            lost.append(NO_ENDS)
        return LogContent(rows, lost)


def _values(path: Path) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    if path.suffix.lower() == ".jsonl":
        yield from ((number, "line", row) for number, row in objects_of(path))
    else:
        refuse_large(path)
        if path.suffix.lower() != ".parquet":
            refuse_foreign(path, head_of(path))
        try:
            rows = read_rows(path)
        except UserError as error:  # the encoding of a split can be named, and that of a table of answers cannot
            raise UserError(str(error).partition(", or name its `encoding`")[0]) from error
        for number, row in enumerate(rows, 1):
            if path.suffix.lower() == ".csv" and any("\0" in str(cell) for cell in row.values()):
                raise UserError(
                    f"{path}, row {number}: holds a NUL character, which no text has; save it again as UTF-8"
                )
            yield number, "row", row


def _named(row: Mapping[str, Any], columns: Names, place: str) -> dict[str, Sequence[str]]:
    """Return the columns that hold something: those that the user names, and the usual ones."""
    usual = {field: [next((name for name in names if name in row), "")] for field, names in USUAL.items()}
    found = {field: names for field, names in usual.items() if names[0] and field not in columns} | dict(columns)
    taken = [name for field in columns for name in columns[field]]
    found = {field: names for field, names in found.items() if field in columns or names[0] not in taken}
    for field, names in columns.items():
        missing = [name for name in names if value_at(row, name) is None and name not in row]
        if missing:
            close = nearest_name(missing[0], row)
            hint = f"; did you mean `{close}`?" if close else ""
            raise UserError(f"{place}: has no column `{missing[0]}` for `{field}`{hint} (it has: {', '.join(row)})")
    if "messages" in found and "prompt" not in columns:
        found.pop("prompt", None)
    lacking = "answer" if "answer" not in found else None if {"prompt", "messages"} & found.keys() else "prompt"
    if lacking:
        wanted = {"answer": "answers; name it: `--columns answer=COLUMN`, or one for each model"}
        said = wanted.get(lacking, "prompts; name it: `--columns prompt=COLUMN`")
        raise UserError(f"{place}: has no column with the {said} (it has: {', '.join(row)})")
    return found


def _row(values: Mapping[str, Any], named: Names, place: str, wide: bool, counts: Counter[str]) -> dict[str, Any]:
    cells = {field: value_at(values, names[0]) for field, names in named.items() if field != LABEL}
    row = {field: value for field, value in cells.items() if value not in (None, "")}
    row |= {field: value_text(row[field]) for field in TEXTS if field in row}
    for field, kind in NUMBERS.items():
        if isinstance(row.get(field), str):
            try:
                row[field] = kind(row[field])
            except ValueError:
                raise UserError(f"{place}: `{named[field][0]}` is {row[field][:40]!r}, and no number") from None
    if wide:
        row["model"] = named["answer"][0]
    if isinstance(row.get("messages"), str):
        try:
            row["messages"] = parse_json(row["messages"])
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place}: `{named['messages'][0]}` is text, but no JSON list of messages") from error
    if (system := row.pop("system", None)) is not None and "prompt" in row:
        asked = [{"role": "system", "content": str(system)}, {"role": "user", "content": row.pop("prompt")}]
        row["messages"] = asked
    answer = cells["answer"]
    if answer is None:
        counts["there is no answer (null): they are failed, and no empty refusals"] += 1
        row |= {"answer": "", "state": FAILED, "reason": "the table has no answer"}
    elif not isinstance(answer, str):
        raise UserError(f"{place}: `{named['answer'][0]}` holds {kind_of(answer)}; an answer must be a string")
    row["answer"] = answer or ""
    labels = [_label(values, name, place) for name in named.get(LABEL, ()) if value_at(values, name) not in (None, "")]
    return row | ({"labels": labels} if labels and not wide else {})


def _label(values: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    found = label_of(value_at(values, name), "refusal")
    if not found:
        shown, known = str(value_at(values, name))[:40], ", ".join(WORDS)
        raise UserError(f"{place}: `{name}` is {shown!r}: no word for a refusal or compliance (known: {known}; 0 to 1)")
    return {"by": name, **found}
