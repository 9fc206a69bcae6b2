"""Scripts of dialogues: messages in which replies of the assistant may be left out, for the model to give."""

from __future__ import annotations

from collections.abc import Sequence

from refusal_eval.core.errors import UserError

Message = dict[str, str]


def check_script(messages: Sequence[Message], place: str) -> None:
    """Check that messages which end with the user are a script: the user's turns, each with one reply or none.

    A system message may stand before them.

    Args:
        messages: the script.
        place: what messages call it.

    Raises:
        UserError: if they are not.
    """
    for number, message in enumerate(messages, 1):
        before = messages[number - 2]["role"] if number > 1 else None
        role, here = message["role"], f"{place}, message {number}"
        if role == "system" and before is not None:
            raise UserError(f"{here} is a system message; in a dialogue only the first message can be one")
        if role == "assistant" and before != "user":
            follows = "another reply" if before == "assistant" else "no turn of the user"
            raise UserError(f"{here} is a reply that follows {follows}; each turn of the user has one reply or none")
        if role == "assistant" and not message["content"].strip():
            raise UserError(f"{here} is an empty reply; leave the message out, and the model gives the reply itself")


def separate_questions(script: Sequence[Message]) -> dict[int, list[Message]]:
    """Return a conversation for each user turn after the first, by the number of user turns before it in the script.

    Each holds what stands before the second user turn (a system message, the first turn and its reply, as far as they
    are there) and then its own turn. There is none for a script with one turn.
    """
    places = [place for place, message in enumerate(script) if message["role"] == "user"]
    return {turn: [*script[: places[1]], script[place]] for turn, place in enumerate(places) if turn > 0}
