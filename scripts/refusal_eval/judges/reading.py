"""How the responses of a judge of each kind are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.requests import Request, RequestFile
from refusal_eval.judges.classifier_judge import classifier_verdict
from refusal_eval.judges.judge_base import Verdict, read_safely
from refusal_eval.judges.llm_judge import label_verdict
from refusal_eval.judges.published_judge import published_verdict
from refusal_eval.judges.reasoned_judge import PUBLISHED
from refusal_eval.judges.vote_retries import read_vote
from refusal_eval.judges.wildguard_judge import wildguard_verdict

ReadVote = Callable[[Request, Mapping[str, Any]], Verdict]


def vote_reader(
    file: RequestFile, tokenizer_folder: str, checked: Mapping[str, Any], decision: Mapping[str, Any]
) -> ReadVote:
    """Return what turns a request and its response into a vote.

    Args:
        file: the judge's request file.
        tokenizer_folder: folder of its tokenizer; read only for judges that reason.
        checked: what the rule `check_judge` found out.
        decision: the params that decide how responses are read (see `Judging.decision` in workflow/judging.py).
    """
    if decision["kind"] == "llm":
        labels = list(checked["label_token_ids"])
        threshold, floor = decision["threshold"], decision["mass_floor"]
        return lambda _, response: read_safely(lambda whole: label_verdict(whole, labels, threshold, floor), response)
    if decision["kind"] == "wildguard":
        return lambda _, response: read_safely(wildguard_verdict, response)
    if decision["kind"] == "classifier":
        classes, names, threshold = checked["classes"], checked["class_names"], decision["threshold"]
        return lambda _, response: read_safely(
            lambda whole: classifier_verdict(whole, classes, names, threshold), response
        )
    reader = AnswerReader(tokenizer_folder, decision["reasoning"], decision["trust_remote_code"])
    if decision["form"] == PUBLISHED:
        return lambda request, response: read_safely(
            lambda whole: published_verdict(reader.fields(request, whole)["answer"] or ""), response
        )
    return lambda request, response: read_vote(reader, request, response)
