"""What is asked after the first requests of a file: further turns, and again the votes that cannot be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.ask.keys import EnginePrompt, is_messages, sample_seed
from refusal_eval.ask.requests import Request, RequestFile
from refusal_eval.ask.turns import Response
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.files import canonical_json
from refusal_eval.judges.without_verdict import without_verdict

if TYPE_CHECKING:
    from refusal_eval.ask.store import StoreReader
    from refusal_eval.ask.turns import Chain, Following


def vote_seed(study_seed: int, prompt: EnginePrompt, vote: int) -> int:
    """Return the seed of a vote: equal prompts (equal answers) get equal votes, and cost them once."""
    text = canonical_json(list(prompt)) if is_messages(prompt) else ",".join(map(str, prompt))
    return sample_seed(study_seed, text, vote)


def following(file: RequestFile, tokenizer_folder: str | None) -> Following:
    """Return what is asked after the first requests of a file.

    Args:
        file: a request file that `can_go_on`.
        tokenizer_folder: folder of the engine's tokenizer; None for an engine that takes messages.
    """
    # Here, as rendering is heavy and the workflow, which asks whether anything is missing, seldom needs it.
    if file.retries is None:
        from refusal_eval.ask.turns import Turns

        return Turns(file, tokenizer_folder)
    return Retries(file, tokenizer_folder)


def stored_votes(file: RequestFile, tokenizer_folder: str, store: StoreReader) -> Iterator[Chain]:
    """Yield what was asked for each vote of a judge, and answered, until it could be read; in the file's order."""
    from refusal_eval.ask.turns import walk

    retries = Retries(file, tokenizer_folder)
    return walk(retries, store)


class Retries:
    """What follows the first request of each vote in one request file of a judge.

    Args:
        file: the request file; its header's `retries` has `count`, `reasoning`, `trust_remote_code`, `max_model_len`
            and the `kind` of the judge, with its `form` where it has one of its own (`VotesAsked`). Nothing follows the
            votes of a file without them.
        tokenizer_folder: folder of the judge's tokenizer; read only for judges that reason.
    """

    def __init__(self, file: RequestFile, tokenizer_folder: str | None) -> None:
        from refusal_eval.ask.answers import AnswerReader

        self.file, self._count = file, 0
        if file.retries is None:
            return
        self._count, self._length = int(file.retries["count"]), file.retries["max_model_len"]
        self._reader = AnswerReader(tokenizer_folder, file.retries["reasoning"], file.retries["trust_remote_code"])
        self._form = file.retries.get("form", {})
        kind = file.retries.get("kind", "reasoned")  # request files of before 2026-11-24 name none
        self._can_read: Callable[[Response, Mapping[str, Any]], bool] = JUDGES.get(kind).can_read

    def left(self, request: Request) -> int:
        """Return 1: a vote is expected to be readable."""
        return 1

    def next_request(self, asked: Sequence[tuple[Request, Response]]) -> Request | None:
        """Return the next try of a vote whose last response cannot be read; None when it is read, or tried enough."""
        request, response = asked[-1]
        if len(asked) > self._count or self._was_read(request, response):
            return None
        seed = sample_seed(int(asked[0][0].seed or 0), "again", len(asked))
        key = self.file.settings.key(request.prompt, seed, self._length)
        return dataclasses.replace(request, seed=seed, key=key)

    def _was_read(self, request: Request, response: Response) -> bool:
        """Tell whether a response needs not be asked for again; one that is damaged would come back the same."""
        if without_verdict(response) is not None:
            return True
        try:
            text = self._reader.fields(request, response)["answer"] or ""
            return self._can_read({**response, "text": text}, self._form)
        except (KeyError, TypeError, ValueError):
            return True
