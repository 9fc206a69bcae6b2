"""From a source's rows to gold: answers with labels, and the same as answers that judges can read."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import COMPLETE, EMPTY
from refusal_eval.core.texts import is_blank
from refusal_eval.data.prompts import check_count, content_id, messages_of
from refusal_eval.data.rows import ColumnNames, TableRow, cell_text, kind_of, need_columns, valid_text, value_text
from refusal_eval.data.selection import clusters_of, some

EXPECTATIONS = ("refuse", "comply", "varies")


def make_gold(
    rows: Sequence[TableRow],
    columns: ColumnNames,
    labels: Mapping[str, str],
    name: str,
    expected_rows: int | None = None,
    answers: Mapping[str, Mapping[str, str]] | None = None,
    left_out: Sequence[str] = (),
    expectations: Mapping[str, str] | None = None,
    clusters: Mapping[str, str] | None = None,
    expectation: str | None = None,
    kinds: Mapping[str, str] | None = None,
    denied_premises: Sequence[str] = (),
    two_labels: str = "error",
    language_of: str = "prompt",
    flags: Mapping[str, Mapping[str, str]] | None = None,
    slices: Mapping[str, Any] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return gold rows in the source's order, and notes for the log.

    A gold row is {"id", "messages", "answer", "label", "cluster", "answering_model", "expectation", "source": {"file",
    "row", "id"}}. Its id hashes messages, answer and, where it is known, the answering model, so that equal answers of
    different models stay apart. Equal rows are kept once. The default cluster is the prompt's id, which groups answers
    to one prompt.

    With a column `weight` a row also has "weight", how many answers it stands for; equal rows become one with the sum
    of their weights. With a column `language` its source also has "kept": {"language"}, as prompts have it. A row whose
    answer denies the prompt's premise has "denied_premise": true, and one that counts under the language of its answer
    "language_of": "answer". With `flags` a row also has "flags", {name: whether people raised it} of those that are
    labelled, and with `slices` the name of its "slice", if any.

    Args:
        columns: the config's column mapping: `prompt` or `messages`, `answer`, `label`; `cluster`, `answering_model`,
            `expectation`, `weight` may be None or missing.
        labels: the source's labels, as text, each with refusal, partial or compliance.
        name: the source's name in rows and messages; never a path of this machine.
        expected_rows: the required number of rows, duplicates included.
        answers: for rows with the answers of several models, the columns `answer` and `label` of each, by its name.
        left_out: labels whose rows are dropped.
        expectations: what the values of the column `expectation` mean; None or empty if they need no map.
        clusters: each row's cluster by its source's id, if no column has it.
        expectation: the expectation of every row, if no column has it.
        kinds: the kind of answer that a label of the source stands for; rows with such a label have a `kind`.
        denied_premises: labels of answers that deny the prompt's premise.
        two_labels: `left_out` to drop equal answers with two labels; else they are an error.
        language_of: `answer` to count a row under the language of its answer; else that of its prompt.
        flags: of each flag the `column` with its labels, and its values `raised` and `not_raised`.
        slices: the `column` of slices, and the `names` of its values.

    Raises:
        UserError: for a wrong number of rows, a missing column, an unknown label, an answer with two labels, a bad row.
    """
    check_count(rows, expected_rows, name)
    unused = {"prompt"} if columns.get("messages") else set()
    unused |= {"answer", "label", "answering_model"} if answers else set()
    need_columns(rows, [column for key, column in columns.items() if key not in unused], name)
    need_columns(rows, [part["column"] for part in (*(flags or {}).values(), *([slices] if slices else []))], name)
    for own in (answers or {}).values():
        need_columns(rows, own.values(), name)
    cluster = dict(enumerate(clusters_of(rows, columns, clusters, name), 1))
    gold: dict[str, dict[str, Any]] = {}
    duplicates, skipped, doubtful, unclear = [], 0, set[str](), set[str]()
    of_models: list[tuple[str | None, ColumnNames]] = [
        (model, {**columns, **own, "answering_model": None}) for model, own in (answers or {}).items()
    ]
    for (number, row), (model, here) in itertools.product(enumerate(rows, 1), of_models or [(None, columns)]):
        place = f"{name}, row {number}"
        given = value_text(row.get(str(here["label"])))
        if given in left_out:
            skipped += 1
            continue
        if given not in labels:
            raise UserError(
                f"{place}: column `{here['label']}` holds the label `{given[:80]}`, which `labels` of the gold entry "
                f"does not map (it maps: {_names_text(sorted(labels))})"
            )
        made = _gold_row(row, here, model, place) | {"label": labels[given]}
        made |= {"kind": kinds[given]} if kinds and given in kinds else {}
        made |= {"source": {"file": name, "row": number, "id": cell_text(row, here.get("id"), place)}}
        if here.get("language"):
            made["source"]["kept"] = {"language": cell_text(row, here["language"], place)}
        if given in denied_premises:
            made["denied_premise"] = True
        if language_of == "answer":
            made["language_of"] = language_of
        made |= _parts(row, flags or {}, slices, place)
        made["cluster"] = cluster[number] or content_id(made["messages"])
        stated = cell_text(row, here.get("expectation"), place)
        made["expectation"] = expectation or _expectation(stated, expectations or {}, place)
        first = gold.setdefault(made["id"], made)
        if first is made:
            continue
        earlier = first["source"]["row"]
        key = "kind" if len({first.get("kind"), made.get("kind")} - {None}) > 1 else "label"
        if made[key] != first[key] and two_labels == "left_out":
            doubtful.add(made["id"])
        elif made[key] != first[key]:
            labelled = f"labelled {made[key]} here and {first[key]} there"
            raise UserError(f"{place}: the same prompt and answer as in row {earlier}, but {labelled}")
        for flag in [flag for flag, raised in made.get("flags", {}).items() if first["flags"].get(flag) != raised]:
            first["flags"].pop(flag, None)  # two labels are none
            unclear.add(f"{flag} of row {number}")
        if "weight" in made:
            first["weight"] += made["weight"]
        duplicates.append(f"row {number} = row {earlier}")
    for answer in doubtful:
        del gold[answer]
    notes = [f"{name}: {len(rows)} rows, {len(gold)} different answers"]
    if doubtful:
        notes.append(f"{name}: {len(doubtful)} answers left out, which the source labels in two ways")
    if unclear:
        notes.append(f"{name}: labels of flags left out, which equal rows do not share: {some(sorted(unclear))}")
    if skipped:
        notes.append(f"{name}: {skipped} answers left out, labelled {', '.join(left_out)}")
    if duplicates:
        shown = some(duplicates)
        notes.append(f"{name}: {len(duplicates)} duplicate rows dropped, the first of each kept: {shown}")
    return list(gold.values()), notes


def _gold_row(row: TableRow, columns: ColumnNames, model: str | None, place: str) -> dict[str, Any]:
    """What people read: messages, answer and answering model, with their id; and how much the row counts."""
    messages = messages_of(row, columns, place)
    column = str(columns["answer"])
    answer = row.get(column)
    if not isinstance(answer, str):
        found = kind_of(answer) if column in row else "nothing"
        raise UserError(f"{place}: column `{column}` holds {found}; an answer must be a string")
    made: dict[str, Any] = {"messages": messages, "answer": valid_text(answer, f"{place}: column `{column}`")}
    model = model or cell_text(row, columns.get("answering_model"), place)
    identity = content_id(made if model is None else made | {"answering_model": model})
    made |= {"id": identity, "answering_model": model}
    weight = columns.get("weight")
    return made if weight is None else made | {"weight": _weight(row.get(weight), f"{place}: column `{weight}`")}


def _parts(
    row: TableRow, flags: Mapping[str, Mapping[str, str]], slices: Mapping[str, Any] | None, place: str
) -> dict[str, Any]:
    """Return which flags people raised in a row, of those that they labelled, and its slice.

    Raises:
        UserError: for a value that the gold entry does not name.
    """
    raised: dict[str, bool] = {}
    for flag, part in flags.items():
        value = cell_text(row, part["column"], place)
        if value is not None and value not in (part["raised"], part["not_raised"]):
            known = _names_text((part["raised"], part["not_raised"]))
            raise UserError(
                f"{place}: column `{part['column']}` holds `{value[:80]}`, and the flag `{flag}` is {known} or empty"
            )
        if value is not None:
            raised[flag] = value == part["raised"]
    found: dict[str, Any] = {"flags": raised} if flags else {}
    value = cell_text(row, slices["column"], place) if slices else None
    if slices is None or value is None:
        return found
    if value not in slices["names"]:
        known = _names_text(sorted(slices["names"]))
        raise UserError(
            f"{place}: column `{slices['column']}` holds `{value[:80]}`, which `slices.names` of the gold entry does "
            f"not have (it has: {known})"
        )
    return found | {"slice": slices["names"][value]}


def _weight(value: Any, place: str) -> float:
    try:
        number = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number < math.inf:
        raise UserError(f"{place} holds {str(value)[:80]!r}; a weight is a number above 0")
    return number


def _expectation(value: str | None, expectations: Mapping[str, str], place: str) -> str | None:
    if value is None or value in (expectations or EXPECTATIONS):
        return value and expectations.get(value, value)
    if expectations:
        known = _names_text(sorted(expectations))
        raise UserError(f"{place} expects `{value[:80]}`, which `expectations` does not map (it maps: {known})")
    raise UserError(f"{place} expects `{value[:80]}`; it must be one of {_names_text(EXPECTATIONS)}")


def _names_text(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def gold_answers(gold: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return gold rows as answer rows (prompt_id is the gold id), so that judges read them like a model's answers.

    What only a model's response has (key, token counts, log-probabilities, serving) is None. Blank answers are `empty`.
    """
    rest = ("reasoning", "answer_tokens", "reasoning_tokens", "answer_logprob", "reasoning_logprob")
    unknown = dict.fromkeys(("key", *rest, "finish_reason", "serving"))
    return [
        {"prompt_id": row["id"], "sample": 0, "turn": 0, "answer": row["answer"], **unknown}
        | {"state": EMPTY if is_blank(row["answer"]) else COMPLETE}
        for row in gold
    ]
