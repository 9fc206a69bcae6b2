"""A server for one language model of transformers with eager attention, for the engine environment.

A program of its own: it imports torch and transformers, and nothing of this library, which that environment does not
have. It speaks the part of vLLM's HTTP interface that our client uses, over a Unix socket: `GET /health`; `GET
/metrics` with vLLM's names; `POST /v1/completions` with token ids; and `POST /tokenize`, which `refusal-eval check`
asks. A request may have `attention`: {"alpha", "positions", "layers"}, see `eager_worker/steered_attention.py`. What it
does not know it refuses, with HTTP 400.

Requests that wait together share a batch. The next batch begins when all answers of the last one have ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import runpy
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

FIRST_CALLS = Path(__file__).resolve().parents[2] / "engines" / "first_calls.py"
# Last among what modules are imported from, and nothing else is in that folder.
sys.path.append(str(Path(__file__).with_name("eager_worker")))
# Tokens of a batch, prompts and answers padded: what is cached of them must fit.
MOST_CACHED_TOKENS = 2**16
MOST_SCORES = 2**24  # of one head of a batch, while its prompts are read
MOST_LOGITS = 2**28  # of a batch whose prompts' own log-probabilities are wanted: a GiB
# What our client sends with every request: the only values that this server has.
FIXED: Mapping[str, Any] = {
    **{"n": 1, "echo": False, "stream": False, "return_token_ids": True, "return_tokens_as_token_ids": True},
    **{"add_special_tokens": False, "ignore_eos": True, "skip_special_tokens": True},
    **{"spaces_between_special_tokens": True, "include_stop_str_in_output": False},
}
SAMPLING: Mapping[str, Any] = {
    **{"max_tokens": 16, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "min_tokens": 0},
    **{"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "stop": [], "stop_token_ids": []},
}
OTHERS = ("model", "prompt", "seed", "logprobs", "logprob_token_ids", "prompt_logprobs", "attention")


Batch = list[tuple[Any, asyncio.Future[None]]]  # requests, and what their clients wait for


class BadRequest(Exception):
    """A request that this server cannot answer; the message says why."""


class EagerServer:
    """The ASGI application."""

    def __init__(self, model: Any, most_together: int, longest: int) -> None:
        self._model, self._most, self._longest = model, most_together, longest
        self._waiting: deque[tuple[Any, asyncio.Future[None]]] = deque()
        self._arrived = asyncio.Event()
        self._requests = self._prompt_tokens = self._tokens = 0
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one HTTP request."""
        route = scope["method"], scope["path"]
        if route == ("GET", "/health"):
            await _send(send, 200, {})
        elif route == ("GET", "/metrics"):
            await _send(send, 200, self._counters().encode(), b"text/plain")
        elif route in (("POST", "/v1/completions"), ("POST", "/tokenize")):
            answer = self._complete if scope["path"].endswith("completions") else self._tokenize
            try:
                await _send(send, 200, await answer(_json(await _body(receive))))
            except BadRequest as error:
                await _send(send, 400, {"error": str(error)})
            except Exception as error:  # of the batch: the client tries again
                await _send(send, 500, {"error": f"{type(error).__name__}: {error}"})
        else:
            await _send(send, 404, {"error": "no such page"})

    def _counters(self) -> str:
        counts = {"request_success": self._requests, "prompt_tokens": self._prompt_tokens}
        counts["generation_tokens"] = self._tokens
        return "".join(f"vllm:{name}_total {count}\n" for name, count in counts.items())

    async def _tokenize(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ids of a text, or of messages in the tokenizer's own template."""
        if "messages" in body:
            options = {"add_generation_prompt": True, **body.get("chat_template_kwargs", {})}
            ids = self._model.tokenizer.apply_chat_template(
                body["messages"], tokenize=True, return_dict=False, **options
            )
        else:
            ids = self._model.tokenizer(body["prompt"])["input_ids"]
        return {"tokens": list(ids)}

    async def _complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        asked = request_of(body, self._model, self._longest)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        self._arrived.set()
        await future
        self._requests += 1
        self._prompt_tokens += len(asked.prompt)
        return reply_of(asked)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            futures = {id(asked): future for asked, future in batch}

            def ended(asked: Any, futures: Mapping[int, asyncio.Future[None]] = futures) -> None:
                loop.call_soon_threadsafe(_settle, futures[id(asked)])

            await self._run(batch, ended)
            # One request may have broken the batch, or all of them together: those that are left run by themselves.
            left = [one for one in batch if len(batch) > 1 and not one[1].done()]
            if left:
                self._most = max(1, len(batch) // 2)
                print(f"batches have at most {self._most} requests from here on", flush=True)
            for one in left:
                one[0].begin()
                await self._run([one], ended)

    async def _run(self, batch: Batch, ended: Callable[[Any], None]) -> None:
        """Answer a batch; a request that fails alone fails for good."""
        try:
            await asyncio.to_thread(self._model.answer, [asked for asked, _ in batch], ended, self._count)
            await asyncio.sleep(0)  # what was settled from the thread comes first
        except Exception as error:
            print(f"a batch of {len(batch)} failed: {type(error).__name__}: {error}", flush=True)
            for _, future in batch if len(batch) == 1 else ():
                if not future.done():
                    future.set_exception(error)

    def _count(self, tokens: int) -> None:
        self._tokens += tokens

    def _next_batch(self) -> Batch:
        """Take from the head of the queue what shares one batch."""
        batch = [self._waiting.popleft()]
        prompt, answer = len(batch[0][0].prompt), int(batch[0][0].sampling["max_tokens"])
        while self._waiting and len(batch) < self._most:
            other = self._waiting[0][0]
            prompt, answer = max(prompt, len(other.prompt)), max(answer, int(other.sampling["max_tokens"]))
            rows = len(batch) + 1
            if rows * (prompt + answer) > MOST_CACHED_TOKENS or rows * prompt**2 > MOST_SCORES:
                break
            whole = other.of_prompt or any(asked.of_prompt for asked, _ in batch)
            if whole and rows * prompt * self._model.vocabulary > MOST_LOGITS:
                break
            batch.append(self._waiting.popleft())
        if not self._waiting:
            self._arrived.clear()
        return batch


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():  # its client may be gone
        future.set_result(None)


def request_of(body: Mapping[str, Any], model: Any, longest: int) -> Any:
    """Return a request, with every parameter written out.

    Args:
        longest: tokens that a prompt and its answer may have.

    Raises:
        BadRequest: for what is no request that this server can answer.
    """
    from eager_model import EagerRequest  # type: ignore[import-not-found]

    for name, value in body.items():
        if name in FIXED and value != FIXED[name]:
            raise BadRequest(f"`{name}` must be {FIXED[name]!r} here")
        if name not in (*FIXED, *SAMPLING, *OTHERS):
            raise BadRequest(f"`{name}` is not known here; this engine has {', '.join(SAMPLING)} and `seed`")
    sampling = {name: body.get(name, neutral) for name, neutral in SAMPLING.items()}
    for name, neutral in SAMPLING.items():
        if not _of_kind(sampling[name], neutral):
            raise BadRequest(f"`{name}` is {sampling[name]!r}")
    prompt, named = body.get("prompt"), body.get("logprob_token_ids") or []
    for what, ids in (("prompt", prompt), ("stop_token_ids", sampling["stop_token_ids"]), ("logprob_token_ids", named)):
        if not isinstance(ids, list) or not all(type(one) is int and 0 <= one < model.vocabulary for one in ids):
            raise BadRequest(f"`{what}` must be a list of whole numbers from 0 to {model.vocabulary - 1}")
    if not prompt or sampling["max_tokens"] < 1:
        raise BadRequest("there must be a token in `prompt`, and one in the answer (`max_tokens`)")
    if len(prompt) + sampling["max_tokens"] > longest:
        raise BadRequest(f"{len(prompt)} tokens and an answer of {sampling['max_tokens']} are more than {longest}")
    seed, likeliest = body.get("seed"), body.get("logprobs") or 0
    if not (seed is None or type(seed) is int) or not (type(likeliest) is int and 0 <= likeliest <= model.vocabulary):
        raise BadRequest("`seed` and `logprobs` must be whole numbers")
    steering = steering_of(body["attention"], len(prompt), model.attention.layers) if "attention" in body else None
    return EagerRequest(prompt, sampling, seed, steering, likeliest, named, body.get("prompt_logprobs") is not None)


def _of_kind(value: Any, neutral: Any) -> bool:
    if isinstance(neutral, float):
        return type(value) in (int, float)
    if isinstance(neutral, list):
        return isinstance(value, list) and all(type(one) in (int, str) for one in value)
    return type(value) is type(neutral)


def steering_of(asked: Any, length: int, layers: Any) -> Any:
    """Return what is done to the attention of a request with a prompt of this length.

    Raises:
        BadRequest: for places that are not in the prompt, and for layers whose attention is not ours.
    """
    from steered_attention import Steering  # type: ignore[import-not-found]

    try:
        alpha, positions, named = float(asked["alpha"]), list(asked["positions"]), asked.get("layers")
        whole = all(type(one) is int for one in [*positions, *(named or [])])
    except (TypeError, KeyError, ValueError) as error:
        raise BadRequest(f"`attention` must have `alpha` and `positions`: {error!r}") from error
    ascending = whole and bool(positions) and positions == sorted(set(positions))
    if not ascending or positions[0] < 0 or positions[-1] >= length:
        raise BadRequest(
            f"`positions` of `attention` must be places in the prompt of {length} tokens, in ascending order"
        )
    if not 0 < alpha <= 1:
        raise BadRequest(f"`alpha` of `attention` is {alpha}; it must be more than 0 and at most 1")
    if unknown := sorted(set(named or ()) - set(layers)):
        raise BadRequest(f"layer {unknown[0]} has no attention of this kind; {sorted(layers)} have")
    return Steering(alpha, tuple(positions), None if named is None else frozenset(named))


def reply_of(asked: Any) -> dict[str, Any]:
    """Return the reply to a request, in vLLM's form."""
    rows = [{f"token_id:{token}": value for token, value in row.items()} for row in asked.rows]
    logprobs = {"token_logprobs": asked.logprobs, "top_logprobs": rows}
    choice = {"text": asked.text, "finish_reason": asked.finish_reason, "stop_reason": asked.stop_reason}
    choice |= {"token_ids": asked.token_ids, "logprobs": logprobs}
    if asked.of_prompt:
        choice["prompt_logprobs"] = [
            None if row is None else {str(token): {"logprob": value} for token, value in row.items()}
            for row in asked.prompt_rows
        ]
    return {"choices": [choice], "usage": {"prompt_tokens": len(asked.prompt)}}


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"this is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadRequest("a request is a JSON object")
    return found


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
    parser.add_argument("--max-model-len", type=int, required=True, help="longest prompt plus answer in tokens")
    parser.add_argument("--most-together", type=int, default=1, help="requests in one batch")
    parser.add_argument("--seed", type=int, help="of requests without a seed of their own")
    parser.add_argument("--trust-remote-code", action="store_true")
    options = parser.parse_args()

    import torch
    import uvicorn
    from eager_model import EagerModel

    runpy.run_path(str(FIRST_CALLS))
    if options.seed is not None:
        torch.manual_seed(options.seed)
    model = EagerModel(options.model, options.device, options.dtype, options.trust_remote_code)
    server = EagerServer(model, options.most_together, options.max_model_len)
    uvicorn.run(server, uds=options.uds, log_level="warning", timeout_keep_alive=60, lifespan="off")


if __name__ == "__main__":
    main()
