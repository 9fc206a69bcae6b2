"""A provider of hosted models on loopback, in the two dialects, that bills, blocks and fails as it is asked to.

with StubProvider(blocked=0.2, log=Path("stub.jsonl")) as stub:
    ...  # address: stub.address; key: stub.options.key
    stub.options.script = ["529", "400 invalid_prompt"]  # what comes next
    stub.settled()  # waits for what is in flight
    stub.entries, stub.billed

As a program: `python tests/stub_provider.py --port 8123 --log stub.jsonl --options '{"blocked": 0.2}'`. What it answers
is in `stub_replies.py`. The log has a line per request, written (and synced) before a byte of the reply is sent: a
request is billed from then on, whatever becomes of the connection. `GET /counts` says how many are in flight.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any

from aiohttp import web
from stub_replies import Asked, Chance, Options, Reply, planned, reply

HUGE = 10_000_000  # bytes of headers


class StubProvider:
    """Serves until the `with` block ends; `options` may change meanwhile.

    `entries` are the lines of the log; `billed` the tokens of prompts (of which `cached` out of the cache) and answers;
    `received` counts what arrived whole.
    """

    def __init__(self, port: int = 0, log: Path | None = None, **options: Any) -> None:
        self.options = Options(**options)
        self.entries: list[dict[str, Any]] = []
        self.billed = {"input": 0, "cached": 0, "output": 0}
        self.received = self.in_flight = self.most_in_flight = 0
        self.port = port
        self._log = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._turns: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()
        self._arrived: list[float] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self.serve()), daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> "StubProvider":
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the stub does not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        if self._log is not None:
            os.close(self._log)

    def settled(self, seconds: float = 10.0) -> None:
        """Wait until nothing is in flight; what a killed client sent may still arrive."""
        end, quiet = time.monotonic() + seconds, 0
        while quiet < 3:
            quiet = quiet + 1 if self.in_flight == 0 else 0
            if time.monotonic() > end:
                raise TimeoutError(f"{self.in_flight} requests are still in flight")
            time.sleep(0.01)

    def counts(self) -> dict[str, Any]:
        return {
            "received": self.received,
            "answered": len(self.entries),
            "in_flight": self.in_flight,
            "most_in_flight": self.most_in_flight,
            "billed": self.billed,
        }

    async def serve(self, ready: Any = None) -> None:
        """Serve until `_stop`."""
        app = web.Application(client_max_size=2**28)
        app.add_routes(
            [
                web.post("/{start:.*}/chat/completions", self._openai),
                web.post("/{start:.*}/messages", self._anthropic),
                web.get("/counts", self._counts),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=600)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, backlog=1024)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self._ready.set()
        if ready is not None:
            ready()
        await self._stop.wait()
        await runner.cleanup()

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        return await self._take(request, "openai")

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        return await self._take(request, "anthropic")

    async def _counts(self, _: web.Request) -> web.Response:
        return web.json_response(self.counts())

    async def _take(self, request: web.Request, dialect: str) -> web.StreamResponse:
        body = await request.json()
        self.received += 1
        number = self.received
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            made = await self._made(request, dialect, body, number)
            return await _sent(request, made, self.options)
        finally:
            self.in_flight -= 1

    async def _made(self, request: web.Request, dialect: str, body: dict[str, Any], number: int) -> Reply:
        options = self.options.of(body["model"])
        asked = Asked(dialect, body, number, headers=request.headers)
        asked.turn, asked.answered = self._turns[asked.identity], self._answered[asked.identity]
        self._turns[asked.identity] += 1
        made = self._out_of_turn(asked, options) or reply(asked, options)
        if made.kind not in ("error", "fault"):
            self._answered[asked.identity] += 1
            if options.latency:
                await asyncio.sleep(options.latency * 2 * Chance(asked.identity)(f"latency {asked.turn}"))
        made.headers["x-request-id" if dialect == "openai" else "request-id"] = f"req_{number}"
        self._write(asked, made)
        return made

    def _out_of_turn(self, asked: Asked, options: Options) -> Reply | None:
        """Return what is answered for another reason than the request itself."""
        if self.options.script:
            return planned(self.options.script.pop(0), asked, options)
        if options.always is not None:
            return planned(options.always, asked, options)
        if options.quota and self.billed["input"] + self.billed["output"] >= options.quota:
            return planned("429 quota" if asked.dialect == "openai" else 402, asked, options)
        if options.rate:
            now = time.monotonic()
            self._arrived = [at for at in self._arrived if at > now - 1]
            if len(self._arrived) >= options.rate:
                return planned("429", asked, options)
            self._arrived.append(now)
        return None

    def _write(self, asked: Asked, made: Reply) -> None:
        """Bill a request and note it, to the disk."""
        prompt, cached, output = made.billed
        for name, count in (("input", prompt), ("cached", cached), ("output", output)):
            self.billed[name] += count
        body = asked.body
        entry = {
            "number": asked.number,
            "time": time.time(),
            "dialect": asked.dialect,
            "model": body["model"],
            "messages": asked.messages,
            "seed": body.get("seed"),
            "parameters": {name: value for name, value in body.items() if name not in ("model", "messages", "system")},
            "turn": asked.turn,
            "in_flight": self.in_flight,
            "status": made.status,
            "form": made.form,
            "kind": made.kind,
            "fault": made.fault,
            "expect": made.expect,
            "text": made.text,
            "request_id": f"req_{asked.number}",
            "billed": {"input": prompt, "cached": cached, "output": output},
            "billed_so_far": dict(self.billed),
        }
        self.entries.append(entry)
        if self._log is not None:
            os.write(self._log, json.dumps(entry, ensure_ascii=False).encode() + b"\n")
            os.fdatasync(self._log)


async def _sent(request: web.Request, made: Reply, options: Options) -> web.StreamResponse:
    """Send a reply, with what is to befall it on the way."""
    if isinstance(made.body, str):
        data, kind = made.body.encode(), "text/html"
    else:
        data, kind = json.dumps(made.body, ensure_ascii=False).encode(), "application/json"
    fault, headers = made.fault, {"Content-Type": kind, **made.headers}
    if fault is None:
        return web.Response(status=made.status, body=data, headers=headers)
    if fault in ("reset before", "reset after"):
        return _broken(request)
    if fault == "headers":
        return web.Response(status=made.status, body=data, headers=headers | {"x-filler": "x" * HUGE})
    if fault == "cut":
        return web.Response(status=made.status, body=data[: len(data) // 2], headers=headers)
    if fault == "bytes":
        return web.Response(status=made.status, body=b'{"choices": "\xff\xfe\xfd"}', headers=headers)
    stream = web.StreamResponse(status=made.status, headers=headers)
    if fault == "reset within":
        stream.content_length = len(data)
        await stream.prepare(request)
        await stream.write(data[: len(data) // 2])
        await asyncio.sleep(0.02)  # else the client may not see this half
        return _broken(request)
    with contextlib.suppress(ConnectionError):  # the client has had enough
        await stream.prepare(request)
        async for part in _dribbled(data, fault == "endless", options.slow_seconds):
            await stream.write(part)
        await stream.write_eof()
    return stream


async def _dribbled(data: bytes, endless: bool, seconds: float) -> AsyncIterator[bytes]:
    """Yield a body in small pieces; an endless one begins with white space, and never comes to its first bracket."""
    step = max(1, len(data) // 40)
    for start in range(0, len(data), step):
        yield b" " * step if endless else data[start : start + step]
        await asyncio.sleep(seconds)
    while endless:
        yield b" " * 1000
        await asyncio.sleep(seconds)


def _broken(request: web.Request) -> web.Response:
    """Break the connection without a word more."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()  # which nobody gets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--log", type=Path, help="file to which a line per request is added")
    names = ", ".join(field.name for field in dataclasses.fields(Options))
    parser.add_argument("--options", type=json.loads, default={}, help=f"JSON object of {names}")
    arguments = parser.parse_args()
    stub = StubProvider(arguments.port, arguments.log, **arguments.options)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(stub.serve(ready=lambda: print(json.dumps({"address": stub.address}), flush=True)))


if __name__ == "__main__":
    main()
