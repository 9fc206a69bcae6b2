"""A probe of a chat template: does it render whole messages, an assistant's header, and what its options say?

What is certainly wrong stops the run before any request; what may be intended becomes a note.
"""

from __future__ import annotations

import difflib
import html
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from refusal_eval.core.errors import UserError

MessageRows = Sequence[Mapping[str, str]]

MOST_SHAPES = 12  # sequences of roles that are tried
LONG = 20_000  # characters of a long message
_REPLY = "Reply-of-a-probe."
# How a header calls who answers.
_ROLE = re.compile(r"assistant|model|chatbot|response|answer|\b(?:ai|bot|gpt)\b", re.IGNORECASE)
_REASONING = re.compile(r"[<\[|◁]+[^<>\[\]]*(?:think|reason)[^<>\[\]]*[>\]|▷]+", re.IGNORECASE)
_END = re.compile(r"end\d{3}-of-it")  # of each message of a probe
_FALSE, _TRUE = ("false", "no", "off", "0", "none", "null"), ("true", "yes", "on", "1")
_WORDS = ("low", "medium", "high", "none", "minimal", "on", "off", "a probe")
_NUMBERS = (0, 1, 2, 1_000_000)


class Render(Protocol):
    """Renders messages as text, with the model's options or with others."""

    def __call__(self, rows: MessageRows, options: Mapping[str, Any] | None = None, generation: bool = True) -> str:
        """Return the text; `generation` asks for the header of the reply.

        Raises:
            UserError: if the template refuses these messages.
        """
        ...


def chosen_shapes(shapes: Collection[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the sequences of roles that are tried, the shortest first; of many the shortest and the longest."""
    ordered = sorted(set(shapes), key=lambda shape: (len(shape), shape))
    half = MOST_SHAPES // 2
    return ordered if len(ordered) <= MOST_SHAPES else [*ordered[:half], *ordered[-half:]]


def message_notes(render: Render, shape: Sequence[str], template: str) -> list[str]:
    """Return what a template does to messages of these roles that may be meant.

    Args:
        shape: the roles, one for each message.
        template: what the template is called in errors.

    Raises:
        UserError: if it cuts or changes a message, or leaves one out.
    """
    notes = []
    rows = [{"role": role, "content": _probe_text(number)} for number, role in enumerate(shape)]
    try:
        rendered = render(rows)
    except UserError:
        return ["the template refuses a message with characters such as `<`, `&` and quotes; it could not be probed"]
    for row in rows:
        did, sure = _change_of(row["content"], rendered)
        if sure:
            raise UserError(
                f"{template} {did} a message of role `{row['role']}`, so that the model would not see what is meant. "
                "Give the model a template that renders messages as they are (`template: file.jinja`)"
            )
        notes += [f"the template {did} a message of role `{row['role']}`"] if did else []
    notes += _order_notes(rows, rendered, template)
    if "\ufeff" in rendered:
        notes.append("the template writes a byte-order mark (U+FEFF) into every prompt")
    for what, content in (
        (f"of {LONG:,} characters", "Long" + " word & word" * (LONG // 12) + " end"),
        ("that holds `</think>`", "Before the mark </think> behind the mark."),
    ):
        for number, row in enumerate(rows):
            if row["role"] == "assistant":  # may lose its reasoning
                continue
            try:
                kept = content in render([*rows[:number], {**row, "content": content}, *rows[number + 1 :]])
            except UserError:
                kept = False
            if not (kept or notes):
                notes.append(f"the template cuts or changes a message of role `{row['role']}` {what}")
    return list(dict.fromkeys(notes))


def _order_notes(rows: MessageRows, rendered: str, template: str) -> list[str]:
    """Return notes on how a template changes the order or number of messages, where that may be intended.

    Raises:
        UserError: if it changes the order of the turns. A system message may be moved into any user turn.
    """
    whole, places = " ".join(rendered.split()), dict[str, list[int]]()
    notes = list[str]()
    for row in rows:
        end = _END.search(row["content"])
        assert end
        found = [match.start() for match in re.finditer(re.escape(end[0]), whole)]
        if len(found) > 1:
            notes.append(f"the template writes a message of role `{row['role']}` {len(found)} times")
        places.setdefault("system" if row["role"] == "system" else "turns", []).append(found[-1] if found else -1)
    turns = places.get("turns", [])
    if turns != sorted(turns):
        raise UserError(
            f"{template} changes the order of the messages, so that the model would not see what is meant. Give the "
            "model a template that renders them one after the other (`template: file.jinja`)"
        )
    if turns and max(places.get("system", []), default=0) > turns[-1]:
        notes.append("the template writes a message of role `system` behind the last turn")
    return notes


def header_note(render: Render, shape: Sequence[str], template: str, prefill: str = "") -> str | None:
    """Return a note if the reply's header may be missing, else None.

    `[INST]`-like templates rightly write none. The text before a reply in a dialogue shows what the template means.

    Raises:
        UserError: if a dialogue has a header with a role there, and a prompt ends as it would without a reply.
    """
    rows = [{"role": role, "content": _probe_text(number)} for number, role in enumerate(shape)]
    if shape[-1] != "user":
        return None
    try:
        asked, whole = render(rows) + prefill, render([*rows, {"role": "assistant", "content": _REPLY}])
        same = asked.split() == (render(rows, generation=False) + prefill).split()
    except UserError:
        return None
    end = rows[-1]["content"][-12:]
    _, found, behind = asked.rpartition(end)
    before, replied, _ = whole.rpartition(_REPLY)
    _, also, between = before.rpartition(end)
    if not (found and replied and also):
        return None
    ends, begins = " ".join(behind.split()), " ".join(between.split())
    missing = begins[len(os.path.commonprefix([ends, begins])) :]  # noqa: RUF071 - of texts
    if not missing or _ROLE.search(ends):
        return None
    what = f"writes {begins[-60:]!r} before a reply in a dialogue, but a prompt ends with {ends[-60:]!r}"
    if _ROLE.search(missing) and same:
        raise UserError(
            f"{template} {what}: the model would not know that it is to answer. Let the template write that header "
            "`if add_generation_prompt`"
        )
    unknown = _ROLE.search(missing) or (same and _REASONING.sub("", missing).strip())
    return f"the template {what}; does it lack the generation prompt?" if unknown else None


def option_notes(
    render: Render,
    options: Mapping[str, Any],
    shapes: Collection[Sequence[str]],
    constants: Collection[Any],
) -> list[str]:
    """Return a note for each option whose value has no effect, or not the expected one.

    The template's default rightly has none, if another value of its type has one.

    Args:
        constants: the texts and numbers in the template.
    """
    dialogues: list[MessageRows] = list(_USUAL)
    dialogues += [[{"role": role, "content": _probe_text(n)} for n, role in enumerate(shape)] for shape in shapes]

    def seen(changed: Mapping[str, Any]) -> list[str | None]:
        return [_rendered_or_none(render, rows, changed) for rows in dialogues]

    notes, own = [], seen(options)
    for name, value in options.items():
        without = seen({key: other for key, other in options.items() if key != name})

        def differs(other: Any, name: str = name, without: Sequence[str | None] = without) -> bool:
            return seen({**options, name: other}) != without

        said = f"`template_options`: `{name}: {json.dumps(value, default=str)}`"
        if own == without:
            if not _is_default(value, differs, constants):
                hint = "; write true or false without quotes" if _reads_as_bool(value) is not None else ""
                notes.append(f"{said} changes nothing: the template renders as without it{hint}")
        elif isinstance(value, str) and value not in constants:
            meant = _reads_as_bool(value)
            if meant is not None and own == seen({**options, name: not meant}) != seen({**options, name: meant}):
                notes.append(f"{said} has the effect of {str(not meant).lower()}; write it without quotes")
    return notes


# What options may depend on, whatever prompts a study has: an instruction, and reasoning in an earlier turn.
_USUAL: Sequence[MessageRows] = (
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "<think>\nSo.\n</think>\n\nHi.", "reasoning_content": "So."},
        {"role": "user", "content": "And?"},
    ],
)


def _rendered_or_none(render: Render, rows: MessageRows, options: Mapping[str, Any]) -> str | None:
    try:
        return render(rows, options)
    except UserError:  # a value of another type may not suit the template
        return None


def _reads_as_bool(value: Any) -> bool | None:
    word = str(value).strip().lower() if isinstance(value, str) else ""
    return False if word in _FALSE else True if word in _TRUE else None


def _is_default(value: Any, differs: Any, constants: Collection[Any]) -> bool:
    """Return whether a value without effect is what the template takes for granted."""
    if isinstance(value, bool):
        return bool(differs(not value))
    if isinstance(value, str):
        if _reads_as_bool(value) is not None and value not in constants and (differs(True) or differs(False)):
            return False
        others = [*(one for one in constants if isinstance(one, str)), *_WORDS]
        effective = [other for other in dict.fromkeys(others) if other != value and differs(other)]
        misspelt = difflib.get_close_matches(value.lower(), [other.lower() for other in effective], cutoff=0.8)
        return bool(effective) and (value in constants or not misspelt)
    if isinstance(value, int | float):
        numbers = [one for one in constants if isinstance(one, int | float) and not isinstance(one, bool)]
        return any(differs(other) for other in [*numbers, *_NUMBERS] if other != value)
    return value is not None and not value  # an empty list


def _probe_text(number: int) -> str:
    """Return a message that shows what a template does to it: no other has its beginning, middle and end."""
    name = f"{number:03}"
    words = " ".join(f"word{name}x{place}" for place in range(30))
    return (
        f"Begin{name} of a probe: a < b && \"b\" > 'c', <b>bold</b> and C:\\new\\table. It's {{x}} 100 %, é and 中.\n\n"
        f'  - Middle{name},\ttabbed\n{words}\nSome "last" words & more, end{name}-of-it'
    )


def _change_of(text: str, rendered: str) -> tuple[str, bool]:
    """Return what a template did to a text (empty if nothing), and whether it is certainly wrong."""
    if text in rendered:
        return "", False
    flat, whole = " ".join(text.split()), " ".join(rendered.split())
    if flat in whole:
        return "changes the white space of", False
    if any(one[1:-1] in rendered for one in (json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text))):
        return "writes quotes and line breaks with backslashes in", False
    if flat in " ".join(html.unescape(rendered).split()):
        return "escapes characters (`&lt;` for `<`) of", True
    if flat.lower() in whole.lower():
        return "changes upper and lower case of", True
    middle = flat.find("Middle")
    parts = {"beginning": flat[:8], "middle": flat[middle : middle + 9], "end": flat[-12:]}
    lost = [name for name, part in parts.items() if part not in whole]
    if len(lost) == len(parts):
        return "leaves out", True
    return (f"cuts the {' and the '.join(lost)} of" if lost else "changes characters of"), True
