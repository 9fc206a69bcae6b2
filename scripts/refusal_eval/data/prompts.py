"""From a source's rows to prompts: content-hash ids, duplicates once, a seeded sample."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.hints import nearest
from refusal_eval.core.json_text import DoubleKeyError, parse_json
from refusal_eval.core.right_answers import right_answer
from refusal_eval.core.texts import is_blank
from refusal_eval.data.messages import lost_field
from refusal_eval.data.row_reader import RowReader
from refusal_eval.data.rows import ColumnNames, TableRow, cell_text, kind_of, need_columns, valid_text, value_text
from refusal_eval.data.selection import clusters_of, kept_rows, some

PROMPT_ID = "[0-9a-f]{16}"  # see `content_id`
ROLES = ("system", "user", "assistant")
PromptMessage = dict[str, str]
PromptRow = dict[str, Any]


def content_id(content: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of a prompt's messages (or any JSON value)."""
    return sha256_of(content)[:16]


def make_prompts(
    rows: Sequence[TableRow],
    columns: ColumnNames,
    name: str,
    expected_rows: int | None = None,
    samples: Iterable[Mapping[str, int] | None] = (),
    mode: str | None = None,
    scored: str | None = None,
    where: Mapping[str, Any] | None = None,
    expected_kept: int | None = None,
    clusters: Mapping[str, str] | None = None,
    copies: bool = False,
    match: str | None = None,
    reader: RowReader | None = None,
    categories: Mapping[str, str] | None = None,
    have_ids: bool = False,
) -> tuple[list[PromptRow], list[str]]:
    """Return the prompts of a split in the source's order, and notes for the log.

    A prompt is {"id", "messages", "category", "cluster", "source": {"file", "row", "id"}}, with "right" where it has a
    right answer; rows count from 1, before `where`. The texts are kept exactly as they are. Only the first of several
    rows with equal messages is kept. The default cluster is the prompt's own id. Columns to `keep` are in the source's
    "kept", and the id of the prompt that a row was made from is its "parent": such rows are all kept, as with `copies`,
    and the parent's id is their default cluster.

    Rows of a split with dialogues are scripts of turns. In mode `cumulative` the prompt is the whole script, with
    "dialogue": true. In mode `independent` a script gives a prompt for each user turn after the first, which follows
    the first turn and its reply, with "dialogue": true where the model has to give that reply; in mode `alone` it
    follows nothing but a system message. "turn" in its source is the number of user turns before it in the script. The
    default cluster is the id of the whole script.

    Args:
        columns: the config's column mapping: `prompt`, `messages` or `turns`; the others may be None.
        name: the source's name in prompts and messages; never a path of this machine.
        expected_rows: the required number of rows, duplicates and those dropped by `where` included.
        samples: seeded samples ({"size", "seed"} or None), taken one after the other.
        mode: how the turns of dialogues are asked, `cumulative`, `independent` or `alone`; None where rows are no
            scripts.
        scored: which turns count; used only to refuse a row without any.
        where: values that rows must have in these columns (see `kept_rows`); None keeps all.
        expected_kept: how many rows `where` must leave.
        clusters: each row's cluster by its source's id, if no column has it.
        match: how to compare answers with the right one; None without right answers.
        copies: keep rows with equal messages too, each with an id of its own; their cluster is one.
        reader: reads rows that hold more than a prompt, which is then in the prompt too; rows that it cannot use are
            left out.
        categories: names of values of the column `category`; others are their own name.
        have_ids: rows are prompts already, with ids of their own in the column `id`.

    Raises:
        UserError: for a wrong number of rows, a missing column, or a bad row (named).
    """
    check_count(rows, expected_rows, name)
    named = [value if isinstance(value, list) else [value] for value in columns.values()]
    named += [reader.named_columns()] if reader else []
    need_columns(rows, [column for several in named for column in several], name)
    cluster = dict(enumerate(clusters_of(rows, columns, clusters, name), 1))
    names = _names_of_categories(rows, columns.get("category"), categories or {}, name)
    kept_of_source, notes = kept_rows(rows, where, expected_kept, name)
    prompts: dict[str, PromptRow] = {}
    duplicates: list[str] = []
    unlike: list[str] = []
    again: Counter[str] = Counter()
    unused: Counter[str] = Counter()
    asked = {**columns, "messages": None, "prompt": "prompt"} if reader else columns
    made, copies = columns.get("parent") is not None, copies or columns.get("parent") is not None
    for number, row in kept_of_source:
        more = reader.read(row, columns, f"{name}, row {number}") if reader else {}
        if isinstance(more, str):
            unused[more] += 1
            continue
        row = {**row, "prompt": more.pop("prompt")} if more else row
        for prompt in _prompts(row, number, cluster[number], asked, name, mode, scored):
            prompt = prompt | {reader.field: more} if reader else prompt
            prompt = prompt | {"id": prompt["source"]["id"]} if have_ids else prompt
            if names and prompt["category"] is not None:
                prompt = prompt | {"category": names.get(prompt["category"].strip(), prompt["category"])}
            if match is not None:
                prompt = prompt | {"right": _right(row, columns["right"], match, f"{name}, row {number}")}
            if copies and prompt["id"] in prompts:
                again[prompt["id"]] += 1
                prompt = prompt | {"id": content_id([prompt["messages"], again[prompt["id"]]])}
            first = prompts.setdefault(prompt["id"], prompt)
            if first is not prompt:
                duplicates.append(f"row {_origin(prompt)} = row {_origin(first)}")
                if any(first.get(key) != prompt.get(key) for key in ("category", "cluster", "right")):
                    unlike.append(_origin(prompt))
    notes.append(f"{name}: {len(kept_of_source)} rows, {len(prompts) - again.total()} different prompts")
    if unused and reader:
        reasons = ", ".join(f"{count} {reason}" for reason, count in unused.most_common())
        notes.append(f"{name}: {unused.total()} rows {reader.unused} left out: {reasons}")
        if not prompts:
            raise UserError(notes[-1])
    if again:
        why = reader.copies if reader else "each of its parent" if made else "as the published code does"
        notes.append(f"{name}: {again.total()} duplicate rows kept, {why}")
    if duplicates:
        what = "rows" if mode is None else "prompts"
        notes.append(f"{name}: {len(duplicates)} duplicate {what} dropped, the first of each kept: {some(duplicates)}")
    if unlike:
        what = f"{name}: of these, {len(unlike)} had another category, cluster or right answer than the row kept: rows "
        notes.append(what + some(unlike))
    kept = list(prompts.values())
    if clusters is not None or columns.get("cluster") is not None:
        notes.append(f"{name}: {len({prompt['cluster'] for prompt in kept})} clusters in {len(kept)} prompts")
    for sample in samples:
        if sample is not None and sample["size"] < len(kept):
            drawn, note = seeded_sample(kept, sample["size"], sample["seed"])
            size = f"a sample of {len(drawn)} of {len(kept)} prompts, seed {sample['seed']}"
            notes.append(f"{name}: {size}{note}")
            kept = drawn
    return kept, notes


def seeded_sample(prompts: Sequence[PromptRow], size: int, seed: int) -> tuple[list[PromptRow], str]:
    """Return at most `size` of the prompts, in whole clusters and in their order, and a note for the log.

    Clusters are drawn by a hash of seed and cluster until the next one does not fit; before half of the sample is full
    such a cluster is skipped, so that two large clusters do not leave a handful of prompts. So the order of the rows
    has no influence, splits that share clusters (contrast pairs) keep the same ones, and a larger sample with the same
    seed contains a smaller one (unless a cluster fits that did not). Clusters larger than the sample are left out,
    unless all are; then the first one is cut. A prompt without a cluster forms its own.
    """
    members: dict[str, list[PromptRow]] = {}
    for prompt in prompts:
        members.setdefault(prompt["cluster"], []).append(prompt)
    ranked = sorted(members, key=lambda cluster: (sha256_of([seed, cluster]), cluster))
    fitting = [cluster for cluster in ranked if len(members[cluster]) <= size]
    chosen: set[str] = set()
    for cluster in fitting:
        if len(chosen) + len(members[cluster]) > size:
            if 2 * len(chosen) >= size:
                break
            continue
        chosen |= {prompt["id"] for prompt in members[cluster]}
    note = ", in whole clusters" if len(members) < len(prompts) else ""
    if len(fitting) < len(ranked):
        note += f"; {len(ranked) - len(fitting)} clusters of more than {size} prompts left out"
    if not fitting:
        note = f", of one cluster, which is cut: no cluster is as small as {size} prompts"
        chosen = set(sorted((one["id"] for one in members[ranked[0]]), key=lambda one: sha256_of([seed, one]))[:size])
    return [prompt for prompt in prompts if prompt["id"] in chosen], note


def check_count(rows: Sequence[TableRow], expected_rows: int | None, name: str) -> None:
    """Check that there are as many rows as expected.

    Raises:
        UserError: if not.
    """
    if expected_rows is not None and len(rows) != expected_rows:
        raise UserError(f"{name}: has {len(rows)} rows, but expected_rows says {expected_rows}")


def messages_of(row: TableRow, columns: ColumnNames, place: str) -> list[PromptMessage]:
    """Return a row's messages ([{"role", "content"}, ...]) out of its prompt, messages or turns columns.

    Raises:
        UserError: for a prompt that is empty or no string, and for messages that are no chat that ends with the user.
    """
    if columns.get("turns") is not None:
        return [{"role": "user", "content": text} for text in _turns(row, columns["turns"], place)]
    if columns.get("messages") is None:
        column = str(columns["prompt"])
        return [{"role": "user", "content": _prompt_text(row, column, f"{place}: column `{column}`")}]
    column = str(columns["messages"])
    place = f"{place}: column `{column}`"
    value = _present(row, column, place)
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except DoubleKeyError as error:
            raise UserError(f"{place}: {error}; leave one of them out") from error
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place} is text, but not a JSON list of messages: {error}") from error
    if not isinstance(value, list) or not value:
        raise UserError(f"{place} must be a list of messages, not {kind_of(value) if value != [] else 'an empty one'}")
    messages = [_message(item, f"{place}, message {number}") for number, item in enumerate(value, 1)]
    if messages[-1]["role"] != "user":
        raise UserError(f"{place} must end with a message of the user, not of `{messages[-1]['role']}`")
    return messages


def _prompts(
    row: TableRow,
    number: int,
    cluster: str | None,
    columns: ColumnNames,
    name: str,
    mode: str | None,
    scored: str | None,
) -> Iterator[PromptRow]:
    """Yield the prompts of a row: one, or in modes `independent` and `alone` one for each user turn after the first."""
    place = f"{name}, row {number}"
    script = messages_of(row, columns, place)
    identity = content_id(script)

    source: dict[str, Any] = {"file": name, "row": number, "id": cell_text(row, columns.get("id"), place)}
    if columns.get("keep"):
        source["kept"] = {column: cell_text(row, column, place) for column in columns["keep"]}
    if columns.get("parent"):
        source["parent"] = _parent(row, columns["parent"], place)
    prompt = {
        "id": identity,
        "messages": script,
        "category": cell_text(row, columns.get("category"), place),
        "cluster": cluster or source.get("parent") or identity,
        "source": source,
    }
    if mode is None:
        yield prompt
        return
    _check_script(script, place)
    if mode == "cumulative":
        if scored == "after_first" and sum(message["role"] == "user" for message in script) == 1:
            raise UserError(f"{place}: has one turn, and `scored: after_first` counts only later ones")
        yield prompt | {"dialogue": True}
        return
    first, *later = [place for place, message in enumerate(script) if message["role"] == "user"]
    for turn, place_of_turn in enumerate(later, 1):
        # The messages before the second user turn (a system message, the first turn and its reply), then its own turn.
        before = script[: first if mode == "alone" else later[0]]
        messages = [*before, script[place_of_turn]]
        question = {"id": content_id(messages), "messages": messages, "source": source | {"turn": turn}}
        # Without a given reply the first turn has to be asked before.
        follows = mode == "independent" and later[0] == first + 1
        yield prompt | question | ({"dialogue": True} if follows else {})
    if not later:
        yield prompt


def _names_of_categories(
    rows: Sequence[TableRow], column: str | None, names: Mapping[str, str], name: str
) -> Mapping[str, str]:
    """Return the names of categories.

    Raises:
        UserError: for one that names no row, which the rows then do not have.
    """
    if not names:
        return names
    found = {str(value_text(row.get(str(column)))).strip() for row in rows}
    if unused := sorted(set(names) - found):
        near = nearest(unused[0], found)
        raise UserError(f"{name}: `categories` names `{unused[0]}`, which no row has in column `{column}`{near}")
    return names


def _right(row: TableRow, column: str, match: str, place: str) -> str:
    """Return the right answer in a row.

    Raises:
        UserError: if it has none.
    """
    text = cell_text(row, column, place)
    try:
        return right_answer(text or "", match)
    except ValueError as error:
        raise UserError(f"{place}: column `{column}`: {error}") from error


def _message(value: Any, place: str) -> PromptMessage:
    if not isinstance(value, dict) or "role" not in value or "content" not in value:
        raise UserError(f"{place} must be an object with `role` and `content`")
    role, content = value["role"], value["content"]
    if role not in ROLES:
        raise UserError(f"{place} has the role `{role}` (allowed: {', '.join(ROLES)})")
    if not isinstance(content, str):
        raise UserError(f"{place} has a content that is {kind_of(content)}; it must be a string")
    if lost := lost_field(value):
        raise UserError(
            f"{place} has the field `{lost}`, which is neither `role` nor `content` and would be lost: such rows "
            "cannot be asked. Take the field out if no model is meant to read it"
        )
    if role == "user" and is_blank(content):
        raise UserError(f"{place} is empty")
    return {"role": role, "content": valid_text(content, place)}


def _present(row: TableRow, column: str, place: str) -> Any:
    if column not in row:
        raise UserError(f"{place} is missing in this row{nearest(column, row)}")
    return row[column]


def _prompt_text(row: TableRow, column: str, place: str) -> str:
    value = _present(row, column, place)
    if not isinstance(value, str):
        raise UserError(f"{place} holds {kind_of(value)}; a prompt must be a string")
    if is_blank(value):
        raise UserError(f"{place} is empty")
    return valid_text(value, place)


def _parent(row: TableRow, column: str, place: str) -> str:
    """Return the id of the prompt that a row was made from.

    Raises:
        UserError: for what is none, such as the id of a row in a data set.
    """
    found = cell_text(row, column, place)
    if found is None or not re.fullmatch(PROMPT_ID, found):
        said = "is empty" if found is None else f"is {found[:40]!r}"
        raise UserError(f"{place}: column `{column}` {said}, and must hold the `id` of a prompt in prompts/SPLIT.jsonl")
    return found


def _turns(row: TableRow, columns: Sequence[str], place: str) -> list[str]:
    """Return the texts of the turns' columns without the empty cells at the end."""
    cells = [row.get(column) for column in columns]
    filled = [number for number, cell in enumerate(cells) if cell is not None and not is_blank(str(cell))]
    wanted = columns[: filled[-1] + 1] if filled else columns[:1]
    return [_prompt_text(row, column, f"{place}: column `{column}`") for column in wanted]


def _origin(prompt: PromptRow) -> str:
    """Return a prompt's origin for the log."""
    source = prompt["source"]
    return f"{source['row']} turn {source['turn']}" if "turn" in source else str(source["row"])


def _check_script(messages: Sequence[PromptMessage], place: str) -> None:
    """Check that messages which end with the user are a script: user turns, each with at most one reply.

    A system message may come first.

    Raises:
        UserError: if they are not, with `place` and the number of the message.
    """
    for number, message in enumerate(messages, 1):
        before = messages[number - 2]["role"] if number > 1 else None
        role, here = message["role"], f"{place}, message {number}"
        if role == "system" and before is not None:
            raise UserError(f"{here} is a system message; in a dialogue only the first message can be one")
        if role == "assistant" and before != "user":
            follows = "another reply" if before == "assistant" else "no turn of the user"
            raise UserError(f"{here} is a reply that follows {follows}; each turn of the user has one reply or none")
        if role == "assistant" and is_blank(message["content"]):
            raise UserError(f"{here} is an empty reply; leave the message out, and the model gives the reply itself")
