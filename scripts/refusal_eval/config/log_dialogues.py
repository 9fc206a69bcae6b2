"""Dialogues in files of answers: a row for each turn, which together give the script that a split has.

Rows of one model with one `prompt_id` are a dialogue if one of them has a `turn` after 0. Its script is what the last
turn was asked, without the model's own replies to the turns that have rows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from refusal_eval.config.log_reader import LogRow, messages_of
from refusal_eval.core.errors import UserError

Script = list[dict[str, str]]
DialoguePlace = tuple[Any, ...]


class AnsweredPrompt(NamedTuple):
    """What a row answers.

    Attributes:
        prompt: the messages that a split has: what was asked, or the script of a dialogue.
        sample: which answer to it; None where the row does not say it.
        turn: number of messages of the user before the one that was answered, of a dialogue; else 0.
    """

    prompt: Script
    sample: int | None
    turn: int


def asked_by(rows: Sequence[LogRow]) -> list[AnsweredPrompt]:
    """Return what each row answers.

    Raises:
        UserError: if turns of one dialogue do not fit each other.
    """
    found = [AnsweredPrompt(messages_of(row), row.get("sample"), 0) for row in rows]
    for members in _dialogues(rows).values():
        turns = _asked_in_turns([rows[number] for number in members])
        for number, asked in zip(members, turns, strict=True):
            found[number] = asked
    return found


def dialogue_of(rows: Sequence[LogRow]) -> dict[str, str] | None:
    """Return how a split of these rows asks its turns, as its entry says it; None without dialogues.

    Turns count that have labels: all, those after the first, or the last ones; all where nothing has labels.
    """
    if not (groups := _dialogues(rows)):
        return None
    firsts, earlier, ends = set[bool](), set[bool](), set[int]()  # whether turns that can be read have labels
    for members in groups.values():
        ends.add(end := max(rows[number].get("turn", 0) for number in members))
        for row in (rows[number] for number in members):
            turn, labelled = row.get("turn", 0), bool(row.get("labels"))
            if row["answer"].strip() and not row.get("blocked") and turn < end:
                earlier.add(labelled)
                firsts |= {labelled} if turn == 0 else set()
    if not any(row.get("labels") for row in rows) or not earlier or True in firsts:
        return {"mode": "cumulative", "scored": "all"}
    alone = sum(map(len, groups.values())) < len(rows)  # a prompt of one turn has no turn after the first
    # Where both words fit, rates by turn exist for the turns after the first alone.
    if firsts and not alone and (True in earlier or ends == {1}):
        return {"mode": "cumulative", "scored": "after_first"}
    return {"mode": "cumulative", "scored": "all" if True in earlier else "last"}


def _dialogues(rows: Sequence[LogRow]) -> dict[DialoguePlace, list[int]]:
    """The numbers of the rows of each dialogue."""
    places = [(row.get("model"), row.get("split"), row.get("prompt_id")) for row in rows]
    several = {place for place, row in zip(places, rows, strict=True) if row.get("turn")}
    found: dict[DialoguePlace, list[int]] = {}
    for number, place in enumerate(places):
        if place in several:
            found.setdefault(place, []).append(number)
    return found


def _asked_in_turns(rows: Sequence[LogRow]) -> list[AnsweredPrompt]:
    """What the rows of one dialogue answer, of all its samples."""
    asked = [messages_of(row) for row in rows]
    turns = [sum(message["role"] == "user" for message in messages) - 1 for messages in asked]
    for row, turn in zip(rows, turns, strict=True):
        if row.get("turn", 0) != turn:
            raise UserError(
                f"{place_of_row(row)}: its `turn` is {row.get('turn', 0)}, and {turn} messages of the user come before "
                "the one that it answers"
            )
    bare = [_without_replies(messages, set(turns)) for messages in asked]
    longest = max(range(len(rows)), key=lambda number: len(bare[number]))
    counts, samples = Counter[int](), list[int]()
    for row, turn, own in zip(rows, turns, bare, strict=True):
        if bare[longest][: len(own)] != own:
            raise UserError(
                f"{place_of_row(row)}: asks something else than {place_of_row(rows[longest])}, which is another turn "
                f"of the dialogue `{row['prompt_id']}`"
            )
        samples.append(row.get("sample", counts[turn]))
        counts[turn] += 1
    _check_history(rows, asked, list(zip(samples, turns, strict=True)))
    return [AnsweredPrompt(bare[longest], sample, turn) for sample, turn in zip(samples, turns, strict=True)]


def _without_replies(messages: Iterable[Mapping[str, str]], turns: set[int]) -> Script:
    """Messages without the replies to these turns."""
    found, turn = Script(), -1
    for message in messages:
        turn += message["role"] == "user"
        if message["role"] != "assistant" or turn not in turns:
            found.append(dict(message))
    return found


def _check_history(rows: Sequence[LogRow], asked: Sequence[Script], places: Sequence[tuple[int, int]]) -> None:
    """Refuse a turn whose history has other replies than the rows of the earlier turns: judges read these."""
    answers = {place: row for place, row in zip(places, rows, strict=True)}
    for row, messages, (sample, _) in zip(rows, asked, places, strict=True):
        turn = -1
        for message in messages:
            turn += message["role"] == "user"
            earlier = answers.get((sample, turn)) if message["role"] == "assistant" else None
            # What the reply was parted from, such as reasoning, may be in the earlier row.
            if earlier and message["content"].strip() not in earlier["answer"]:
                raise UserError(
                    f"{place_of_row(row)}: its history has another reply to turn {turn} than {place_of_row(earlier)}"
                )


def place_of_row(row: Mapping[str, Any], file: str = "") -> str:
    """Return where a row was read, for messages."""
    source = row.get("source", {})
    where = f", line {source['line']}" if "line" in source else f", {source.get('member', 'a row')}"
    return f"{source.get('file', file)}{where}"
