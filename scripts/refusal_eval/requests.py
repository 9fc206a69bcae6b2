"""Request files: what an engine will be asked for one cell, with the key of each request."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.files import BadFile, read_jsonl, write_jsonl
from refusal_eval.keys import KEY_VERSION, request_key
from refusal_eval.states import TOO_LONG


@dataclass(frozen=True)
class Ask:
    """One prompt to be asked: its token ids and the seed of each sample (None: nothing is drawn)."""

    prompt_id: str
    token_ids: list[int]
    samples: Sequence[tuple[int, int | None]]
    turn: int = 0


@dataclass(frozen=True)
class Request:
    """One request of a request file. `key` is None when the prompt does not fit the engine."""

    prompt_id: str
    sample: int
    turn: int
    key: str | None
    seed: int | None
    token_ids: list[int]


@dataclass(frozen=True)
class RequestFile:
    """A request file's header; `requests()` reads the rows."""

    path: Path
    header: Mapping[str, Any]

    def requests(self) -> Iterator[Request]:
        """Yield the requests in the file's order."""
        rows = read_jsonl(self.path)
        prefix = list(next(rows)["prefix"])
        for row in rows:
            token_ids = prefix + row["token_ids"]
            for sample in row["samples"]:
                yield Request(row["prompt_id"], sample["sample"], row["turn"], sample["key"], sample["seed"], token_ids)

    def keys(self) -> Iterator[str]:
        """Yield the keys of the requests that can be executed."""
        rows = read_jsonl(self.path)
        next(rows)
        for row in rows:
            yield from (sample["key"] for sample in row["samples"] if sample["key"] is not None)


def write_requests(
    path: str | Path,
    asks: Iterable[Ask],
    engine: Mapping[str, Any],
    sampling: Mapping[str, Any],
    determinism: str,
    max_model_len: int,
) -> dict[str, int]:
    """Write a request file; return the number of requests and of those that do not fit.

    The token ids that all prompts share (system prompt, rubric) are written once, in the header. A prompt that
    leaves no room for `max_tokens` gets no key: it is decided here, not by the server.

    Args:
        path: the request file.
        asks: what is asked, in the order of the rows.
        engine: the engine's identity file: `identity` and `engine_id`.
        sampling: every sampling parameter, as it is sent.
        determinism: strict, seeded or free.
        max_model_len: the most tokens of a prompt and its answer together.
    """
    asks = list(asks)
    prefix = common_prefix([ask.token_ids for ask in asks])
    header = {
        "key_version": KEY_VERSION,
        "engine_id": engine["engine_id"],
        "identity": dict(engine["identity"]),
        "sampling": dict(sampling),
        "determinism": determinism,
        "prefix": prefix,
    }
    counts = {"requests": 0, TOO_LONG: 0}
    rows: list[dict[str, Any]] = [header]
    for ask in asks:
        fits = len(ask.token_ids) + int(sampling["max_tokens"]) <= max_model_len
        samples = []
        for sample, seed in ask.samples:
            key = request_key(engine["identity"], ask.token_ids, sampling, seed, determinism) if fits else None
            samples.append({"sample": sample, "seed": seed, "key": key})
        counts["requests" if fits else TOO_LONG] += len(samples)
        own_ids = ask.token_ids[len(prefix) :]
        rows.append({"prompt_id": ask.prompt_id, "turn": ask.turn, "token_ids": own_ids, "samples": samples})
    write_jsonl(path, rows)
    return counts


def read_requests(path: str | Path) -> RequestFile:
    """Return a request file's header and a way to its rows.

    Raises:
        BadFile: if it is not a request file of this key version.
    """
    header = next(read_jsonl(path), None)
    if not isinstance(header, dict) or header.get("key_version") != KEY_VERSION:
        raise BadFile(f"{path} is not a request file of key version {KEY_VERSION}; delete it and run again")
    return RequestFile(Path(path), header)


def common_prefix(sequences: Sequence[list[int]]) -> list[int]:
    """Return the longest run of ids with which all sequences begin (empty for fewer than two sequences)."""
    if len(sequences) < 2:
        return []
    # What the first and the last in sorted order share, all between them share too.
    pairs = zip(min(sequences), max(sequences), strict=False)
    return [one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]
