"""Texts of users and models as raters see them: nothing hidden, and short enough for a spreadsheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refusal_eval.core.texts import visible

LONGEST_CELL = 32_000  # characters; spreadsheets cut a cell at 32,767
ROLES = {"user": "User", "assistant": "Assistant", "system": "System"}


def conversation_text(messages: Sequence[Mapping[str, str]]) -> str:
    """Return messages as one visible text: the words alone where the user asked one thing, else with who speaks."""
    if len(messages) == 1 and messages[0]["role"] == "user":
        return visible(messages[0]["content"])
    parts = (f"[{ROLES.get(message['role'], message['role'])}]\n{visible(message['content'])}" for message in messages)
    return "\n\n".join(parts)


def shortened(text: str) -> str:
    """Return a text that fits a spreadsheet's cell; a longer one says how much is left out and where it stands."""
    if len(text) <= LONGEST_CELL:
        return text
    return text[:LONGEST_CELL] + f"\n[{len(text) - LONGEST_CELL} more characters: label this row on the page]"


def same_text(shown: str, given: str) -> bool:
    """Tell whether a cell that came back holds what was shown, but for what spreadsheets do to it.

    They change line ends and margins, and some drop an apostrophe at the beginning.
    """
    return _core(shown) == _core(given)


def _core(text: str) -> str:
    return " ".join(text.split()).lstrip("'")
