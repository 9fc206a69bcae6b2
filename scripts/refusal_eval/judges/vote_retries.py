"""Votes that cannot be read are asked again, with another seed: the dialogue of a judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.keys import sample_seed
from refusal_eval.ask.requests import Request, RequestFile
from refusal_eval.core.states import UNPARSABLE
from refusal_eval.judges.judge_base import Verdict, read_safely
from refusal_eval.judges.reasoned_judge import reasoned_vote

Response = Mapping[str, Any]


def vote_seed(study_seed: int, token_ids: Sequence[int], vote: int) -> int:
    """Return the seed of a vote: equal prompts (equal answers) get equal votes, and cost them once."""
    return sample_seed(study_seed, ",".join(map(str, token_ids)), vote)


def read_vote(reader: AnswerReader, request: Request, response: Response) -> Verdict:
    """Return what a response says, without the judge's own reasoning."""
    return read_safely(
        lambda whole: reasoned_vote({**whole, "text": reader.fields(request, whole)["answer"] or ""}), response
    )


class Retries:
    """What follows the first request of each vote in one request file of a judge.

    Args:
        file: the request file; its header's `retries` has `count`, `reasoning`, `trust_remote_code`, `max_model_len`.
        tokenizer_folder: folder of the judge's tokenizer; read only for judges that reason.
    """

    def __init__(self, file: RequestFile, tokenizer_folder: str | None) -> None:
        assert file.retries is not None
        self.file = file
        self._count, self._length = int(file.retries["count"]), int(file.retries["max_model_len"])
        self._reader = AnswerReader(tokenizer_folder, file.retries["reasoning"], file.retries["trust_remote_code"])

    def left(self, request: Request) -> int:
        """Return 1: a vote is expected to be readable."""
        return 1

    def next_request(self, asked: Sequence[tuple[Request, Response]]) -> Request | None:
        """Return the next try of a vote whose last response cannot be read; None when it is read, or tried enough."""
        request, response = asked[-1]
        if len(asked) > self._count or read_vote(self._reader, request, response).state != UNPARSABLE:
            return None
        seed = sample_seed(int(asked[0][0].seed or 0), "again", len(asked))
        key = self.file.settings.key(request.prompt, seed, self._length)
        return dataclasses.replace(request, seed=seed, key=key)
