"""Executing requests: all that the store lacks, all in flight together, each response stored at once."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from refusal_eval.engines.base import Engine, EngineDied, Rejected
from refusal_eval.files import BadFile
from refusal_eval.requests import Request, RequestFile, read_requests
from refusal_eval.store import StoreReader, StoreWriter

LOG = logging.getLogger(__name__)
SECONDS_BETWEEN_LOG_LINES = 30.0


@dataclass
class Outcome:
    """What became of the requests of one engine load."""

    executed: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Pending:
    """A request to be executed, with the sampling parameters of its file."""

    request: Request
    sampling: dict[str, Any]


def in_shard(key: str, shard: int, shards: int) -> bool:
    """Tell whether a key belongs to shard 0 .. shards-1: a fixed part of the key's space, whatever else is asked."""
    return int(key[-8:], 16) % shards == shard


def shard_keys(files: Iterable[RequestFile], shard: int, shards: int) -> list[str]:
    """Return the keys of these files that belong to a shard, each once, in the order of the files."""
    keys = itertools.chain.from_iterable(file.keys() for file in files)
    return [key for key in dict.fromkeys(keys) if in_shard(key, shard, shards)]


def pending_requests(files: Iterable[RequestFile], missing: set[str]) -> Iterator[Pending]:
    """Yield the requests whose key is missing, in the order of the files, each key once.

    The order is fixed so that equal studies submit equal sequences. Two samples with the same answer give one and
    the same judge request: it is executed once.
    """
    seen: set[str] = set()
    for file in files:
        sampling = dict(file.header["sampling"])
        for request in file.requests():
            if request.key is not None and request.key in missing and request.key not in seen:
                seen.add(request.key)
                yield Pending(request, sampling)


async def execute(
    pending: list[Pending], engine: Engine, writer: StoreWriter, serving_id: str, determinism: str, in_flight: int
) -> Outcome:
    """Execute requests and store each response as it comes; return the counts.

    Raises:
        EngineDied: at once when the engine is gone; what came before is in the store.
        OSError: when the store cannot be written.
    """
    outcome = Outcome()
    queue = iter(pending)
    progress = tqdm(total=len(pending), unit="request", smoothing=0.05, mininterval=2.0)
    started = said = time.monotonic()
    tokens = 0

    def tell(response: dict[str, Any]) -> None:
        nonlocal said, tokens
        tokens += len(response["token_ids"])
        now = time.monotonic()
        if now - said > SECONDS_BETWEEN_LOG_LINES:
            said = now
            seconds = now - started
            left = (progress.total - progress.n) * seconds / progress.n if progress.n else float("nan")
            speed = f"{tokens / seconds:.0f} tokens/s, about {left:.0f} s left"
            LOG.info("%d of %d requests, %s", progress.n, progress.total, speed)

    async def work() -> None:
        for item in queue:
            request = item.request
            assert request.key is not None
            seed = None if determinism == "free" else request.seed
            try:
                response = await engine.complete(request.token_ids, item.sampling, seed)
            except Rejected as error:
                outcome.rejected.append({"key": request.key, "status": error.status, "message": error.message})
                LOG.warning("a request was rejected (HTTP %d): %s", error.status, error.message[:200])
            except (ConnectionError, ValueError) as error:
                outcome.failed.append(request.key)
                LOG.warning("a request failed: %s", error)
            else:
                writer.append(request.key, response, serving_id)
                outcome.executed += 1
                tell(response)
            progress.update()

    # "strict" promises the same bytes for any arrival order; one worker also fixes that order.
    workers = 1 if determinism == "strict" else min(in_flight, max(1, len(pending)))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    except BaseExceptionGroup as group:
        # Many workers fail of one cause: the death of the engine explains the rest.
        causes = list(_leaves(group))
        raise next((cause for cause in causes if isinstance(cause, EngineDied)), causes[0]) from None
    finally:
        progress.close()
    outcome.rejected.sort(key=lambda row: str(row["key"]))
    outcome.failed.sort()
    return outcome


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def anything_missing(request_paths: Iterable[str], store_dir: str, shard: int, shards: int) -> bool:
    """Tell whether the store lacks a response of these request files (true as well when a file is not there yet)."""
    try:
        files = [read_requests(path) for path in request_paths]
        by_engine: dict[str, list[str]] = {}
        for file in files:
            by_engine.setdefault(file.header["engine_id"], []).extend(shard_keys([file], shard, shards))
    except (OSError, BadFile):
        return True
    return any(StoreReader(store_dir, engine_id).missing(keys) for engine_id, keys in by_engine.items())
