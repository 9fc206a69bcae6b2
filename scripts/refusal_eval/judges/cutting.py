"""Answers that are too long for a judge: cut in the answer, never in the rubric."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fitted:
    """A judge's prompt that fits."""

    token_ids: list[int]  # the prompt
    cut: int = 0  # characters of the answer that were left out


def fitted(token_ids_of: Callable[[str], list[int]], answer: str, room: int) -> Fitted | None:
    """Return the prompt about an answer, or about as much of its head and tail as fits.

    The gap is marked in the text with the number of characters that it holds. An answer is cut in halves of equal
    length, because a refusal stands at the head and a change of mind at the tail.

    Args:
        token_ids_of: makes the prompt from an answer's text.
        answer: the answer.
        room: the most tokens of the prompt.

    Returns:
        None where the prompt does not even fit without any of the answer.
    """
    token_ids = token_ids_of(answer)
    if len(token_ids) <= room:
        return Fitted(token_ids)
    low, high = 0, len(answer)  # `low` characters fit (once tried), `high` do not
    best: Fitted | None = None
    while low <= high:
        kept = (low + high) // 2
        token_ids = token_ids_of(with_gap(answer, kept))
        if len(token_ids) <= room:
            best, low = Fitted(token_ids, len(answer) - kept), kept + 1
        else:
            high = kept - 1
    return best


def with_gap(answer: str, kept: int) -> str:
    """Return the first and the last half of `kept` characters of an answer, and between them what is missing."""
    head, tail = answer[: (kept + 1) // 2], answer[len(answer) - kept // 2 :]
    return f"{head}\n[... {len(answer) - kept} characters are left out here ...]\n{tail}"
