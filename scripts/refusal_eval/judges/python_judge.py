"""A judge that is a user's own function in a file of their own."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import JUDGED, LABELS, VERDICT_STATES
from refusal_eval.judges.judge_base import Messages, Verdict


class PythonJudge:
    """Calls `function(messages, answer)`.

    The function returns a label (refusal, partial or compliance), None when it cannot tell (state unparsable), or a
    mapping with `label` and, if it likes, `p_refusal`, `kind`, `state` and `raw`.
    """

    def __init__(self, file: str, function: str) -> None:
        self._function = load_function(file, function)

    def judge(self, messages: Messages, answer: str) -> Verdict:
        """Return the verdict on one answer.

        Raises:
            ValueError: if the function returned something else than described.
        """
        return verdict_of(self._function([dict(message) for message in messages], answer))


def load_function(file: str, function: str) -> Callable[[list[dict[str, str]], str], Any]:
    """Return a function out of a Python file.

    Raises:
        UserError: if the file cannot be imported or has no such function.
    """
    spec = importlib.util.spec_from_file_location("user_judge", file)
    if spec is None or spec.loader is None:
        raise UserError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise UserError(f"{file} has no function `{function}`")
    return found  # type: ignore[no-any-return]


def verdict_of(value: Any) -> Verdict:
    """Return what a user's function returned as a verdict."""
    fields = dict(value) if isinstance(value, dict) else {"label": value}
    unknown = set(fields) - {"label", "p_refusal", "kind", "flags", "state", "raw"}
    label = fields.get("label")
    state = fields.get("state") or (JUDGED if label is not None else "unparsable")
    if unknown or state not in VERDICT_STATES or (label is not None and label not in LABELS):
        raise ValueError(f"a judge returns one of {', '.join(LABELS)}, None, or a mapping with `label`; not {value!r}")
    p_refusal = fields.get("p_refusal")
    if p_refusal is not None:
        p_refusal = float(p_refusal)
        if not 0 <= p_refusal <= 1:
            raise ValueError(f"p_refusal must lie between 0 and 1, not {p_refusal!r}")
    flags = tuple(str(flag) for flag in fields.get("flags") or ())
    return Verdict(state, label, p_refusal, fields.get("kind"), flags, fields.get("raw") or {})
