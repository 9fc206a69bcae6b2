"""What the tables of the trade-off say alike: rates and their marks, how intervals were made, and who judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.report.paper.display import NO_DATA, Labels, interval, notes_of, percent
from refusal_eval.report.paper.frames import NOT_MEASURED, Card, agreement_texts
from refusal_eval.report.paper.table_notes import OF_DIALOGUES

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


def flags_notes(flags: Iterable[Iterable[str]]) -> list[str]:
    """Return the notes for the marks of numbers with these flags."""
    return [f"{note}." for note in notes_of(flag for own in flags for flag in own)]
