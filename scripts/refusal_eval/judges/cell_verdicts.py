"""The verdicts on the answers of one cell, from what a judge's engine said about them and from what others said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.requests import Request
from refusal_eval.ask.store import not_in_store
from refusal_eval.ask.turns import Chain
from refusal_eval.core.states import CUT, JUDGE_FAILED, place_of
from refusal_eval.judges.judge_base import EngineJudge, Verdict
from refusal_eval.judges.verdict_files import read_safely, readable, verdict_row
from refusal_eval.judges.verdict_judges import DeferringJudge
from refusal_eval.judges.votes import combined
from refusal_eval.judges.without_verdict import without_verdict

AnswerPlace = tuple[str, int, int]
JudgedRow = Mapping[str, Any]
Rows = Mapping[AnswerPlace, JudgedRow]
ReadVote = Callable[[Request, Mapping[str, Any]], Verdict]


@dataclasses.dataclass
class AskedAnswer:
    """What a judge's engine was asked about one answer."""

    first: Request
    votes: tuple[Verdict, ...] = ()
    retried: int = 0  # votes that could not be read and were asked again
    # the tokens that were billed for its responses, by the key of each; empty where nobody bills
    billed: dict[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)


def verdict_rows(
    answers: Rows,
    asked: Mapping[AnswerPlace, AskedAnswer],
    unseen: Mapping[str, JudgedRow],
    said: Sequence[Rows] = (),
    deferring: DeferringJudge | None = None,
    some_turns: bool = False,
) -> list[dict[str, Any]]:
    """Return one line of a verdicts file per answer that was to be judged, in the order of the answers.

    Args:
        unseen: by prompt the verdicts of a judge that is fitted on gold on rows with a prompt that it was fitted on,
            each from a model that had not seen the like of that row: they are its verdicts there.
        said: the verdicts of each judge that `deferring` reads, in their order.
        deferring: the judge on whose behalf the engine was asked about the answers that it does not decide itself.
        some_turns: whether only some turns count, and have requests.
    """
    rows = []
    for answer in readable(answers.values()):
        place = place_of(answer)
        others = [one.get(place) for one in said]
        if deferring and (settled := deferring.settled(others)):
            rows.append(settled)
        elif not some_turns or place in asked:
            row = _row(answer, asked[place], unseen.get(answer["prompt_id"]))
            rows.append(deferring.deferred(row, others) if deferring else row)
    return rows


def _row(answer: JudgedRow, asked: AskedAnswer, unseen: JudgedRow | None) -> dict[str, Any]:
    row = dict(unseen) if unseen else verdict_row(answer, combined(asked.votes))
    row["key"] = asked.first.key
    if asked.first.cut:
        row["raw"][CUT] = asked.first.cut
    if asked.billed:
        row["billed"] = asked.billed
    return row


def asked_answers(
    chains: Iterable[Chain], read: ReadVote, rejected: Mapping[str, str]
) -> dict[AnswerPlace, AskedAnswer]:
    """Return what was asked about each answer, with its votes.

    Args:
        chains: of each vote what was asked for it, until it could be read.
        rejected: why the engine rejected a request, by its key.
    """
    found: dict[AnswerPlace, AskedAnswer] = {}
    for chain in chains:
        asked = found.setdefault(chain.first.place, AskedAnswer(chain.first))
        asked.votes += (vote_of(chain, read, rejected),)
        asked.retried += len(chain.answered) > 1
        for request, record in chain.answered:
            if request.key is not None and (usage := record["response"].get("usage")):
                asked.billed[request.key] = usage
    return found


def vote_of(chain: Chain, read: ReadVote, rejected: Mapping[str, str]) -> Verdict:
    """Return what one vote says after its last try."""
    waiting = chain.next
    if waiting is not None and waiting.key is None and not chain.answered:
        return Verdict(JUDGE_FAILED, raw={"error": "the prompt does not fit the judge's max_model_len"})
    if waiting is not None and waiting.key is not None:
        if waiting.key in rejected:
            return Verdict(JUDGE_FAILED, raw={"error": rejected[waiting.key]})
        raise not_in_store("a verdict's response is")
    request, record = chain.answered[-1]
    verdict = read(request, record["response"])
    if len(chain.answered) == 1:
        return verdict
    return dataclasses.replace(verdict, raw={**verdict.raw, "tries": len(chain.answered)})


def vote_reader(
    judge: EngineJudge,
    checked: Mapping[str, Any],
    written: AnswerReader,
    answers: Rows | None = None,
    fitted: str | None = None,
) -> ReadVote:
    """Return what turns a request and its response into a vote; the judge's own reasoning is taken off its text.

    Args:
        checked: what `EngineJudge.checked` found.
        written: reads what the judge wrote behind its reasoning.
        answers: the judged answers, for a judge that reads them beside the response.
        fitted: the file with the fitted model of a judge that is fitted on gold.
    """
    read, writes = judge.reader(checked, fitted), judge.votes_asked().written

    def vote(request: Request, response: Mapping[str, Any]) -> Verdict:
        def verdict(response: Mapping[str, Any]) -> Verdict:
            text = {"text": written.fields(request, response)["answer"] or ""} if writes else {}
            return read({**response, **text}, answers[request.place]["answer"] if answers else "")

        return without_verdict(response) or read_safely(verdict, response)

    return vote
