"""What is still to be executed: the requests of a batch that the store lacks, in a fixed order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refusal_eval.ask.requests import Request, RequestFile, RequestSettings, read_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.ask.store_index import key_numbers
from refusal_eval.ask.turns import Following, walk
from refusal_eval.core.errors import UserError

# What follows the first requests of a file, by the folder of its tokenizer (`judges.follow_ups.following`).
Follow = Callable[[RequestFile, str | None], Following]


@dataclass(frozen=True)
class Pending:
    """A request to be executed."""

    request: Request  # its key is not None
    settings: RequestSettings  # what the requests of its file have in common
    cell: str = ""  # the name of its cell, for the log
    # makes the later turns, or asks a vote again; None where nothing can follow
    turns: Following | None = None
    # the earlier turns, each with its response
    answered: list[tuple[Request, Any]] = field(default_factory=list)
    turns_left: int = 1  # turns from here on, if the prompt does not end early

    def after(self, response: Mapping[str, Any]) -> Pending | None:
        """Return the next turn, or None when there is none or it does not fit the engine any more."""
        if self.turns is None:
            return None
        answered = [*self.answered, (self.request, response)]
        request = self.turns.next_request(answered)
        if request is None or request.key is None:
            return None
        # A repeated vote was not expected, so one more remains.
        return replace(self, request=request, answered=answered, turns_left=max(self.turns_left - 1, 1))


def in_shard(key: str, shard: int, shards: int) -> bool:
    """Tell whether a key belongs to a shard (0 .. shards-1). Depends on the key alone, not on the other requests."""
    return int(key[-8:], 16) % shards == shard


def shard_keys(files: Iterable[RequestFile], shard: int, shards: int) -> list[str]:
    """Return the keys of these files that belong to a shard, each once, in the order of the files."""
    keys = itertools.chain.from_iterable(file.keys() for file in files)
    return [key for key in dict.fromkeys(keys) if in_shard(key, shard, shards)]


def by_turns(files: Iterable[RequestFile]) -> tuple[list[RequestFile], list[RequestFile]]:
    """Return the files of one turn, and those whose requests can be followed by others."""
    of_one, of_several = list[RequestFile](), list[RequestFile]()
    for file in files:
        (of_several if file.can_go_on else of_one).append(file)
    return of_one, of_several


def cell_name(path: Path) -> str:
    """Return the name of a request file's cell: model/split, and for verdicts judge/model/split."""
    parts = path.with_suffix("").parts
    return "/".join(parts[-3:] if parts[-4:-3] == ("judge_requests",) else parts[-2:])


def pending_requests(
    files: Sequence[RequestFile],
    store: StoreReader,
    tokenizer_folder: str | None,
    shard: int = 0,
    shards: int = 1,
    *,
    follow: Follow,
) -> list[Pending]:
    """Return the requests of a shard that the store lacks, each key once.

    The order is fixed, so that equal studies submit equal sequences: several turns first, the longest first, because
    they can only be asked one after the other; then the files in their order. Two samples with the same answer give one
    and the same judge request: it is executed once. All turns of a prompt belong to the shard of its first.
    `tokenizer_folder` is None for an engine that takes messages.
    """
    found = list(_pending(files, store, tokenizer_folder, shard, shards, follow))
    return sorted(found, key=lambda item: -item.turns_left)


def _pending(
    files: Iterable[RequestFile],
    store: StoreReader,
    tokenizer_folder: str | None,
    shard: int,
    shards: int,
    follow: Follow,
) -> Iterator[Pending]:
    """Yield the requests that the store lacks, those of several turns first."""
    of_one, of_several = by_turns(files)
    keys = set()
    for file in of_several:
        turns = follow(file, tokenizer_folder)
        for chain in walk(turns, store):
            request = chain.next
            if request is None or request.key is None or chain.first.key is None:
                continue
            if in_shard(chain.first.key, shard, shards):
                keys.add(request.key)
                left = turns.left(request)
                yield Pending(request, file.settings, cell_name(file.path), turns, chain.responses, left)
    missing = set(store.missing(shard_keys(of_one, shard, shards))) - keys
    for file in of_one if missing else ():
        settings, cell = file.settings, cell_name(file.path)
        for request in file.requests():
            if request.key in missing:
                missing.discard(request.key)
                yield Pending(request, settings, cell)


def anything_missing(
    request_paths: Iterable[str],
    store_dir: str,
    tokenizer_folder: str | None,
    shard: int,
    shards: int,
    *,
    follow: Follow,
) -> bool:
    """Tell whether the store lacks a response of these request files (true as well when a file is not there yet)."""
    by_engine: dict[str, list[RequestFile]] = {}
    try:
        for path in request_paths:
            file = read_requests(path)
            by_engine.setdefault(file.header["engine_id"], []).append(file)
        for engine_id, files in sorted(by_engine.items()):
            store = StoreReader(store_dir, engine_id)
            # What the indexes do not know needs no look at the records, which takes a minute for a million.
            if len(store.unknown(key_numbers(sorted(shard_keys(by_turns(files)[0], shard, shards))))):
                return True
            # Those of one turn first: they need no tokenizer, which takes seconds to load.
            for some in by_turns(files):
                if any(True for _ in _pending(some, store, tokenizer_folder, shard, shards, follow)):
                    return True
    except (OSError, UserError):
        return True
    return False
