"""A server for one classifier or text encoder, for the engine environment: token ids in, logits or vectors out.

A program of its own: it imports torch and transformers, and nothing of this library, which that environment does not
have. It speaks JSON over a Unix socket. `GET /health`; `GET /metrics` with counters in Prometheus' text format, under
vLLM's names; `POST /classify` with {"token_ids": [...]} gives {"logits": [...], "prompt_tokens": n}. With `--pooling`
the model is an encoder, and `POST /embed` gives {"vectors": [...], "prompt_tokens": n}: one unit vector for each text
of the request, one after the other. A text begins with the request's first token id. Requests that wait together share
a step, shorter texts padded and masked.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import runpy
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TEXTS_TOGETHER = 8  # of an encoder, of nearly one length
MOST_PADDED_TOKENS = 16384  # of one step, so that a few long texts do not take all memory
ROUTES = {"logits": "/classify", "vectors": "/embed"}  # by what is given


class ClassifierModel:
    """The model of a folder in the hub's format, safetensors only.

    Raises:
        SystemExit: for a classifier whose folder lacks weights, such as the classification layer: transformers would
            make them up, anew at every start.
    """

    def __init__(self, folder: str, device: str, dtype: str, pooling: str | None, trust_remote_code: bool) -> None:
        import torch
        import transformers

        runpy.run_path(str(Path(__file__).with_name("first_calls.py")))

        self._torch, self._device, self._pooling = torch, device, pooling
        classes = transformers.AutoModel if pooling else transformers.AutoModelForSequenceClassification
        model, loaded = classes.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
        )
        if not pooling and (lacking := sorted(loaded["missing_keys"])):
            sys.exit(f"{folder} is no classifier: it has no {lacking[0]} ({len(lacking)} weights are missing)")
        self._model = model.to(device).eval()
        self._pad, self._vocabulary = model.config.pad_token_id or 0, int(model.config.vocab_size)
        # Without a padding token, decoders do not know where each text of a step ends.
        self.alone = not pooling and model.config.pad_token_id is None

    def problem(self, token_ids: Any, longest: int) -> str | None:
        """Return why this is no request for this model, None if it is one."""
        if not isinstance(token_ids, list) or not token_ids:
            return "`token_ids` must be a list of at least one token id"
        if not all(type(i) is int and 0 <= i < self._vocabulary for i in token_ids):
            return f"token ids are whole numbers from 0 to {self._vocabulary - 1}"
        return f"{len(token_ids)} tokens are more than {longest}" if len(token_ids) > longest else None

    def values(self, requests: list[list[int]]) -> list[list[float]]:
        """Return the logits of each request's classes, or the vectors of its texts one after the other."""
        if not self._pooling:
            out, _ = self._run(requests)
            logits: list[list[float]] = out.logits.float().cpu().tolist()
            return logits
        texts = [_texts(request) for request in requests]
        # Texts of one length together, each once: samples of a prompt share it, and padding is computed like text.
        different = sorted({text for of_request in texts for text in of_request}, key=lambda text: (len(text), text))
        vectors: dict[tuple[int, ...], list[float]] = {}
        for start in range(0, len(different), TEXTS_TOGETHER):
            own = different[start : start + TEXTS_TOGETHER]
            vectors |= zip(own, self._vectors(own), strict=True)
        return [[value for text in of_request for value in vectors[text]] for of_request in texts]

    def _vectors(self, texts: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return a unit vector for each text."""
        out, mask = self._run(texts)
        states, shown = out.last_hidden_state.float(), mask.unsqueeze(-1)
        pooled = states[:, 0] if self._pooling == "cls" else (states * shown).sum(1) / shown.sum(1)
        found: list[list[float]] = self._torch.nn.functional.normalize(pooled).cpu().tolist()
        return found

    def _run(self, texts: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Return the model's output on texts, shorter ones padded, and which tokens are theirs."""
        torch, width = self._torch, max(map(len, texts))
        ids = torch.full((len(texts), width), self._pad, dtype=torch.long)
        mask = torch.zeros((len(texts), width), dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        with torch.inference_mode():
            return self._model(input_ids=ids, attention_mask=mask), mask


def _texts(token_ids: list[int]) -> list[tuple[int, ...]]:
    """Return the texts of a request: each begins with its first token."""
    starts = [place for place, token in enumerate(token_ids) if token == token_ids[0]]
    return [tuple(token_ids[start:end]) for start, end in itertools.pairwise([*starts, len(token_ids)])]


class ClassifierServer:
    """The ASGI application."""

    def __init__(self, model: ClassifierModel, most_together: int, longest: int, gives: str = "logits") -> None:
        self._model, self._most, self._longest, self._gives = model, most_together, longest, gives
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
        elif route == ("POST", ROUTES[self._gives]):
            await self._read(await _body(receive), send)
        else:
            await _send(send, 404, {"error": "no such page"})

    async def _read(self, body: bytes, send: Any) -> None:
        try:
            token_ids = json.loads(body)["token_ids"]
        except (ValueError, KeyError, TypeError):
            token_ids = None
        if problem := self._model.problem(token_ids, self._longest):
            await _send(send, 400, {"error": problem})
            return
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        future: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        self._waiting.append((token_ids, future))
        self._arrived.set()
        try:
            values = await future
        except Exception as error:  # of the step: the client tries again
            await _send(send, 503, {"error": f"{type(error).__name__}: {error}"})
            return
        self._requests += 1
        self._tokens += len(token_ids)
        await _send(send, 200, {self._gives: values, "prompt_tokens": len(token_ids)})

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            step = self._next_step()
            try:
                rows = await asyncio.to_thread(self._model.values, [text for text, _ in step])
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
    parser.add_argument("--pooling", choices=("mean", "cls"), help="how an encoder's states become one vector")
    options = parser.parse_args()

    import uvicorn

    model = ClassifierModel(options.model, options.device, options.dtype, options.pooling, options.trust_remote_code)
    gives = "vectors" if options.pooling else "logits"
    server = ClassifierServer(model, 1 if model.alone else options.most_together, options.max_model_len, gives)
    uvicorn.run(server, uds=options.uds, log_level="warning", timeout_keep_alive=60, lifespan="off")


if __name__ == "__main__":
    main()
