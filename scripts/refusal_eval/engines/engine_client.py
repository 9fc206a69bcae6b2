"""Asking an engine's server over its Unix socket: vLLM for completions of token ids, ours for classifications."""

import abc
import asyncio
import contextlib
import enum
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

import aiohttp
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from refusal_eval.ask.keys import EnginePrompt
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.packing import pack_floats
from refusal_eval.core.time_limit import within
from refusal_eval.engines.engine_base import SERVED_NAME, EngineDied, Rejected

# Sent with every request, so that no default of the server counts. `ignore_eos` with our own `stop_token_ids` keeps
# the server from adding stop tokens that it finds in the model's folder.
FIXED_FIELDS: Mapping[str, Any] = {
    "n": 1,
    "echo": False,
    "stream": False,
    "logprobs": 0,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
    "add_special_tokens": False,
    "ignore_eos": True,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "include_stop_str_in_output": False,
}
TRIES = 6
# uvicorn closes idle connections; a client that keeps them less long never writes into a closing one.
KEEP_ALIVE_SECONDS = 2.0
# What a whole answer ends with. vLLM that is told to stop answers what is in flight with "abort", HTTP 200, and the
# tokens so far.
WHOLE = ("stop", "length")
HEALTH_SECONDS, COUNTERS_SECONDS = 5.0, 30.0  # for one reply about either
SMALLEST_SECONDS = 600.0  # for the smallest request, behind a long queue
DEATH_SECONDS = 10.0  # what a server that breaks off requests is given to be gone
TRANSPORT_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
REPLY_BYTES = 2**27  # more than an answer of a million tokens takes
COUNTERS = {
    "vllm:request_success_total": "requests",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:generation_tokens_total": "generated_tokens",
    "vllm:prefix_cache_queries_total": "prefix_cache_queries",
    "vllm:prefix_cache_hits_total": "prefix_cache_hits",
}
CACHE_INFO = "vllm:cache_config_info"
BLOCK_SIZE = re.compile(r'[{,]block_size="(\d{1,9})"')


def _writable(text: str) -> str:
    text.encode()  # a lone surrogate, which JSON can escape, cannot be stored
    return text


Int31 = Annotated[int, Field(ge=0, lt=2**31)]
WritableText = Annotated[str, AfterValidator(_writable)]
Logit = Annotated[float, Field(ge=-3e38, le=3e38, allow_inf_nan=False)]  # finite as a float32, too
LogProbability = Annotated[float, Field(ge=-3e38, le=0.01, allow_inf_nan=False)]  # 0 but for rounding


class _Part(BaseModel):
    """A part of a server's reply; what we do not use of it may be anything."""

    model_config = ConfigDict(strict=True)


class _LogProbabilities(_Part):
    token_logprobs: list[LogProbability] | None = None
    top_logprobs: Any = None  # see NAMED


class _TokenLogProbability(_Part):
    logprob: LogProbability


class _Choice(_Part):
    text: WritableText
    finish_reason: str | None
    stop_reason: Int31 | WritableText | None = None
    token_ids: list[Int31] | None = None
    logprobs: _LogProbabilities | None = None
    prompt_logprobs: Any = None  # see OF_PROMPT


class _Usage(_Part):
    prompt_tokens: Int31


class _Completion(_Part):
    choices: Annotated[list[_Choice], Field(min_length=1, max_length=1)]
    usage: _Usage


class _Classification(_Part):
    logits: Annotated[list[Logit], Field(min_length=1)]
    prompt_tokens: Int31


class _Embedding(_Part):
    vectors: Annotated[list[Logit], Field(min_length=1)]
    prompt_tokens: Int31


COMPLETION, CLASSIFICATION = TypeAdapter(_Completion), TypeAdapter(_Classification)
EMBEDDING = TypeAdapter(_Embedding)
NAMED = TypeAdapter(list[dict[str, LogProbability]], config=ConfigDict(strict=True))
OF_PROMPT = TypeAdapter(list[dict[str, _TokenLogProbability] | None], config=ConfigDict(strict=True))
Checked = TypeVar("Checked")


class Health(enum.Enum):
    """What a server says of itself: nothing at all (it may be busy), that it is well, or that it is not."""

    WELL = enum.auto()
    SILENT = enum.auto()
    UNWELL = enum.auto()  # or it takes no connections


class BrokenOff(ValueError):
    """The engine ended a response before it was whole."""


class EngineClient(abc.ABC):
    """Client of one server on a Unix socket, shared by all kinds. `exit_code` shows whether the server has died."""

    smallest: ClassVar[Mapping[str, Any]]  # the body of the smallest request there is

    def __init__(self, socket: str, exit_code: Callable[[], int | None]) -> None:
        self._exit_code = exit_code
        # As many connections as there are requests at one time: whoever asks decides how many that are.
        connector = aiohttp.UnixConnector(socket, limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
        # No read time-out: a long answer behind a long queue is not an error; a dead server is noticed by its exit.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
        # Compressed, a small reply may be gigabytes.
        plain: dict[str, Any] = {"headers": {"Accept-Encoding": "identity"}, "auto_decompress": False}
        self._http = aiohttp.ClientSession("http://engine", connector=connector, timeout=timeout, **plain)

    async def close(self) -> None:
        await self._http.close()

    async def health(self) -> Health:
        """Return what becomes of a health request."""
        try:
            status, _ = await within(HEALTH_SECONDS, self._request("GET", "/health"))
            return Health.WELL if status == 200 else Health.UNWELL
        except TimeoutError:
            return Health.SILENT
        except (*TRANSPORT_ERRORS, ValueError):
            return Health.UNWELL

    @abc.abstractmethod
    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request, as it goes into the store; raise what `RunningEngine.complete` does."""

    async def _reply(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON reply to a request; transport errors and busy servers are tried again with back-off.

        A request that the server fails on (HTTP 500) at each try, while it answers the smallest one there is, is
        rejected: it would fail in every later run too, and with it the batch.
        """
        status = 0
        for attempt in range(TRIES):
            status = 0
            try:
                status, content = await self._request("POST", path, body)
            except TRANSPORT_ERRORS as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if status == 200:
                    return _parse(content)
                problem = f"HTTP {status}: {_excerpt(content, 500)}"
                if 400 <= status < 500 and status not in (408, 429):
                    raise Rejected(status, _excerpt(content, 500))
            if self._exit_code() is not None:
                raise EngineDied(problem)
            await asyncio.sleep(min(0.2 * 2**attempt, 5.0))
            if self._exit_code() is not None:
                raise EngineDied(problem)
        if status == 500:
            with contextlib.suppress(*TRANSPORT_ERRORS, ValueError):
                smallest, _ = await within(SMALLEST_SECONDS, self._request("POST", path, self.smallest))
                if smallest == 200:
                    raise Rejected(status, f"{TRIES} tries: {_excerpt(content, 450)}")
        raise ConnectionError(f"no answer after {TRIES} tries: {problem}")

    async def _await_death(self, problem: str) -> None:
        """Raise `EngineDied` if the server is gone within some seconds."""
        deadline = time.monotonic() + DEATH_SECONDS
        while time.monotonic() < deadline:
            if self._exit_code() is not None:
                raise EngineDied(problem)
            await asyncio.sleep(0.1)

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        async with self._http.request(method, path, json=body, allow_redirects=False) as reply:
            return reply.status, await _body(reply)

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON reply of any endpoint, for checks of the server itself. Nothing is tried again.

        Raises:
            ConnectionError: if there is no reply, or it is not a success.
            ValueError: if it is no JSON.
        """
        try:
            status, content = await self._request("POST", path, {"model": SERVED_NAME, **body})
        except TRANSPORT_ERRORS as error:
            raise ConnectionError(f"{path}: {type(error).__name__}: {error}") from error
        if status != 200:
            raise ConnectionError(f"{path}: HTTP {status}: {_excerpt(content, 300)}")
        return _parse(content)

    async def metrics(self) -> dict[str, float]:
        """Return the server's own counters, summed over its engines.

        Raises:
            ConnectionError: if the server does not report them.
        """
        for attempt in range(TRIES):
            try:
                status, content = await within(COUNTERS_SECONDS, self._request("GET", "/metrics"))
                if status == 200 and (counters := counters_of(content.decode())):
                    return counters
                if status == 200:
                    problem = f"none of {', '.join(COUNTERS)} is among them"
                    break  # nor will it be
                problem = f"HTTP {status}: {_excerpt(content, 300)}"
            except (*TRANSPORT_ERRORS, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
            if self._exit_code() is not None:
                break
            await asyncio.sleep(0.2 * 2**attempt)
        raise ConnectionError(f"the engine's counters cannot be read: {problem}")


async def _body(reply: aiohttp.ClientResponse) -> bytes:
    """Return the body of a reply.

    Raises:
        ValueError: if it is compressed, which we never request, or too large.
    """
    if (encoding := reply.headers.get("Content-Encoding", "identity")) != "identity":
        reply.close()
        raise ValueError(f"the engine's reply is compressed ({encoding[:40]}), though the request does not allow it")
    parts, length = [], 0
    async for part in reply.content.iter_any():
        parts.append(part)
        length += len(part)
        if length > REPLY_BYTES:
            reply.close()
            raise ValueError(f"the engine's reply is larger than {REPLY_BYTES / 2**20:.0f} MiB")
    return b"".join(parts)


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the engine's reply is no JSON ({error}): {_excerpt(content, 100)!r}") from error


def _validate(schema: TypeAdapter[Checked], value: object, whose: str) -> Checked:
    """Return a part of a reply as its schema has it; raise `ValueError`, with the first fault, if it is not that."""
    try:
        return schema.validate_python(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise ValueError(f"{whose} reply is not as it should be: {place}: {fault['msg']}") from error


def _excerpt(content: bytes, length: int) -> str:
    return content.decode(errors="replace")[:length]


def classification_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a classifier's reply: like a completion without any token, and `logits`, packed float32.

    Raises:
        ValueError: if a logit is missing or no number, or the number of tokens is.
    """
    checked = _validate(CLASSIFICATION, reply, "the classifier's")
    return _without_text("classified", checked.prompt_tokens) | {"logits": pack_floats(checked.logits)}


def embedding_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of an encoder's reply: like a completion without any token, and `vectors`, packed float32.

    Raises:
        ValueError: if a value is missing or no number, or the number of tokens is.
    """
    checked = _validate(EMBEDDING, reply, "the encoder's")
    return _without_text("embedded", checked.prompt_tokens) | {"vectors": pack_floats(checked.vectors)}


def _without_text(finish_reason: str, prompt_tokens: int) -> dict[str, Any]:
    return {
        "text": "",
        "token_ids": [],
        "logprobs": pack_floats([]),
        "finish_reason": finish_reason,
        "stop_reason": None,
        "prompt_tokens": prompt_tokens,
    }


def request_body(token_ids: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
    """Return the JSON body of a completion request: the prompt as token ids and every parameter written out."""
    model = settings.served_as or SERVED_NAME
    body = {"model": model, "prompt": list(token_ids), **FIXED_FIELDS, **settings.sampling, **settings.sent}
    if not body.get("logprob_token_ids"):
        body.pop("logprob_token_ids", None)
    if seed is not None:
        body["seed"] = seed
    return body


def response_of(reply: Mapping[str, Any], sampling: Mapping[str, Any], prompt: EnginePrompt = ()) -> dict[str, Any]:
    """Return what is kept of the reply to a prompt.

    Keys: `text`; `token_ids`; `logprobs`, the raw log-probability (nats) of each of them as packed float32 (where the
    request has `structured_outputs`, among the tokens that these allow); `finish_reason`; `stop_reason`;
    `prompt_tokens`; for requests with `logprob_token_ids` `named_logprobs`, packed float32 of shape (tokens, ids); and
    for requests with `prompt_logprobs` those of the prompt's tokens but for the first one, packed float32.

    Raises:
        BrokenOff: if the response is not whole.
        ValueError: if the reply lacks token ids or log-probabilities, or they are not such.
    """
    checked = _validate(COMPLETION, reply, "the engine's")
    choice, logprobs = checked.choices[0], checked.choices[0].logprobs or _LogProbabilities()
    if choice.finish_reason not in WHOLE:
        raise BrokenOff(f"the engine broke this response off (finish_reason {choice.finish_reason!r})")
    values = logprobs.token_logprobs or []
    if choice.token_ids is None or len(values) != len(choice.token_ids):
        raise ValueError("the engine's reply has no log-probability for each generated token")
    response = {
        "text": choice.text,
        "token_ids": choice.token_ids,
        "logprobs": pack_floats(values),
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "prompt_tokens": checked.usage.prompt_tokens,
    }
    if named := sampling.get("logprob_token_ids"):
        rows = _validate(NAMED, logprobs.top_logprobs, "the engine's")
        names = [f"token_id:{token_id}" for token_id in named]
        if len(rows) != len(values) or not all(name in row for row in rows for name in names):
            raise ValueError("the engine's reply has no log-probability for each token that was named")
        response["named_logprobs"] = pack_floats([row[name] for row in rows for name in names])
    if sampling.get("prompt_logprobs") is not None:
        every = _validate(OF_PROMPT, choice.prompt_logprobs, "the engine's")
        found = [(row or {}).get(str(token)) for row, token in zip(every, prompt, strict=False)][1:]
        if len(every) != len(prompt) or None in found:
            raise ValueError("the engine's reply has no log-probability for each token of the prompt")
        response["prompt_logprobs"] = pack_floats([one.logprob for one in found if one is not None])
    return response


def counters_of(text: str) -> dict[str, float]:
    """Return the counters we use from a Prometheus text, summed over labels; empty if it has none of them.

    If the engine reports it, also `block_size`: the tokens in a block of the prefix cache.

    Raises:
        ValueError: if one is not a count.
    """
    totals, counts = dict.fromkeys(COUNTERS.values(), 0.0), False
    for line in text.splitlines():
        name = line.split("{", 1)[0].split(" ", 1)[0]
        if name == CACHE_INFO and (found := BLOCK_SIZE.search(line)):
            totals["block_size"] = float(found[1])
        if name in COUNTERS:
            count = float(line.rsplit(" ", 1)[-1])
            if not 0 <= count < math.inf:
                raise ValueError(f"{name} is {count}")
            totals[COUNTERS[name]] += count
            counts = True
    return totals if counts else {}


class CompletionClient(EngineClient):
    """Client of a vLLM server."""

    smallest = request_body([0], RequestSettings(sampling={"max_tokens": 1}), None)

    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request (see `response_of`, and `EngineClient.complete` for what is raised)."""
        reply = await self._reply("/v1/completions", request_body(prompt, settings, seed))
        try:
            return response_of(reply, settings.sampling, prompt)
        except BrokenOff as error:
            await self._await_death(str(error))
            raise


class ClassificationClient(EngineClient):
    """Client of a classifier's server."""

    smallest: ClassVar = {"token_ids": [0]}
    path: ClassVar = "/classify"
    kept: ClassVar = staticmethod(classification_of)  # what is kept of a reply

    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        return self.kept(await self._reply(self.path, {"token_ids": list(prompt)}))


class EmbeddingClient(ClassificationClient):
    """Client of an encoder's server."""

    path, kept = "/embed", staticmethod(embedding_of)
