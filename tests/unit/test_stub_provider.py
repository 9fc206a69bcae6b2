"""The provider that the tests of hosted models ask: it must behave as it says, or they prove nothing."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from project import ROOT
from stub_provider import StubProvider
from stub_replies import DIALECTS, Asked, Options, block_forms, prompt_tokens, wire_forms

KEYS = {
    "openai": {"Authorization": "Bearer sk-stub-secret"},
    "anthropic": {"x-api-key": "sk-stub-secret", "anthropic-version": "2023-06-01"},
}
PATHS = {"openai": "/chat/completions", "anthropic": "/messages"}
VERDICT = {
    "type": "object",
    "properties": {"label": {"enum": ["refusal", "compliance"]}, "why": {"type": "string"}},
    "required": ["label", "why"],
    "additionalProperties": False,
}


def body_of(text: str, dialect: str, **more: Any) -> dict[str, Any]:
    seed = {"seed": 1} if dialect == "openai" else {}
    return {"model": "big", "messages": [{"role": "user", "content": text}], "max_tokens": 30, **seed, **more}


def asked(
    stub: StubProvider, dialect: str, *bodies: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> list[tuple[int, Any, Mapping[str, str]]]:
    """Send all at once; return status, body and headers of each, or the name of what went wrong."""

    async def one(session: aiohttp.ClientSession, body: Mapping[str, Any]) -> tuple[int, Any, Mapping[str, str]]:
        try:
            async with session.post(stub.address + PATHS[dialect], json=body, allow_redirects=False) as reply:
                text = await reply.text()
                try:
                    return reply.status, json.loads(text), reply.headers
                except ValueError:
                    return reply.status, text, reply.headers
        except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError) as error:
            return 0, type(error).__name__, {}

    async def together() -> list[tuple[int, Any, Mapping[str, str]]]:
        sent = KEYS[dialect] if headers is None else headers
        timeout = aiohttp.ClientTimeout(total=2)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(headers=sent, timeout=timeout, connector=connector) as session:
            return await asyncio.gather(*(one(session, body) for body in bodies))

    return asyncio.run(together())


def texts(replies: list[tuple[int, Any, Mapping[str, str]]], dialect: str) -> list[Any]:
    if dialect == "openai":
        return [body["choices"][0]["message"]["content"] for _, body, _ in replies]
    return [[part.get("text") for part in body["content"]] for _, body, _ in replies]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_request_gets_the_same_answer_and_another_one_another(dialect: str) -> None:
    with StubProvider() as stub:
        replies = asked(stub, dialect, *(body_of(text, dialect) for text in "aabcdef"))
        first, second, *rest = texts(replies, dialect)
        assert first == second and first not in rest
        if dialect == "openai":
            other = texts(asked(stub, dialect, body_of("a", dialect, seed=2)), dialect)
            assert other != [first]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_shares_are_kept_and_every_form_of_a_block_comes(dialect: str) -> None:
    with StubProvider(blocked=0.3, refused=0.2) as stub:
        for start in range(0, 1000, 50):  # a busy machine does not open a thousand connections at once
            asked(stub, dialect, *(body_of(f"question {start + i}", dialect) for i in range(50)))
        kinds = Counter(entry["kind"] for entry in stub.entries)
        assert abs(kinds["blocked"] - 300) < 50 and abs(kinds["refusal"] - 200) < 50
        assert {entry["form"] for entry in stub.entries if entry["kind"] == "blocked"} == set(block_forms(dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_bill_is_what_usage_says_and_within_the_worst_case(dialect: str) -> None:
    with StubProvider(blocked=0.3, refused=0.2, cached=0.5, bytes_per_token=1.0, reasoning=3) as stub:
        bodies = [body_of("question é " * (i % 7) + str(i), dialect, max_tokens=5 + i % 20) for i in range(200)]
        replies = asked(stub, dialect, *bodies)
        of_id = {entry["request_id"]: entry for entry in stub.entries}
        total = Counter[str]()
        for body, (status, said, headers) in zip(bodies, replies, strict=True):
            entry = of_id[headers["x-request-id" if dialect == "openai" else "request-id"]]
            billed = entry["billed"]
            worst = sum(len(message["content"].encode()) + 16 for message in body["messages"])
            assert billed["input"] < worst and billed["output"] <= body["max_tokens"]
            used = said.get("usage") if status == 200 else None
            if used and dialect == "openai":
                assert (used["prompt_tokens"], used["completion_tokens"]) == (billed["input"], billed["output"])
            elif used:
                read = used["cache_read_input_tokens"]
                assert (used["input_tokens"] + read, read) == (billed["input"], billed["cached"])
                assert used["output_tokens"] == billed["output"]
            else:
                assert status >= 400 and not any(billed.values())
            total.update(billed)
        assert stub.billed == total == stub.entries[-1]["billed_so_far"]


def test_a_block_with_an_error_bills_its_prompt_only_where_that_is_asked_for() -> None:
    for bills in (False, True):
        with StubProvider(always="Azure 400 filter", bills_blocks=bills) as stub:
            asked(stub, "openai", body_of("q", "openai"))
            assert (stub.billed["input"] > 0) == bills and stub.billed["output"] == 0


def test_a_prompt_is_as_dear_as_it_can_be_only_where_that_is_asked_for() -> None:
    for size, most in ((4.0, 40), (1.0, 115)):
        request = Asked("openai", body_of("x" * 100, "openai"), 1)
        assert prompt_tokens(request, Options(bytes_per_token=size)) <= most


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_form_that_is_asked_for_comes(dialect: str) -> None:
    if dialect == "openai":
        form = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": VERDICT}}
        more: dict[str, Any] = {"response_format": form}
    else:
        tool = {"name": "verdict", "input_schema": VERDICT}
        more = {"tools": [tool], "tool_choice": {"type": "tool", "name": "verdict"}}
    with StubProvider() as stub:
        replies = asked(stub, dialect, *(body_of(f"q {i}", dialect, **more) for i in range(20)))
        loose = {**VERDICT, "additionalProperties": True}
        if dialect == "openai":
            verdicts = [json.loads(text) for text in texts(replies, dialect)]
            form["json_schema"] = {"name": "verdict", "strict": True, "schema": loose}
            [(status, said, _)] = asked(stub, dialect, body_of("q", dialect, response_format=form))
            assert status == 400 and "additionalProperties" in said["error"]["message"]
        else:
            verdicts = [body["content"][-1]["input"] for _, body, _ in replies]
            assert {body["stop_reason"] for _, body, _ in replies} == {"tool_use"}
        assert {verdict["label"] for verdict in verdicts} == {"refusal", "compliance"}
        assert all(verdict["why"] for verdict in verdicts)


def test_log_probabilities_belong_to_the_tokens_of_the_text() -> None:
    with StubProvider() as stub:
        [(_, said, _)] = asked(stub, "openai", body_of("q", "openai", logprobs=True))
        [choice] = said["choices"]
        tokens = choice["logprobs"]["content"]
        assert "".join(token["token"] for token in tokens) == choice["message"]["content"]
        assert all(token["logprob"] <= 0 and bytes(token["bytes"]).decode() == token["token"] for token in tokens)
        assert len(tokens) == said["usage"]["completion_tokens"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_provider_has_against_a_request(dialect: str) -> None:
    with StubProvider(unsupported=["top_p"], only_default=["temperature"]) as stub:
        wrong = {"Authorization": "Bearer other", "x-api-key": "other", "anthropic-version": "2023-06-01"}
        [(status, said, _)] = asked(stub, dialect, body_of("q", dialect), headers=wrong)
        assert status == 401 and "sk-stub" not in json.dumps(said)
        for more, word in (({"top_p": 0.9}, "top_p"), ({"temperature": 0.7}, "temperature"), ({"odd": 1}, "odd")):
            [(status, said, _)] = asked(stub, dialect, body_of("q", dialect, **more))
            assert status == 400 and word in said["error"]["message"], said
        [(status, _, _)] = asked(stub, dialect, body_of("q", dialect, temperature=1))
        assert status == 200
        assert stub.billed["output"] == stub.entries[-1]["billed"]["output"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("fault", "seen", "billed"),
    [
        ("429", (429, None), False),
        ("504", (504, None), True),
        ("529", (529, None), False),
        ("reset before", (0, "ServerDisconnectedError"), False),
        ("reset after", (0, "ServerDisconnectedError"), True),
        ("reset within", (0, "ClientPayloadError"), True),
        ("slow", (200, None), True),
        ("endless", (0, "TimeoutError"), True),
        ("headers", (0, "ClientResponseError"), True),
        ("html", (200, "<html>sign in</html>"), False),
        ("types", (200, None), True),
        ("cut", (200, None), True),
        ("bytes", (0, "UnicodeDecodeError"), True),
        ("redirect", (307, ""), False),
    ],
)
def test_faults(dialect: str, fault: str, seen: tuple[int, str | None], billed: bool) -> None:
    with StubProvider(script=[fault], slow_seconds=0.01, retry_after="3") as stub:
        [(status, said, headers)] = asked(stub, dialect, body_of("q", dialect))
        assert status == seen[0] and seen[1] in (None, said), said
        assert (stub.billed["input"] > 0) == billed
        assert headers.get("Retry-After") == ("3" if fault == "429" else None)
        stub.settled()
        [(status, _, _)] = asked(stub, dialect, body_of("q", dialect))
        assert status == 200


def test_faults_come_in_their_shares_and_pass() -> None:
    with StubProvider(faults={"429": 0.2, "reset after": 0.1}) as stub:
        bodies = [body_of(f"q {i}", "openai") for i in range(500)]
        tries = 0
        while bodies:
            tries += 1
            replies = asked(stub, "openai", *bodies)
            bodies = [body for body, (status, _, _) in zip(bodies, replies, strict=True) if status != 200]
        assert tries < 12
        forms = Counter(entry["form"] for entry in stub.entries if entry["turn"] == 0)
        assert abs(forms["429"] - 100) < 30 and abs(forms["reset after"] - 50) < 25


def test_more_than_the_rate_are_429_and_many_are_in_flight(tmp_path: Path) -> None:
    with StubProvider(rate=50) as stub:
        statuses = Counter(status for status, _, _ in asked(stub, "openai", *[body_of("q", "openai")] * 80))
        assert statuses == {200: 50, 429: 30}
    with StubProvider(latency=0.3, log=tmp_path / "log.jsonl") as stub:
        asked(stub, "openai", *(body_of(f"q {i}", "openai") for i in range(200)))
        assert 1 < stub.most_in_flight <= 200
        assert [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()] == stub.entries


def test_the_script_names_forms_faults_statuses_and_bodies() -> None:
    by_hand = {"status": 403, "body": {"error": {"message": "Request blocked by guardrail"}}}
    with StubProvider(script=["OpenRouter 402", "529", 503, by_hand], answers_as="other") as stub:
        seen = [asked(stub, "openai", body_of("q", "openai"))[0] for _ in range(5)]
        assert [status for status, _, _ in seen] == [402, 529, 503, 403, 200]
        assert seen[0][1] == wire_forms("openai")["OpenRouter 402"]["body"]
        assert seen[3][1] == by_hand["body"] and seen[4][1]["model"] == "other"


def test_options_differ_by_model_and_samples_without_a_seed_differ_where_asked() -> None:
    with StubProvider(varies=True, models={"judge": {"blocked": 1.0}}) as stub:
        replies = asked(stub, "anthropic", *[body_of("q", "anthropic")] * 4)
        assert len({str(text) for text in texts(replies, "anthropic")}) > 1
        asked(stub, "anthropic", body_of("q", "anthropic") | {"model": "judge"})
        assert [entry["kind"] for entry in stub.entries[:4]] == ["answer"] * 4
        assert stub.entries[4]["kind"] == "blocked"


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests" / "stub_provider.py"), "--log", str(tmp_path / "log.jsonl")]
    command += ["--options", '{"blocked": 1.0, "block_forms": ["DeepSeek 400"]}']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            client = StubProvider()
            client.port = int(json.loads(process.stdout.readline())["address"].split(":")[2].split("/")[0])
            [(status, said, _)] = asked(client, "openai", body_of("q", "openai"))
            assert (status, said["error"]["message"]) == (400, "Content Exists Risk")
        finally:
            process.terminate()
    assert json.loads((tmp_path / "log.jsonl").read_text())["form"] == "DeepSeek 400"
