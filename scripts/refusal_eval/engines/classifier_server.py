"""A server for one sequence-classification model, for the engine environment: token ids in, logits out.

A program of its own: it imports torch and transformers, and nothing of this library, which that environment does not
have. It speaks JSON over a Unix socket. `GET /health`; `GET /metrics` with counters in Prometheus' text format, under
vLLM's names; `POST /classify` with {"token_ids": [...]} gives {"logits": [...], "prompt_tokens": n}. Requests that
wait together are classified together, shorter ones padded and masked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import runpy
from collections import deque
from pathlib import Path
from typing import Any

MOST_PADDED_TOKENS = 16384  # of one step, so that a few long texts do not take all memory


class Classifier:
    """The model of a folder in the hub's format, safetensors only."""

    def __init__(self, folder: str, device: str, dtype: str, trust_remote_code: bool) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification

        runpy.run_path(str(Path(__file__).with_name("first_calls.py")))

        self._torch, self._device = torch, device
        model = AutoModelForSequenceClassification.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
        )
        self._model = model.to(device).eval()
        self._pad, self._vocabulary = model.config.pad_token_id or 0, int(model.config.vocab_size)

    def problem(self, token_ids: Any, longest: int) -> str | None:
        """Return why this is no request for this model, None if it is one."""
        if not isinstance(token_ids, list) or not token_ids:
            return "`token_ids` must be a list of at least one token id"
        if not all(type(i) is int and 0 <= i < self._vocabulary for i in token_ids):
            return f"token ids are whole numbers from 0 to {self._vocabulary - 1}"
        return f"{len(token_ids)} tokens are more than {longest}" if len(token_ids) > longest else None

    def logits(self, texts: list[list[int]]) -> list[list[float]]:
        """Return the logits of each text's classes."""
        torch, width = self._torch, max(map(len, texts))
        ids = torch.full((len(texts), width), self._pad, dtype=torch.long)
        mask = torch.zeros((len(texts), width), dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        with torch.inference_mode():
            out = self._model(input_ids=ids.to(self._device), attention_mask=mask.to(self._device))
        rows: list[list[float]] = out.logits.float().cpu().tolist()
        return rows


class Server:
    """The ASGI application."""

    def __init__(self, classifier: Classifier, most_together: int, longest: int) -> None:
        self._classifier, self._most, self._longest = classifier, most_together, longest
        self._waiting: deque[tuple[list[int], asyncio.Future[list[float]]]] = deque()
        self._arrived = asyncio.Event()
        self._requests = self._tokens = 0
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one HTTP request."""
        route = scope["method"], scope["path"]
        if route == ("GET", "/health"):
            await _send(send, 200, {})
        elif route == ("GET", "/metrics"):
            counters = f"vllm:request_success_total {self._requests}\nvllm:prompt_tokens_total {self._tokens}\n"
            await _send(send, 200, counters.encode(), b"text/plain")
        elif route == ("POST", "/classify"):
            await self._classify(await _body(receive), send)
        else:
            await _send(send, 404, {"error": "no such page"})

    async def _classify(self, body: bytes, send: Any) -> None:
        try:
            token_ids = json.loads(body)["token_ids"]
        except (ValueError, KeyError, TypeError):
            token_ids = None
        if problem := self._classifier.problem(token_ids, self._longest):
            await _send(send, 400, {"error": problem})
            return
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        future: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        self._waiting.append((token_ids, future))
        self._arrived.set()
        try:
            logits = await future
        except Exception as error:  # of the step: the client tries again
            await _send(send, 503, {"error": f"{type(error).__name__}: {error}"})
            return
        self._requests += 1
        self._tokens += len(token_ids)
        await _send(send, 200, {"logits": logits, "prompt_tokens": len(token_ids)})

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            step = self._next_step()
            try:
                rows = await asyncio.to_thread(self._classifier.logits, [text for text, _ in step])
            except Exception as error:
                for _, future in step:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), row in zip(step, rows, strict=True):
                if not future.done():
                    future.set_result(row)

    def _next_step(self) -> list[tuple[list[int], asyncio.Future[list[float]]]]:
        """Take from the head of the queue what shares one step."""
        step = [self._waiting.popleft()]
        width = len(step[0][0])
        while self._waiting and len(step) < self._most:
            width = max(width, len(self._waiting[0][0]))
            if width * (len(step) + 1) > MOST_PADDED_TOKENS:
                break
            step.append(self._waiting.popleft())
        if not self._waiting:
            self._arrived.clear()
        return step


async def _body(receive: Any) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _send(send: Any, status: int, value: Any, kind: bytes = b"application/json") -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Load the model and serve it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--uds", required=True, help="path of the Unix socket")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--max-model-len", type=int, required=True, help="longest text in tokens")
    parser.add_argument("--most-together", type=int, default=32, help="texts in one step")
    parser.add_argument("--trust-remote-code", action="store_true")
    options = parser.parse_args()

    import uvicorn

    classifier = Classifier(options.model, options.device, options.dtype, options.trust_remote_code)
    server = Server(classifier, options.most_together, options.max_model_len)
    uvicorn.run(server, uds=options.uds, log_level="warning", timeout_keep_alive=60, lifespan="off")


if __name__ == "__main__":
    main()
