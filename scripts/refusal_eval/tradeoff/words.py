"""What the tables of the trade-off say alike: rates and their marks, how intervals were made, and who judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.display import NO_DATA, Labels, interval, mark_of, notes_of, percent
from refusal_eval.frames import NOT_MEASURED, Card, agreement_texts
from refusal_eval.scores import few_flags
from refusal_eval.table_notes import OF_DIALOGUES

WILSON = "Wilson with cluster-robust effective size"
RECOVERED = "variances recovered from those of both rates"
TURNS_NOTE = f"Prompts{OF_DIALOGUES}."


def judge_notes(judge: str, cards: Iterable[Card], show: Labels, samples: int) -> list[str]:
    """Return K, the judge, and how well it agrees with people."""
    texts = agreement_texts(judge, cards, show.golds)
    about = [f"Judge {show.judge(judge)}, agreement with people on {text}." for text in texts]
    return [f"K = {samples} answers to each prompt.", *(about or [f"Judge {show.judge(judge)}, {NOT_MEASURED}."])]


def rate_text(part: Mapping[str, Any] | None) -> str:
    """Return a rate in percent with its interval; a dash for None."""
    if part is None:
        return NO_DATA
    return f"{percent(part['value'])} {interval(part['low'], part['high'])}".strip()


def few_mark(clusters: int) -> str:
    """Return the mark of a number that rests on so many clusters."""
    return mark_of(few_flags(clusters))


def few_notes(clusters: Iterable[int]) -> list[str]:
    """Return the note for that mark, where one of these numbers has it."""
    return [f"{note}." for note in notes_of(flag for n in clusters for flag in few_flags(n))]
