"""Responses of a judge's engine that hold no verdict, whatever the judge: blocked, refused or failed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.states import JUDGE_FAILED, JUDGE_REFUSED, NOBODY
from refusal_eval.judges.judge_base import Verdict

MOST_REFUSAL = 600  # characters of a judge's own refusal that are kept


def without_verdict(response: Mapping[str, Any]) -> Verdict | None:
    """Return what becomes of a response in which the judge says nothing of the answer; None where it may.

    Asked again it would come again: it is never retried. A block is that of the judge, and says nothing of the model.
    """
    ended = response.get("finish_reason")
    if ended == "content_filter":
        return Verdict(JUDGE_REFUSED, raw={"blocked": dict(response.get("blocked") or NOBODY)})
    if response.get("declared"):
        return Verdict(JUDGE_REFUSED, raw={"declared": True, "text": str(response.get("text", ""))[:MOST_REFUSAL]})
    if ended == "failed":
        return Verdict(JUDGE_FAILED, raw={"error": response.get("reason") or "the judge's engine gave no answer"})
    if ended == "too_long":
        why = response.get("reason") or "the prompt is too long for the judge's engine"
        return Verdict(JUDGE_FAILED, raw={"error": why})
    return None
