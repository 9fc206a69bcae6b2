"""The requests of a dialogue: each turn is rendered when the turns before it have been answered.

What is executed for a prompt is in general a dialogue: `Following.next_request(what was asked and answered so far)` is
the next request, or None when the dialogue is over. An ordinary prompt is the case of one turn; a judge's vote that
cannot be read is followed by another try.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.keys import sample_seed
from refusal_eval.ask.render import renderer_of
from refusal_eval.ask.requests import Request, RequestFile
from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import as_planned
from refusal_eval.study.dialogues import asked_turns, conversation, earlier_replies, next_turn

AT_ONCE = 5_000  # chains that are followed together
Response = Mapping[str, Any]


class Following(Protocol):
    """The source of follow-up requests: later turns of dialogues, or repeats of unreadable votes."""

    file: RequestFile

    def left(self, request: Request) -> int:
        """Return the number of requests from this one to the end, if nothing ends early."""
        ...

    def next_request(self, asked: Sequence[tuple[Request, Response]]) -> Request | None:
        """Return the request that follows these responses; None at the end."""
        ...


class Turns:
    """The later turns of one request file.

    Args:
        file: the request file of a cell.
        tokenizer_folder: folder of the model's tokenizer, read only if the file has dialogues; None for an engine that
            takes messages.

    Raises:
        UserError: if the template file has changed since the first turns.
    """

    def __init__(self, file: RequestFile, tokenizer_folder: str | None) -> None:
        self.file = file
        self._how = file.dialogue
        self._scripts = file.scripts() if self._how is not None else {}
        if self._how is not None:
            rendering = self._how["rendering"]
            hashes = rendering.get("template_sha256", [])
            with as_planned([rendering["template"] for _ in hashes], hashes):
                self._renderer = renderer_of(tokenizer_folder, rendering)
            self._reader = AnswerReader(tokenizer_folder, self._how["reasoning"], rendering["trust_remote_code"])

    def asked(self, prompt_id: str) -> list[int]:
        """Return the turns of a prompt that need a response."""
        script = self._scripts.get(prompt_id)
        return [0] if script is None else asked_turns(script)

    def left(self, request: Request) -> int:
        """Return the number of turns from this one to the end, if the dialogue does not end early."""
        return sum(turn >= request.turn for turn in self.asked(request.prompt_id))

    def next_request(self, asked: Sequence[tuple[Request, Response]]) -> Request | None:
        """Return the request that follows these turns of one (prompt, sample); None at the end.

        The request's key is None if the conversation has become too long for the engine.

        Raises:
            UserError: if the chat template refuses the conversation.
        """
        first = asked[0][0]
        prompt = self._scripts.get(first.prompt_id)
        if self._how is None or prompt is None:
            return None
        answers = [{"turn": request.turn, **self._reader.fields(request, response)} for request, response in asked]
        turn = next_turn(prompt, {answer["turn"]: answer["state"] for answer in answers})
        if turn is None:
            return None
        rendered = self._renderer.prompt(conversation(prompt, turn, earlier_replies(answers, turn)))
        study_seed = self._how["seed"]
        seed = None if study_seed is None else sample_seed(study_seed, first.prompt_id, first.sample, turn)
        key = self.file.settings.key(rendered, seed, self._how["max_model_len"])
        return first.follow_up(rendered, turn, seed, key)


@dataclasses.dataclass
class Chain:
    """The turns of one (prompt, sample), as far as the store has them."""

    answered: list[tuple[Request, Mapping[str, Any]]]  # requests with their records in the store
    # the next request, without a record (its key is None if it does not fit); None when the dialogue is over
    next: Request | None

    @property
    def first(self) -> Request:
        """What was asked first."""
        request = self.answered[0][0] if self.answered else self.next
        assert request is not None
        return request

    @property
    def responses(self) -> list[tuple[Request, Response]]:
        """The answered requests so far, with their responses."""
        return [(request, record["response"]) for request, record in self.answered]


def walk(turns: Following, store: StoreReader) -> Iterator[Chain]:
    """Yield the chain of each (prompt, sample) of a request file, in the file's order.

    Some thousands are looked up together: the responses of all would not fit into memory.
    """
    requests = turns.file.requests()
    while chains := [Chain([], request) for request in itertools.islice(requests, AT_ONCE)]:
        _follow(chains, turns, store)
        yield from chains


def _follow(chains: Sequence[Chain], turns: Following, store: StoreReader) -> None:
    """Extend new chains as far as the store has responses."""
    going_on = chains
    while going_on:  # once per turn, so that each turn takes one look-up for all
        records = store.lookup(chain.next.key for chain in going_on if chain.next is not None and chain.next.key)
        going_on = [chain for chain in going_on if chain.next is not None and chain.next.key in records]
        for chain in going_on:
            assert chain.next is not None and chain.next.key is not None
            chain.answered.append((chain.next, records[chain.next.key]))
            chain.next = turns.next_request(chain.responses)
