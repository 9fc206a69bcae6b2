"""Dialogues: what a model is asked turn by turn, and what it has answered so far.

A prompt of a dialogue is a script: messages, in which the user's turns are given, and the assistant's are given or left
out. A user turn that no given reply follows is asked; the model's own reply then stands in the history of later turns.
A turn's number is the number of user messages before it. A prompt that is no dialogue has one turn, number 0: all its
messages are given, and its last one is asked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import JUDGED_ANSWER_STATES

Prompt = Mapping[str, Any]


def is_dialogue(prompt: Prompt) -> bool:
    """Tell whether a prompt is a script of turns, and not one question with its history."""
    return bool(prompt.get("dialogue"))


def asked_turns(prompt: Prompt) -> list[int]:
    """Return the numbers of the turns that the model is asked, in ascending order."""
    if not is_dialogue(prompt):
        return [0]
    messages = prompt["messages"]
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    following = [messages[place + 1]["role"] if place + 1 < len(messages) else None for place in users]
    return [turn for turn, role in enumerate(following) if role != "assistant"]


def scored_turns(prompt: Prompt, scored: str) -> list[int]:
    """Return the numbers of a prompt's turns that are scored, in ascending order.

    Of a prompt that is no dialogue its only turn is scored; of a dialogue `all` turns that are asked, the `last` of
    them, or those `after_first` (not turn 0).

    Raises:
        UserError: if none is left.
        ValueError: if `scored` is none of these words.
    """
    asked = asked_turns(prompt)
    if not is_dialogue(prompt) or scored == "all":
        return asked
    if scored == "last":
        return asked[-1:]
    if scored != "after_first":
        raise ValueError(f"unknown choice of turns {scored!r}")
    later = [turn for turn in asked if turn > 0]
    if not later:
        source = prompt["source"]
        place = f"prompt {prompt['id']} ({source['file']}, row {source['row']})"
        raise UserError(f"{place} has one turn, and `scored: after_first` counts only later ones")
    return later


def conversation(prompt: Prompt, turn: int, replies: Mapping[int, str]) -> list[dict[str, str]]:
    """Return the messages that end with a turn's question, the model's replies to earlier turns filled in.

    Args:
        turn: number of the turn that is asked.
        replies: the model's own answer to every earlier turn that was asked, by its number.

    Raises:
        KeyError: if the reply to an earlier turn is missing.
    """
    if not is_dialogue(prompt):
        return [dict(message) for message in prompt["messages"]]
    asked = set(asked_turns(prompt))
    messages: list[dict[str, str]] = []
    number = -1
    for message in prompt["messages"]:
        number += message["role"] == "user"
        messages.append(dict(message))
        if message["role"] == "user":
            if number == turn:
                break
            if number in asked:
                messages.append({"role": "assistant", "content": replies[number]})
    return messages


def next_turn(prompt: Prompt, states: Mapping[int, str]) -> int | None:
    """Return the next turn to ask, or None when the dialogue is over.

    A dialogue ends early at a turn whose answer has no text: there is nothing that the next question could follow.

    Args:
        states: the state of the answer to each turn that was asked.
    """
    for turn in asked_turns(prompt):
        if turn not in states:
            return turn
        if states[turn] not in JUDGED_ANSWER_STATES:
            return None
    return None


def earlier_replies(answers: Sequence[Mapping[str, Any]], turn: int) -> dict[int, str]:
    """Return the answer texts before a turn, by turn, out of the answers of one (prompt, sample)."""
    return {answer["turn"]: answer["answer"] for answer in answers if answer["turn"] < turn}
