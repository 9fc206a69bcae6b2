"""From a source's rows to gold: answers that people labelled, and the same as answers that judges can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.data.prompts import check_count, content_id, messages_of
from refusal_eval.data.rows import Row, kind_of, need_columns, plain_value, text_or_none, valid_text
from refusal_eval.errors import UserError
from refusal_eval.files import canonical_json
from refusal_eval.states import COMPLETE, EMPTY

EXPECTATIONS = ("refuse", "comply", "varies")


def make_gold(
    rows: Sequence[Row],
    columns: Mapping[str, str | None],
    labels: Mapping[str, str],
    name: str,
    expected_rows: int | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return gold rows in the source's order, and notes for the log.

    A gold row is {"id", "messages", "answer", "label", "cluster", "answering_model", "expectation",
    "source": {"file", "row", "id"}}.
    Its id hashes messages and answer. Equal rows are kept once. A cluster that is not given is the prompt's id, so
    that answers to one prompt belong together.

    Args:
        rows: the source's rows.
        columns: the config's column mapping: `prompt`, `answer`, `label`; `cluster`, `answering_model`, `expectation`
            may be None.
        labels: the source's labels, as text, each with refusal, partial or compliance.
        name: what the source is called in rows and messages; no path of this machine.
        expected_rows: how many rows there must be, duplicates included.

    Raises:
        UserError: for a wrong number of rows, a missing column, an unknown label, an answer with two labels, a bad row.
    """
    check_count(rows, expected_rows, name)
    need_columns(rows, columns.values(), name)
    gold: dict[str, dict[str, Any]] = {}
    duplicates = []
    for number, row in enumerate(rows, 1):
        made = _gold_row(row, number, columns, labels, name)
        first = gold.setdefault(made["id"], made)
        if first is made:
            continue
        earlier = first["source"]["row"]
        if first["label"] != made["label"]:
            labelled = f"labelled {made['label']} here and {first['label']} there"
            raise UserError(f"{name}, row {number}: the same prompt and answer as in row {earlier}, but {labelled}")
        duplicates.append(f"row {number} = row {earlier}")
    notes = [f"{name}: {len(rows)} rows, {len(gold)} different answers"]
    if duplicates:
        shown = ", ".join(duplicates[:10]) + (", ..." if len(duplicates) > 10 else "")
        notes.append(f"{name}: {len(duplicates)} duplicate rows dropped, the first of each kept: {shown}")
    return list(gold.values()), notes


def gold_answers(gold: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return gold rows as answer rows (prompt_id is the gold id), so that judges read them like a model's answers.

    What only a model's response has (key, token counts, log-probabilities, serving) is None. Blank answers are `empty`.
    """
    return [
        {
            "prompt_id": row["id"],
            "sample": 0,
            "turn": 0,
            "key": None,
            "state": COMPLETE if row["answer"].strip() else EMPTY,
            "answer": row["answer"],
            "reasoning": None,
            "answer_tokens": None,
            "reasoning_tokens": None,
            "answer_logprob": None,
            "reasoning_logprob": None,
            "finish_reason": None,
            "serving": None,
        }
        for row in gold
    ]


def _gold_row(
    row: Row, number: int, columns: Mapping[str, str | None], labels: Mapping[str, str], name: str
) -> dict[str, Any]:
    place = f"{name}, row {number}"
    messages = messages_of(row, columns, place)
    column = str(columns["answer"])
    answer = row.get(column)
    if not isinstance(answer, str):
        found = kind_of(answer) if column in row else "nothing"
        raise UserError(f"{place}: column `{column}` holds {found}; an answer must be a string")

    def cell(key: str) -> str | None:
        wanted = columns.get(key)
        return None if wanted is None else text_or_none(row.get(wanted), f"{place}: column `{wanted}`")

    return {
        "id": content_id({"messages": messages, "answer": valid_text(answer, f"{place}: column `{column}`")}),
        "messages": messages,
        "answer": answer,
        "label": _label(row.get(str(columns["label"])), labels, f"{place}: column `{columns['label']}`"),
        "cluster": cell("cluster") or content_id(messages),
        "answering_model": cell("answering_model"),
        "expectation": _expectation(cell("expectation"), place),
        "source": {"file": name, "row": number, "id": cell("id")},
    }


def _expectation(value: str | None, place: str) -> str | None:
    if value is not None and value not in EXPECTATIONS:
        allowed = ", ".join(f"`{expectation}`" for expectation in EXPECTATIONS)
        raise UserError(f"{place} expects `{value[:80]}`; it must be one of {allowed}")
    return value


def _label(value: Any, labels: Mapping[str, str], place: str) -> str:
    value = plain_value(value)
    text = value if isinstance(value, str) else canonical_json(value)
    if text in labels:
        return labels[text]
    # A column of whole numbers with a gap comes out of Parquet as 1.0.
    if isinstance(value, float) and value.is_integer() and str(int(value)) in labels:
        return labels[str(int(value))]
    allowed = ", ".join(f"`{label}`" for label in sorted(labels))
    raise UserError(
        f"{place} holds the label `{text[:80]}`, which `labels` of the gold entry does not map (it maps: {allowed})"
    )
