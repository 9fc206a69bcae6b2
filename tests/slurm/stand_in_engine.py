"""An engine's Python that serves made-up answers: for what is asked of Slurm, not of an engine.

Installed as a program (see `install`), it is named as an engine's `python:`. Told to run `vllm_server.py` it serves
completions on the Unix socket of its `--uds`, one at a time; told anything else it is a Python. Answers depend on the
prompt's ids and the seed alone. Beside the program lie `settings.json` (how long a start and a request take),
`starts.jsonl` (what each server saw of its job) and `asked.jsonl` (a line for each request answered).
"""

import hashlib
import json
import os
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

STOP = 258


def install(folder: Path, start: float = 0.0, request: float = 0.0) -> Path:
    """Make the program in a folder; return its path.

    Args:
        folder: where it and its records lie.
        start: seconds until it is healthy.
        request: seconds that it takes for each request.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} {folder} "$@"\n')
    program.chmod(0o755)
    settle(folder, start, request)
    return program


def settle(folder: Path, start: float = 0.0, request: float = 0.0) -> None:
    """Change how long starts and requests take from now on."""
    (folder / "settings.json").write_text(json.dumps({"start": start, "request": request}))


def starts(folder: Path) -> list[dict[str, Any]]:
    """Return what each server saw when it started."""
    return _lines(folder / "starts.jsonl")


def asked(folder: Path) -> list[dict[str, Any]]:
    """Return a row for each request that was answered, in order: its `digest`, and the Slurm `job` that asked."""
    return _lines(folder / "asked.jsonl")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _append(path: Path, row: dict[str, Any]) -> None:
    with open(path, "a", encoding="utf-8") as handle:
        handle.write(json.dumps(row) + "\n")


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a completion request."""
    digest = digest_of(body)
    numbers = bytes.fromhex(digest)
    if named := body.get("logprob_token_ids"):
        ids = [named[numbers[0] % len(named)]]
        rows = [{f"token_id:{token}": -0.1 - numbers[1 + place] / 100 for place, token in enumerate(named)}]
        logprobs: dict[str, Any] = {"token_logprobs": [-0.1], "top_logprobs": rows}
        return _reply("A", ids, logprobs, "length", None)
    text = "I cannot help with that." if numbers[0] % 2 else f"Sure, {digest[:8]}."
    ids = [*text.encode("ascii"), STOP]
    return _reply(text, ids, {"token_logprobs": [-0.1 - number / 300 for number in numbers[: len(ids)]]}, "stop", STOP)


def digest_of(body: dict[str, Any]) -> str:
    """Return a digest of what decides an answer."""
    return hashlib.sha256(json.dumps([body["prompt"], body.get("seed")]).encode()).hexdigest()


def _reply(text: str, ids: list[int], logprobs: dict[str, Any], finish: str, stop: int | None) -> dict[str, Any]:
    choice = {"text": text, "token_ids": ids, "logprobs": logprobs, "finish_reason": finish, "stop_reason": stop}
    return {"choices": [choice], "usage": {"prompt_tokens": 1}}


class Handler(BaseHTTPRequestHandler):
    """Answers health, metrics and completion requests."""

    protocol_version = "HTTP/1.1"
    folder: Path
    healthy_at: float
    count = 0
    one_at_a_time = threading.Lock()

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(200 if time.monotonic() >= self.healthy_at else 503, b"")
        else:
            self._send(200, f'vllm:request_success_total{{engine="0"}} {Handler.count}\n'.encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.one_at_a_time:
            time.sleep(json.loads((self.folder / "settings.json").read_text())["request"])
            Handler.count += 1
            _append(self.folder / "asked.jsonl", {"digest": digest_of(body), "job": os.environ.get("SLURM_JOB_ID")})
        self._send(200, json.dumps(answer(body)).encode())

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def address_string(self) -> str:
        return "socket"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A server on a Unix socket."""

    daemon_threads = True
    request_queue_size = 1000


def serve(folder: Path, arguments: list[str]) -> None:
    """Serve until somebody ends the process."""
    seen = {name: value for name, value in os.environ.items() if name.startswith(("SLURM_", "CUDA_")) or "TMP" in name}
    _append(folder / "starts.jsonl", {"arguments": arguments, "environment": seen, "pid": os.getpid()})
    Handler.folder = folder
    Handler.healthy_at = time.monotonic() + json.loads((folder / "settings.json").read_text())["start"]
    Server(next(word[6:] for word in arguments if word.startswith("--uds=")), Handler).serve_forever()


def main() -> None:
    """Be a Python or a server, as the command line has it."""
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    if arguments[0] == "-P" and Path(arguments[1]).name == "vllm_server.py":
        serve(folder, arguments)
    else:
        os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
