"""Many engine loads, one after the other, against a stand-in server; a program, so that any Python can run it.

    python tests/unit/many_loads.py --loads 1000 --seed 0

A load is all that a job does from the engine's start to its receipt. The server's delays are random, but its replies
leave at the beats of one clock: so often the last answer and a reply about counters or health arrive together. Some
servers never tell, tell nonsense, byte by byte, or hang up. It prints a JSON object: how many loads there were, how
many did not end, what failed, and the seconds that the slowest took. It needs of the workflow environment only
`PACKAGES`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import execute as script

from refusal_eval.ask.pending import Pending
from refusal_eval.ask.requests import Request, RequestSettings
from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import sha256_of
from refusal_eval.engines import execution as module
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.engine_client import CompletionClient
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.server import Server
from refusal_eval.engines.vllm_engine import VllmEngine

PACKAGES = (
    *("aiohappyeyeballs", "aiohttp", "aiosignal", "annotated-types", "attrs", "frozenlist", "idna", "jinja2"),
    *("markupsafe", "multidict", "numpy", "propcache", "pydantic", "pydantic-core", "tqdm", "typing-extensions"),
    *("pyyaml", "typing-inspection", "yarl"),
)
BEAT = 0.002
MOST_BEATS = 4  # of delay
SOUND = 0.9  # the share of servers whose counters and health are as they should be
FAULTS = ("silent", "trickling", "failing", "garbage", "hanging up")
COUNTERS = b"vllm:request_success_total 1\nvllm:generation_tokens_total 5\n"
ENTRY: dict[str, Any] = {"weights": {"kind": "folder", "path": "folder"}, "device": "cpu", "max_model_len": 64}
ENGINE = VllmEngine.model_validate(ENTRY)


class StandIn:
    """A server in the same event loop.

    Args:
        rng: draws the delays.
        health: `sound`, or one of `FAULTS`.
        counters: the same.
    """

    def __init__(self, rng: random.Random, health: str, counters: str) -> None:
        self._rng, self._health, self._counters = rng, health, counters
        self.connections: set[asyncio.Task[None]] = set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").lower().split("\r\n")
                length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
                body = json.loads(await reader.readexactly(length) or b"{}")
                await self._beat(self._rng.randrange(MOST_BEATS + 1))
                await self._reply(lines[0].split(" ")[1], body, writer)
        writer.close()

    async def _beat(self, beats: int) -> None:
        loop = asyncio.get_running_loop()
        moment = loop.create_future()
        loop.call_at((math.floor(loop.time() / BEAT) + 1 + beats) * BEAT, moment.set_result, None)
        await moment

    async def _reply(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if path == "/v1/completions":
            choice = {"text": "a", "token_ids": [5], "logprobs": {"token_logprobs": [-0.5]}, "finish_reason": "stop"}
            usage = {"prompt_tokens": len(body["prompt"])}
            writer.write(http(200, json.dumps({"choices": [choice], "usage": usage}).encode()))
            return
        how = self._health if path == "/health" else self._counters
        if how == "silent":
            await asyncio.sleep(3600)
        elif how == "hanging up":
            raise ConnectionError
        elif how == "trickling":
            writer.write(http(200, COUNTERS)[: -len(COUNTERS)])
            for number in COUNTERS:
                writer.write(bytes([number]))
                await asyncio.sleep(0.2)
        elif how == "garbage":
            writer.write(http(200, b'vllm:request_success_total{x="\xff"} many\n'))
        else:
            writer.write(http(500 if how == "failing" else 200, COUNTERS))


def http(status: int, body: bytes) -> bytes:
    """Return an HTTP reply."""
    return f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class StandInServer(Server):
    """A server of which everything is real but the server, which has no process of its own."""

    def __init__(self, socket: str, log: Path) -> None:
        super().__init__(ENGINE, EngineLoad(log, "seeded", "folder", "python", "cpu"))
        self._socket = socket

    async def __aenter__(self) -> StandInServer:
        self._client = CompletionClient(self._socket, self.exit_code)
        return self

    def exit_code(self) -> int | None:
        return None

    async def complete(self, *asked: Any) -> dict[str, Any]:
        assert self._client
        return await self._client.complete(*asked)

    def serving_record(self) -> dict[str, Any]:
        return {"vllm": "none"}


async def load(folder: Path, number: int, rng: random.Random) -> None:
    """Execute one load."""
    health, counters = (
        "sound" if rng.random() < SOUND else rng.choice(FAULTS),
        "sound" if rng.random() < SOUND else rng.choice(FAULTS),
    )
    socket, store_dir = str(folder / f"s{number}"), folder / f"store{number}"
    stand_in = StandIn(rng, health, counters)
    server = await asyncio.start_unix_server(stand_in.connect, socket)
    VllmEngine.running = lambda self, load: StandInServer(socket, folder / "log")  # type: ignore[method-assign]
    count, settings = rng.randrange(1, 12), RequestSettings(sampling={"max_tokens": 4})
    items = [
        Pending(Request(f"p{i}", 0, 0, sha256_of([number, i]), i, [i]), settings, "model/split") for i in range(count)
    ]
    at_once = rng.randrange(1, 12)
    plan = LoadPlan(ENGINE, "engine", "folder", "folder", "python", "cpu", "seeded", at_once, 0.0, str(store_dir))
    try:
        outcome, _ = await script.run_engine(
            items, StoreReader(store_dir, "engine"), folder / "log", "job", plan, 0, lambda: None
        )
        missing = StoreReader(store_dir, "engine").missing([str(item.request.key) for item in items])
        if outcome.executed != count or missing:
            raise AssertionError(f"{outcome.executed} of {count} executed, {len(missing)} not stored")
    finally:
        server.close()
        for connection in stand_in.connections:
            connection.cancel()


async def run(loads: int, seed: int, seconds: float) -> dict[str, Any]:
    """Return what became of many loads, none of which is waited for longer than `seconds`."""
    hung, slowest = 0, 0.0
    failed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(loads):
            started = time.monotonic()
            task = asyncio.create_task(load(Path(folder), number, random.Random(f"{seed} {number}")))
            await asyncio.wait({task}, timeout=seconds)
            slowest = max(slowest, time.monotonic() - started)
            if not task.done():
                hung += 1
                task.cancel()
                await asyncio.wait({task}, timeout=seconds)
            elif error := task.exception():
                failed[f"{type(error).__name__}: {error}"] += 1
    reported = {"python": platform.python_version(), "loads": loads, "hung": hung}
    return reported | {"failed": dict(failed), "slowest": round(slowest, 2)}


def main() -> int:
    """Return the exit code: 1 if a load did not end or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a load may take")
    options = parser.parse_args()
    module.SECONDS_BETWEEN_CHECKS, module.CHECKS_BETWEEN_HEALTH, module.CHECKS_BETWEEN_COUNTERS = BEAT / 2, 2, 1
    script.METRICS_SECONDS = 0.2
    reported = asyncio.run(run(options.loads, options.seed, options.seconds))
    print(json.dumps(reported))
    return 1 if reported["hung"] or reported["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
