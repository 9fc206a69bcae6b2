"""Request files: what an engine will be asked for one cell, with the key of each request."""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from refusal_eval.ask.keys import DEFAULT_DETERMINISM, EnginePrompt, Message, is_messages, request_key
from refusal_eval.config.kinds import CHANGES
from refusal_eval.core.canonical import KEY_VERSION
from refusal_eval.core.files import BadFile, read_jsonl, refuse_bad_rows, write_jsonl
from refusal_eval.core.states import TOO_LONG

Found = TypeVar("Found")
MISSING = type(...)
HEADER: Mapping[str, tuple[type, ...]] = {
    **{"prefix": (list,), "engine_id": (str,), "identity": (dict,), "sampling": (dict,), "determinism": (str,)},
    **dict.fromkeys(("dialogue", "retries"), (dict, MISSING)),
    "notes": (list, MISSING),
}
DAMAGE = (KeyError, TypeError, AttributeError, ValueError, OverflowError)  # what rows of another form cause


@dataclass(frozen=True)
class RequestSettings:
    """What all requests of a file have in common: the engine, how it draws, and which parts of the model are changed.

    It decides which of these are in a request's key and in the file's header. An engine reads from it what it sends.
    """

    engine_id: str = ""  # names the engine in the store
    identity: Mapping[str, Any] = field(default_factory=dict)  # the engine's identity
    sampling: Mapping[str, Any] = field(default_factory=dict)  # every sampling parameter, as it is sent
    determinism: str = DEFAULT_DETERMINISM  # strict, seeded or free
    # identity of each change of the model, by its name (see `Change.identity`)
    changes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_header(cls, header: Mapping[str, Any]) -> RequestSettings:
        """Return the settings that a request file's header holds."""
        changes = {name: header[name] for name in CHANGES.names() if name in header}
        return cls(header["engine_id"], header["identity"], header["sampling"], header["determinism"], changes)

    def header(self) -> dict[str, Any]:
        """Return what a request file's header says of them; what is neutral is left out, as in keys."""
        return {
            "engine_id": self.engine_id,
            "identity": dict(self.identity),
            "sampling": dict(self.sampling),
            "determinism": self.determinism,
            **self.changes,
        }

    def at(self, positions: Sequence[int]) -> RequestSettings:
        """Return the settings of a request by itself: changes at tokens of the prompt are at these, or left out."""
        placed = [name for name in self.changes if CHANGES.get(name).at_positions]
        if not placed:
            return self
        where = {"positions": list(positions)}
        changes = {
            name: {**identity, **where} if name in placed else identity
            for name, identity in self.changes.items()
            if positions or name not in placed
        }
        return replace(self, changes=changes)

    @property
    def served_as(self) -> str | None:
        """The name under which the engine serves the changed model; None for the engine's own."""
        names = (CHANGES.get(name)().served_as(identity) for name, identity in self.changes.items())
        return next(filter(None, names), None)

    @property
    def sent(self) -> dict[str, Any]:
        """The fields that ask a server of ours for changes that no load serves."""
        fields = dict[str, Any]()
        for name, identity in self.changes.items():
            fields |= CHANGES.get(name)().sent(identity)
        return fields

    def key(
        self, prompt: EnginePrompt, seed: int | None, max_model_len: int | None, positions: Sequence[int] = ()
    ) -> str | None:
        """Return the key of a request; None where the prompt leaves no room to answer.

        How long messages are only their engine knows.
        """
        room = None if max_model_len is None else max_model_len - int(self.sampling["max_tokens"])
        if room is not None and not is_messages(prompt) and len(prompt) > room:
            return None
        changes = self.at(positions).changes
        return request_key({**self.identity, **changes}, prompt, self.sampling, seed, self.determinism)


@dataclass(frozen=True)
class Ask:
    """A prompt to send, as token ids or messages, and the seed of each sample (None: nothing is drawn).

    For a dialogue this is the first turn; `script` is its prompt, from which later turns are rendered once earlier ones
    are answered (see `refusal_eval.ask.turns`). A judge is asked about one sample; `samples` then holds it once for
    each vote, and `cut` says how many characters of the answer were left out. `positions` are the tokens of the prompt
    at which the model is changed, if it is changed at some.
    """

    prompt_id: str
    prompt: EnginePrompt
    samples: Sequence[tuple[int, int | None]]
    turn: int = 0
    script: Mapping[str, Any] | None = None
    cut: int = 0
    positions: Sequence[int] = ()


@dataclass(frozen=True)
class Request:
    """One request of a request file.

    A batch of verdicts holds a million of these: token ids are kept as an array, and those that all prompts of a file
    share once. A list of them takes ten times the room.
    """

    prompt_id: str  # the prompt
    sample: int  # which of the samples
    turn: int  # which turn of a dialogue
    key: str | None  # None when the prompt does not fit the engine
    seed: int | None  # None where nothing is drawn
    own_ids: Sequence[int] = ()  # the token ids behind those that all prompts of the file share
    cut: int = 0  # the number of characters that a judge does not see of an answer which is too long for it
    shared_ids: Sequence[int] = ()  # the token ids with which all prompts of the file begin
    messages: Sequence[Message] | None = None  # the prompt of an engine that takes no token ids; None for others
    positions: Sequence[int] = ()  # the tokens of the prompt at which the model is changed (`Change.at_positions`)

    @property
    def place(self) -> tuple[str, int, int]:
        """Prompt id, sample and turn."""
        return self.prompt_id, self.sample, self.turn

    @property
    def token_ids(self) -> list[int]:
        return [*self.shared_ids, *self.own_ids]

    @property
    def prompt(self) -> EnginePrompt:
        """The prompt in the form that its engine takes."""
        return self.token_ids if self.messages is None else self.messages

    def follow_up(self, prompt: EnginePrompt, turn: int, seed: int | None, key: str | None) -> Request:
        """Return the request of a later turn of the same (prompt, sample)."""
        given: dict[str, Any] = {"messages": prompt} if is_messages(prompt) else {"own_ids": prompt, "messages": None}
        return replace(
            self, turn=turn, key=key, seed=seed, **{"own_ids": (), "shared_ids": (), "positions": (), **given}
        )


@dataclass(frozen=True)
class RequestFile:
    """A request file's header; `requests()` reads the rows."""

    path: Path
    header: Mapping[str, Any]

    @property
    def dialogue(self) -> Mapping[str, Any] | None:
        """How to render later turns; None for single-turn cells."""
        return self.header.get("dialogue")

    @property
    def notes(self) -> list[str]:
        """Possible faults in the rendering of its prompts; not part of any key."""
        return list(self.header.get("notes", ()))

    @property
    def retries(self) -> Mapping[str, Any] | None:
        """How to repeat judge votes that cannot be read; None if they are not repeated."""
        return self.header.get("retries")

    @property
    def can_go_on(self) -> bool:
        """Whether a request can be followed by another: a later turn, or a vote that is asked again."""
        return self.dialogue is not None or self.retries is not None

    @cached_property
    def settings(self) -> RequestSettings:
        """The settings that all its requests share."""
        return RequestSettings.of_header(self.header)

    def requests(self) -> Iterator[Request]:
        """Yield the requests in the file's order; of a dialogue only the first.

        Raises:
            BadFile: if a row is no request.
        """
        shared = array("i", self.header["prefix"])
        return self._of_rows(lambda row: _requests_of(row, shared))

    def scripts(self) -> dict[str, Mapping[str, Any]]:
        """Return the scripted dialogues by prompt id; raises what `requests` raises."""
        return dict(self._of_rows(_scripts_of))

    def keys(self) -> Iterator[str]:
        """Yield the keys of the requests that can be executed; of a dialogue only the first.

        Raises what `requests` raises.
        """
        return self._of_rows(_keys_of)

    def _of_rows(self, read: Callable[[Mapping[str, Any]], Iterable[Found]]) -> Iterator[Found]:
        for number, row in enumerate(itertools.islice(read_jsonl(self.path), 1, None), 2):
            try:
                found = list(read(row))
            except DAMAGE as error:
                what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
                raise BadFile(
                    f"{self.path}, row {number}: is not a request ({what}); delete the file and run again"
                ) from error
            yield from found


def _requests_of(row: Mapping[str, Any], shared: Sequence[int]) -> list[Request]:
    prompt_id, turn, cut, messages = row["prompt_id"], row["turn"], row.get("cut", 0), row.get("messages")
    if type(prompt_id) is not str or type(turn) is not int or type(cut) is not int:
        raise ValueError("`prompt_id` must be text, `turn` and `cut` whole numbers")
    if messages is None:
        prompt = array("i", row["token_ids"]), cut, shared, None
    else:
        prompt = array("i"), cut, shared, _messages(messages)
    positions = tuple(map(_whole, row.get("positions", ())))
    return [
        Request(prompt_id, _whole(one["sample"]), turn, _key(one["key"]), _whole(one["seed"], None), *prompt, positions)
        for one in row["samples"]
    ]


def _keys_of(row: Mapping[str, Any]) -> list[str]:
    return [key for sample in row["samples"] if (key := _key(sample["key"])) is not None]


def _scripts_of(row: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    if "script" not in row:
        return []
    _messages(row["script"]["messages"])
    return [(row["prompt_id"], row["script"])]


def _whole(value: Any, *others: None) -> Any:
    if type(value) is not int and value not in others:
        raise ValueError("`sample` and `seed` must be whole numbers")
    return value


def _key(value: Any) -> str | None:
    if value is not None and type(value) is not str:
        raise ValueError("`key` must be text")
    return value


def _texts(value: Any) -> None:
    if not all(type(one) is str for one in value):
        raise ValueError("`notes` must be texts")


def _messages(value: Any) -> Any:
    if not all(type(one["role"]) is type(one["content"]) is str for one in value):
        raise ValueError("`messages` must have `role` and `content`, both text")
    return value


def write_requests(
    path: str | Path,
    asks: Iterable[Ask],
    settings: RequestSettings,
    max_model_len: int | None,
    dialogue: Mapping[str, Any] | None = None,
    retries: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> dict[str, int]:
    """Write a request file; return the number of requests and of those that do not fit.

    The token ids that all prompts share (system prompt, rubric) are written once, in the header. A prompt that
    leaves no room for `max_tokens` gets no key: it is decided here, not by the server.

    Args:
        path: the request file.
        asks: the prompts to send, in the order of the rows.
        settings: what all requests have in common.
        max_model_len: the largest number of tokens of a prompt and its answer; None if only the engine knows.
        dialogue: how to render later turns (see `refusal_eval.ask.turns.Turns`); None without dialogues.
        retries: how to repeat votes that cannot be read (see `refusal_eval.judges.follow_ups`); None if they are not
            repeated.
        notes: possible faults in the rendering of the prompts.
    """
    asks, prefix = list(asks), list[Any]()
    if len(asks) > 1 and not any(is_messages(ask.prompt) for ask in asks):
        # What the first and the last in order share, all do.
        ends: list[list[Any]] = [list(end((ask.prompt for ask in asks), key=list)) for end in (min, max)]
        prefix = list(os.path.commonprefix(ends))  # noqa: RUF071 - of ids
    header = {"key_version": KEY_VERSION, "prefix": prefix, **settings.header()}
    if dialogue is not None:
        header["dialogue"] = {**dialogue, "max_model_len": max_model_len}
    if retries is not None:
        header["retries"] = dict(retries)
    if notes:
        header["notes"] = list(notes)
    counts = {"requests": 0, TOO_LONG: 0}

    def rows() -> Iterator[dict[str, Any]]:
        yield header
        for ask in asks:
            samples = []
            for sample, seed in ask.samples:
                key = settings.key(ask.prompt, seed, max_model_len, ask.positions)
                samples.append({"sample": sample, "seed": seed, "key": key})
                counts[TOO_LONG if key is None else "requests"] += 1
            row: dict[str, Any] = {"prompt_id": ask.prompt_id, "turn": ask.turn, "samples": samples}
            if is_messages(ask.prompt):
                row["messages"] = list(ask.prompt)
            else:
                row["token_ids"] = list(ask.prompt[len(prefix) :])
            if ask.script is not None:
                row["script"] = dict(ask.script)
            if ask.cut:
                row["cut"] = ask.cut
            if ask.positions:
                row["positions"] = list(ask.positions)
            yield row

    write_jsonl(path, rows())
    return counts


def read_requests(path: str | Path) -> RequestFile:
    """Return a request file's header and a way to its rows.

    Raises:
        BadFile: if it is not a request file of this key version, or its header is damaged.
    """
    header = next(read_jsonl(path), None)
    if not isinstance(header, dict) or header.get("key_version") != KEY_VERSION:
        raise BadFile(f"{path} is not a request file of key version {KEY_VERSION}; delete it and run again")
    refuse_bad_rows(path, [header], {**HEADER, **dict.fromkeys(CHANGES.names(), (dict, MISSING))})
    try:
        array("i", header["prefix"])
        _texts(header.get("notes", ()))
        file = RequestFile(Path(path), header)
        _ = file.settings.served_as
    except DAMAGE as error:
        raise BadFile(f"{path}, row 1: is damaged ({error}); delete the file and run again") from error
    return file
