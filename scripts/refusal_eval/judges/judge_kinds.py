"""From a catalogue entry to the judge that asks an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.rubric import Rubric
from refusal_eval.judges.classifier_judge import ClassifierJudge
from refusal_eval.judges.judge_base import EngineJudge
from refusal_eval.judges.llm_judge import LabelJudge
from refusal_eval.judges.reasoned_judge import ReasonedJudge
from refusal_eval.judges.wildguard_judge import WildGuardJudge


def engine_judge(reading: Mapping[str, Any], checked: Mapping[str, Any]) -> EngineJudge:
    """Return the judge.

    Args:
        reading: the params of its rules (see `Judging.reading` in workflow/judging.py).
        checked: what the rule `check_judge` found out: the tokens of the labels, for kind `llm`, and those of the marks
            around its reasoning, for a judge that reasons.

    Raises:
        UserError: for a rubric that cannot be used.
    """
    if reading["kind"] == "wildguard":
        return WildGuardJudge()
    if reading["kind"] == "classifier":
        return ClassifierJudge()
    rubric = Rubric(reading["rubric"])
    if reading["kind"] == "llm":
        return LabelJudge(rubric, checked["label_token_ids"])
    votes, retries, reasoning = reading["votes"], reading["retries"], reading["reasoning"]
    return ReasonedJudge(
        rubric, reading["sampling"], votes, retries, reasoning, checked["marks"] if reasoning else None, reading["form"]
    )
