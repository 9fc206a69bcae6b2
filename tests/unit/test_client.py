"""The client of an engine's server: what is tried again, what is the request's own fault, what is no whole answer."""

import asyncio
import gzip
import json
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.packing import unpack_floats
from refusal_eval.engines import engine_client as module
from refusal_eval.engines.engine_base import EngineDied, Rejected
from refusal_eval.engines.engine_client import CompletionClient, Health, classification_of, counters_of, response_of

GOOD = {
    "choices": [
        {"text": "a", "token_ids": [5], "logprobs": {"token_logprobs": [-0.5]}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 2},
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make waiting quick; return what would have been waited."""
    waited: list[float] = []
    sleep = asyncio.sleep

    async def soon(seconds: float) -> None:
        if seconds:
            waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(module.asyncio, "sleep", soon)
    monkeypatch.setattr(module, "DEATH_SECONDS", 0.2)
    return waited


def against(handler: Handler, folder: Path, ask: Callable[[CompletionClient], Awaitable[Any]], dead: Any = None) -> Any:
    """Return what `ask` returns on a client of a real server on a Unix socket."""

    async def work() -> Any:
        app = web.Application()
        app.router.add_post("/v1/completions", handler)
        app.router.add_get("/metrics", handler)
        app.router.add_get("/health", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, str(folder / "s"), backlog=2048).start()
        client = CompletionClient(str(folder / "s"), dead or (lambda: None))
        try:
            return await ask(client)
        finally:
            await client.close()
            await runner.cleanup()

    return asyncio.run(work())


def one(client: CompletionClient, number: int = 1) -> Awaitable[dict[str, Any]]:
    return client.complete([number, 2], RequestSettings(sampling={"max_tokens": 4}), seed=7)


def answers(*replies: web.Response | dict[str, Any] | int) -> tuple[Handler, list[dict[str, Any]]]:
    """Return a handler that gives these replies in turn (the last for ever), and the bodies that it saw."""
    left, seen = list(replies), []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(await request.json())
        reply = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(reply, int):
            return web.Response(status=reply, text=f"trouble {reply}")
        return web.json_response(reply)

    return handle, seen


def test_a_request_carries_all_and_a_response_is_what_is_kept(tmp_path: Path) -> None:
    handler, seen = answers(GOOD)
    response = against(handler, tmp_path, one)
    assert response["text"] == "a" and response["token_ids"] == [5] and response["prompt_tokens"] == 2
    assert seen[0]["prompt"] == [1, 2] and seen[0]["seed"] == 7 and seen[0]["stream"] is False


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_busy_server_is_asked_again_later_and_later(status: int, tmp_path: Path, quick: list[float]) -> None:
    handler, seen = answers(status, status, status, GOOD)
    assert against(handler, tmp_path, one)["text"] == "a"
    assert len(seen) == 4 and seen[0] == seen[3]
    assert quick == [0.2, 0.4, 0.8]


def test_a_broken_connection_is_tried_again(tmp_path: Path) -> None:
    tries = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal tries
        tries += 1
        if tries < 3:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(GOOD)

    assert against(handle, tmp_path, one)["text"] == "a"
    assert tries == 3


@pytest.mark.parametrize(
    ("exit_code", "error", "said", "tries"),
    [(None, ConnectionError, "no answer after 6 tries: HTTP 503: trouble 503", 6), (-9, EngineDied, "503", 1)],
)
def test_a_server_that_never_gets_better_fails_the_request_for_now_and_a_dead_one_is_told_at_once(
    exit_code: int | None, error: type[Exception], said: str, tries: int, tmp_path: Path
) -> None:
    handler, seen = answers(503)
    with pytest.raises(error, match=said):
        against(handler, tmp_path, one, dead=lambda: exit_code)
    assert len(seen) == tries


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_request_refused_for_its_own_sake_is_not_tried_again(status: int, tmp_path: Path) -> None:
    handler, seen = answers(status)
    with pytest.raises(Rejected) as caught:
        against(handler, tmp_path, one)
    assert (caught.value.status, caught.value.message, len(seen)) == (status, f"trouble {status}", 1)


def on_one_only(status: int) -> Handler:
    """Return a server that fails on the prompt that begins with 1 and answers all others."""

    async def handle(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        return web.json_response(GOOD) if body["prompt"][0] != 1 else web.Response(status=status, text="grammar")

    return handle


@pytest.mark.parametrize("others", [0, 39])
def test_a_request_that_the_server_fails_on_at_each_try_is_rejected_also_where_it_is_the_only_one(
    others: int, tmp_path: Path
) -> None:
    async def all_together(client: CompletionClient) -> Any:
        numbers = range(1, 2 + others)
        return await asyncio.gather(*(one(client, number) for number in numbers), return_exceptions=True)

    first, *rest = against(on_one_only(500), tmp_path, all_together)
    assert isinstance(first, Rejected) and "6 tries: grammar" in first.message
    assert [reply["text"] for reply in rest] == ["a"] * others


def test_what_was_answered_before_a_server_broke_down_rejects_nothing(tmp_path: Path) -> None:
    broken = False

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal broken
        if broken or json.loads(await request.read())["prompt"][0] == 1:
            await asyncio.wait_for(others.wait(), 20)
            return web.Response(status=500, text="internal")
        return web.json_response(GOOD)

    async def one_after_others(client: CompletionClient) -> Any:
        nonlocal broken
        waiting = asyncio.ensure_future(one(client, 1))  # in flight while others are answered
        await one(client, 2)
        broken = True
        others.set()
        return await waiting

    others = asyncio.Event()
    with pytest.raises(ConnectionError, match="HTTP 500"):
        against(handle, tmp_path, one_after_others)


def test_a_server_that_fails_on_everything_rejects_nothing(tmp_path: Path) -> None:
    handler, _ = answers(500)

    async def both(client: CompletionClient) -> Any:
        return await asyncio.gather(one(client, 1), one(client, 2), return_exceptions=True)

    for error in against(handler, tmp_path, both):
        assert isinstance(error, ConnectionError), "all of it may pass"


@pytest.mark.parametrize("reason", ["abort", "error", None])
def test_a_response_that_was_broken_off_is_no_answer(reason: str | None, tmp_path: Path) -> None:
    handler, _ = answers(choice(finish_reason=reason))
    with pytest.raises(ValueError, match="broke this response off"):
        against(handler, tmp_path, one)


def test_a_server_that_breaks_off_and_dies_is_dead(tmp_path: Path) -> None:
    handler, seen = answers(choice(finish_reason="abort"))
    with pytest.raises(EngineDied, match="abort"):
        against(handler, tmp_path, one, dead=lambda: -15 if seen else None)


def test_a_thousand_requests_are_at_the_server_together(tmp_path: Path) -> None:
    there = 0
    all_there = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal there
        there += 1
        if there == 1000:
            all_there.set()
        await asyncio.wait_for(all_there.wait(), 20)
        return web.json_response(GOOD)

    async def many(client: CompletionClient) -> Any:
        return await asyncio.gather(*(one(client, number) for number in range(1000)))

    assert len(against(handle, tmp_path, many)) == 1000


LONE_SURROGATE = "\ud83d"
NAMED = {"max_tokens": 4, "logprob_token_ids": [7, 9]}
ROW = {"token_id:5": -0.5, "token_id:7": -2.0, "token_id:9": -3.0}


def choice(**values: Any) -> dict[str, Any]:
    return {**GOOD, "choices": [{**GOOD["choices"][0], **values}]}  # type: ignore[index]


def scored(*values: Any, rows: Any = None) -> dict[str, Any]:
    return choice(token_ids=[5] * len(values), logprobs={"token_logprobs": list(values), "top_logprobs": rows})


def without(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: kept for key, kept in value.items() if key != name}


ODD_REPLIES = {
    "no object": [],
    "nothing": None,
    "no choices": without(GOOD, "choices"),
    "choices that are none": {**GOOD, "choices": []},
    "two choices": {**GOOD, "choices": 2 * GOOD["choices"]},  # type: ignore[operator]
    "a choice that is none": {**GOOD, "choices": [None]},
    "no text": {**GOOD, "choices": [without(GOOD["choices"][0], "text")]},  # type: ignore[index]
    "no reason for its end": {**GOOD, "choices": [without(GOOD["choices"][0], "finish_reason")]},  # type: ignore[index]
    "no usage": without(GOOD, "usage"),
    "usage that is none": {**GOOD, "usage": None},
    "no prompt tokens": {**GOOD, "usage": {}},
    "prompt tokens as text": {**GOOD, "usage": {"prompt_tokens": "2"}},
    "a negative number of prompt tokens": {**GOOD, "usage": {"prompt_tokens": -1}},
    "text that is none": choice(text=5),
    "text that nobody can write": choice(text=LONE_SURROGATE),
    "a stop reason that nobody can write": choice(stop_reason=LONE_SURROGATE),
    "a stop reason that is none": choice(stop_reason=[5]),
    "token ids as text": choice(token_ids=["5"]),
    "a token id that is no whole number": choice(token_ids=[5.5]),
    "a token id that is a truth": choice(token_ids=[True]),
    "a negative token id": choice(token_ids=[-1]),
    "a token id beyond all vocabularies": choice(token_ids=[2**31]),
    "token ids that are no list": choice(token_ids={"5": 5}),
    "more token ids than log-probabilities": choice(token_ids=[5, 5]),
    "no token ids": choice(token_ids=None),
    "no log-probabilities": choice(logprobs=None),
    "no log-probability": scored(None),
    "a log-probability as text": scored("-0.5"),
    "a log-probability that is a truth": scored(True),
    "a log-probability that is not a number": scored(math.nan),
    "an infinite log-probability": scored(-math.inf),
    "a log-probability that a float32 cannot hold": scored(-1e39),
    "a positive log-probability": scored(0.5),
    "log-probabilities that are no object": choice(logprobs=[-0.5]),
}


@pytest.mark.parametrize("what", ODD_REPLIES)
def test_an_odd_reply_fails_its_request_alone_and_says_what_is_odd(what: str, tmp_path: Path) -> None:
    handler, seen = answers(ODD_REPLIES[what], GOOD)  # type: ignore[arg-type]

    async def two(client: CompletionClient) -> Any:
        return await asyncio.gather(one(client), return_exceptions=True) + [await one(client)]

    odd, good = against(handler, tmp_path, two)
    assert type(odd) is ValueError and "the engine's reply" in str(odd) and "\n" not in str(odd)
    assert good["text"] == "a" and len(seen) == 2


def test_rounding_may_leave_a_log_probability_a_little_over_nought() -> None:
    for number in (1e-6, 0):
        assert response_of(scored(number), {})["token_ids"]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [],
        [None],
        [without(ROW, "token_id:9")],
        [ROW, ROW],
        [{**ROW, "token_id:7": math.nan}],
        [{**ROW, "token_id:7": -math.inf}],
        [{**ROW, "token_id:7": None}],
        [{**ROW, "token_id:7": "-2"}],
    ],
)
def test_a_named_log_probability_that_is_missing_or_none_is_never_kept(rows: Any) -> None:
    response_of(scored(-0.5, rows=[ROW]), NAMED)
    with pytest.raises(ValueError, match="the engine's reply"):
        response_of(scored(-0.5, rows=rows), NAMED)


@pytest.mark.parametrize(
    "odd",
    [
        *([], None, {}),
        *({"logits": value, "prompt_tokens": 1} for value in (None, 1.0, [], [None], ["1"], [True], [math.nan])),
        *({"logits": value, "prompt_tokens": 1} for value in ([math.inf], [1e39])),
        *({"logits": [1.0], **more} for more in ({}, {"prompt_tokens": None}, {"prompt_tokens": -1})),
    ],
)
def test_an_odd_reply_of_a_classifier_says_what_is_odd(odd: Any) -> None:
    classification_of({"logits": [1, -0.5], "prompt_tokens": 3})
    with pytest.raises(ValueError, match="the classifier's reply"):
        classification_of(odd)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"", b"<html>", b"\xff\xfe\xfd", b"1" * 5000])
def test_a_reply_that_is_no_json_fails_its_request(content: bytes, tmp_path: Path) -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(body=content)

    with pytest.raises(ValueError, match="the engine's reply is no JSON"):
        against(handle, tmp_path, one)


def test_a_compressed_reply_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    allowed = []

    async def handle(request: web.Request) -> web.StreamResponse:
        allowed.append(request.headers["Accept-Encoding"])
        bomb = gzip.compress(json.dumps(GOOD).encode() + b" " * 2**24)
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    with pytest.raises(ValueError, match=r"the engine's reply is compressed \(gzip\)"):
        against(handle, tmp_path, one)
    assert allowed == ["identity"]


def test_a_reply_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLY_BYTES", 2**20)

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(64):
            await response.write(b" " * 2**20)
        return response

    with pytest.raises(ValueError, match=r"the engine's reply is larger than 1 MiB"):
        against(handle, tmp_path, one)


def test_a_response_keeps_token_ids_exact_log_probabilities_and_named_ones_in_the_order_asked_for() -> None:
    response = response_of(scored(-0.5, -1.0, rows=[ROW, ROW]), {**NAMED, "logprob_token_ids": [9, 7]})
    assert response["token_ids"] == [5, 5]
    assert unpack_floats(response["logprobs"]).tolist() == [-0.5, -1.0]
    assert unpack_floats(response["named_logprobs"]).tolist() == [-3.0, -2.0, -3.0, -2.0]


OF_PROMPT = {"max_tokens": 1, "prompt_logprobs": 0}
PROMPT_ROWS: list[Any] = [None, {"7": {"logprob": -1.5, "rank": 3}}, {"7": {"logprob": -0.25}, "9": {"logprob": -2.0}}]


def test_a_response_keeps_the_log_probabilities_of_a_prompts_own_tokens_where_they_are_asked_for() -> None:
    reply = scored(-0.5) | {"choices": [{**scored(-0.5)["choices"][0], "prompt_logprobs": PROMPT_ROWS}]}
    response = response_of(reply, OF_PROMPT, [5, 7, 9])
    assert unpack_floats(response["prompt_logprobs"]).tolist() == [-1.5, -2.0], "the first token has none"
    assert "prompt_logprobs" not in response_of(reply, {"max_tokens": 1}, [5, 7, 9])


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [],
        PROMPT_ROWS[:2],
        [*PROMPT_ROWS, PROMPT_ROWS[1]],
        [None, None, PROMPT_ROWS[2]],
        [None, {"8": {"logprob": -1.5}}, PROMPT_ROWS[2]],
        [None, {"7": {"logprob": -math.inf}}, PROMPT_ROWS[2]],
        [None, {"7": {"logprob": None}}, PROMPT_ROWS[2]],
        [None, {"7": -1.5}, PROMPT_ROWS[2]],
    ],
)
def test_a_log_probability_of_the_prompt_that_is_missing_or_none_is_never_kept(rows: Any) -> None:
    reply = scored(-0.5) | {"choices": [{**scored(-0.5)["choices"][0], "prompt_logprobs": rows}]}
    with pytest.raises(ValueError, match="the engine's reply"):
        response_of(reply, OF_PROMPT, [5, 7, 9])


COUNTED = "vllm:request_success_total 3"


def test_counters_are_summed_over_reasons_and_engines_and_the_size_of_the_caches_blocks_is_not() -> None:
    text = (
        "# HELP x\n"
        'vllm:request_success_total{engine="0",finished_reason="stop"} 3.0\n'
        'vllm:request_success_total{engine="0",finished_reason="length"} 4.0\n'
        'vllm:prompt_tokens_total{engine="0"} 100.0\n'
        'vllm:prompt_tokens_created{engine="0"} 1.7e9\n'
    )
    assert (counters_of(text)["requests"], counters_of(text)["prompt_tokens"]) == (7, 100)
    assert "block_size" not in counters_of(text)
    for engine in range(2):
        text += (
            f'vllm:cache_config_info{{cache_dtype="a",hash_block_size="16",block_size="272",engine="{engine}"}} 1.0\n'
        )
    assert counters_of(text)["block_size"] == 272
    assert "block_size" not in counters_of(text.replace('"272"', '"None"'))


@pytest.mark.parametrize("odd", ["many", "nan", "-1", "inf", ""])
def test_a_counter_that_is_no_count_is_no_counter(odd: str) -> None:
    assert counters_of(COUNTED)["requests"] == 3
    with pytest.raises(ValueError):
        counters_of(f"{COUNTED}\nvllm:prompt_tokens_total {odd}".rstrip())


def test_counters_under_other_names_are_not_taken_for_counters_at_zero() -> None:
    """An engine of the user's own that counts under names of its own does not hang."""
    assert counters_of("vllm:requests_in_another_word_total 3") == {}


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, COUNTED.encode()), (200, COUNTED.encode() + b" many"), (200, b"\xff\xfe"), (200, b"others_total 3")],
)
def test_counters_that_are_not_reported_are_not_known(status: int, body: bytes, tmp_path: Path) -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body)

    with pytest.raises(ConnectionError, match="the engine's counters cannot be read"):
        against(handle, tmp_path, lambda client: client.metrics())


def test_health_that_trickles_is_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEALTH_SECONDS", 0.3)

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        pause = asyncio.get_running_loop()
        while request.transport is not None and not request.transport.is_closing():
            await response.write(b"x")
            moment = pause.create_future()
            pause.call_later(0.05, moment.set_result, None)
            await moment
        return response

    started = time.monotonic()
    assert against(handle, tmp_path, lambda client: client.health()) is Health.SILENT
    assert time.monotonic() - started < 5
