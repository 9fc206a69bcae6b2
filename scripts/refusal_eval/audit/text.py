"""Texts of users and models as raters see them: nothing hidden, nothing that a spreadsheet takes for a formula."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# What cannot be seen or changes how the text around it is shown: control characters, bidirectional overrides and
# isolates, interlinear and tag characters, half surrogate pairs. Marks that ordinary Arabic or Hebrew needs stay.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
# A cell that a spreadsheet would compute, or whose beginning it would drop. An apostrophe before it counts too, so that
# an escaped cell has the same form and what is escaped twice comes back in two steps.
_FORMULA = re.compile("'*(?:[ \t\r\n]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")
LONGEST_CELL = 32_000  # characters; spreadsheets cut a cell at 32,767
ROLES = {"user": "User", "assistant": "Assistant", "system": "System"}


def visible(text: str) -> str:
    """Return a text with line ends as "\\n" and characters that hide or reorder others as codes, `[U+202E]`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


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


def escaped_cell(text: str) -> str:
    """Return a CSV cell that no spreadsheet takes for a formula: an apostrophe before = + - @, tab or line end."""
    return "'" + text if _FORMULA.match(text) else text


def plain_cell(cell: str) -> str:
    """Return what `escaped_cell` was given."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def same_text(shown: str, given: str) -> bool:
    """Tell whether a cell that came back holds what was shown, but for what spreadsheets do to it.

    They change line ends and margins, and some drop an apostrophe at the beginning.
    """
    return _core(shown) == _core(given)


def _core(text: str) -> str:
    return " ".join(text.split()).lstrip("'")
