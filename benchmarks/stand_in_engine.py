#!/usr/bin/env python3
"""A stand-in for vLLM's server: it takes the time that an engine would take, and no processor.

Its model folder holds `pace.conf` (JSON): how long it starts, how fast it reads and writes, in seconds and tokens. All
requests are in work at one time; together they take as long as their tokens do, and none less than alone. Beside the
folder of the model lie `clock` (`simulated_time.py`) and `loads.jsonl`, to which it appends what it did. It needs
nothing but the standard library.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from simulated_time import TICK, Clock

END = 258  # the byte tokenizer's end of an answer
REASONS = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


class StandIn:
    """The server of one model folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pace = json.loads((folder / "pace.conf").read_text(encoding="utf-8"))
        self.time = Clock(folder.parent / "clock")
        self.began = self.time.now()
        self.requests = 0
        self.first: float | None = None  # when the first request came
        self.clock = 0.0  # when the tokens of all that was asked so far are done
        self.done = 0.0  # when the last of these requests is answered
        self.waiting: list[tuple[float, int, asyncio.Event]] = []

    async def reply(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        """Return status and body of the reply to one HTTP request."""
        if path == "/health":
            started = self.time.now() >= self.began + self.pace["start_seconds"]
            return (200 if started else 503), "{}"
        if path == "/metrics":
            return 200, f"vllm:request_success_total {self.requests}\n"
        if path != "/v1/completions":
            return 404, "{}"
        return 200, json.dumps(await self.complete(body))

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the reply to a completion request, when its time is over."""
        now, most = self.time.now(), int(body["max_tokens"])
        self.first = self.first or now
        share = random.Random(f"{body.get('seed')} {sum(body['prompt'])}").uniform(*self.pace["shares"])
        tokens = max(1.0, most * share) if most > 1 else 1.0
        seconds = self.pace["prompt_tokens"] / self.pace["read_rate"] + tokens / self.pace["write_rate"]
        self.clock = max(self.clock, now) + seconds
        end = max(self.clock, now + tokens / self.pace["stream_rate"])
        self.done = max(self.done, end)
        await self.until(end)
        self.requests += 1
        # Answers that differ from each other, or a judge would be asked the same twice.
        text = f"{self.folder.name} says {body.get('seed')} to {sum(body['prompt'])}" if most > 1 else "A"
        named = {f"token_id:{token}": -1.0 for token in body.get("logprob_token_ids") or ()}
        logprobs = {"token_logprobs": [-0.5], "top_logprobs": [named]}
        choice = {"text": text, "token_ids": [END], "logprobs": logprobs, "finish_reason": "stop", "stop_reason": END}
        return {"choices": [choice], "usage": {"prompt_tokens": len(body["prompt"])}}

    async def until(self, moment: float) -> None:
        """Return when it is this time."""
        event = asyncio.Event()
        heapq.heappush(self.waiting, (moment, id(event), event))
        await event.wait()

    async def keep_time(self) -> None:
        """Wake up whom it is time to wake up, for ever."""
        while True:
            await asyncio.sleep(TICK)
            while self.waiting and self.waiting[0][0] <= self.time.now():
                heapq.heappop(self.waiting)[2].set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                lengths = [line.split(":")[1] for line in lines if line.lower().startswith("content-length:")]
                body = await reader.readexactly(int(lengths[0])) if lengths else b""
                status, text = await self.reply(lines[0].split(" ")[1], json.loads(body or b"{}"))
                data = text.encode()
                answer = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def record(self) -> None:
        """Append what this load did: the seconds it was to take, when it ran, and on which devices."""
        loads = {
            "engine": self.folder.name,
            "devices": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            "requests": self.requests,
            "start_seconds": self.pace["start_seconds"],
            "work_seconds": self.done - self.first if self.first else 0.0,
            "began": self.began,
            "ended": self.time.now(),
        }
        with open(self.folder.parent / "loads.jsonl", "a", encoding="utf-8") as handle:
            handle.write(json.dumps(loads) + "\n")


async def serve(folder: Path, socket: str) -> None:
    """Serve until SIGTERM."""
    engine = StandIn(folder)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    ticking = asyncio.create_task(engine.keep_time())
    server = await asyncio.start_unix_server(engine.serve, socket)
    await stop.wait()
    ticking.cancel()
    server.close()
    engine.record()


def main() -> None:
    """Take a server's command line; of `-c CODE`, which asks for versions, answer that there are none."""
    if sys.argv[1] == "-c":
        print('{"python": "none", "stand-in": "1"}')
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--uds", required=True)
    options, _ = parser.parse_known_args(sys.argv[3:])
    asyncio.run(serve(options.model, options.uds))


if __name__ == "__main__":
    main()
