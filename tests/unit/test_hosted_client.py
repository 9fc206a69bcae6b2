"""How hosted engines are asked: one first, in the rhythm that the server allows, within the budget."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from stub_provider import StubProvider

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.ask.store import checked_response
from refusal_eval.config.kinds import ENGINES
from refusal_eval.core.errors import UserError
from refusal_eval.engines.engine_base import EngineLoad, Rejected
from refusal_eval.features.hosted import client
from refusal_eval.features.hosted.journal import Journal, journal_path, read_spending

KEY = "sk-stub-secret"
PRICE = {"input": 2, "output": 10, "date": "2026-11-01"}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StubProvider]:
    monkeypatch.setenv("STUB_KEY", KEY)
    with StubProvider(log=tmp_path / "stub.jsonl") as provider:
        yield provider


def ask(
    stub: StubProvider,
    count: int = 1,
    kind: str = "openai",
    sampling: dict[str, Any] | None = None,
    study: dict[str, Any] | None = None,
    in_flight: int = 8,
    **entry: Any,
) -> list[Any]:
    """Return the response to each of `count` requests, or its error."""
    about = {"kind": kind, "address": stub.address, "served": "m", "as_of": "2026-11-01", "key_variable": "STUB_KEY"}
    engine = ENGINES.entry(about | entry)
    settings = RequestSettings(sampling={"max_tokens": 50, "temperature": 1.0, **NEUTRAL_SAMPLING, **(sampling or {})})
    load = EngineLoad(Path("log"), "seeded", in_flight=in_flight, study=study or {})

    async def one(client: Any, number: int) -> Any:
        try:
            prompt = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"Question {number}?"}]
            return checked_response(await client.complete(prompt, settings, number))
        except (ConnectionError, UserError, Rejected, ValueError) as error:
            return error

    async def all_of_them() -> list[Any]:
        async with engine.running(load) as client:
            return await asyncio.gather(*(one(client, number) for number in range(count)))

    return asyncio.run(all_of_them())


def only(found: Sequence[Any], kind: type[Exception]) -> str:
    assert found and all(isinstance(one, kind) for one in found), found
    return str(found[0])


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_an_answer_comes_with_what_the_server_says_of_itself(stub: StubProvider, kind: str) -> None:
    (response,) = ask(stub, kind=kind)
    assert response["finish_reason"] == "stop" and response["text"].startswith("Sure")
    assert response["served_by"]["model"] == response["model_version"] == "m"
    assert response["usage"]["output"] > 0 and response["usage"]["input"] > 0


def test_only_what_the_dialect_has_is_sent_and_what_is_named_is_always_sent(stub: StubProvider) -> None:
    stub.options.takes = ["top_k"]
    parameters = {"max_tokens": "max_completion_tokens", "temperature": None, "top_k": "top_k"}
    ask(stub, parameters=parameters, extra={"user": "x"})
    body = stub.entries[0]["parameters"]
    assert body.keys() == {"max_completion_tokens", "top_k", "seed", "user"}
    assert (body["max_completion_tokens"], body["top_k"], body["seed"]) == (50, 0, 0)


def test_messages_of_the_system_go_where_the_dialect_has_them(stub: StubProvider) -> None:
    ask(stub, kind="anthropic", sampling={"stop": ["END"], "top_k": 5})
    body = stub.entries[0]["parameters"]
    assert [one["role"] for one in stub.entries[0]["messages"]] == ["system", "user"]
    assert (body["stop_sequences"], body["top_k"]) == (["END"], 5) and "seed" not in body


@pytest.mark.parametrize(
    ("options", "entry", "line"),
    [
        ({"unsupported": ["max_tokens"]}, {}, "parameters: {max_tokens: max_completion_tokens}"),
        ({"unsupported": ["seed"]}, {}, "parameters: {seed: null}"),
        ({"only_default": ["temperature"]}, {}, "parameters: {temperature: null}"),
        ({"unsupported": ["temperature"]}, {"kind": "anthropic"}, "parameters: {temperature: null}"),
    ],
)
def test_a_parameter_that_is_not_taken_costs_one_request_and_the_error_has_the_line_to_write(
    stub: StubProvider, options: dict[str, Any], entry: dict[str, Any], line: str
) -> None:
    for name, value in options.items():
        setattr(stub.options, name, value)
    kwargs = {"sampling": {"temperature": 0.7}, **entry}
    said = only(ask(stub, 20, **kwargs), UserError)
    assert f"write `{line}` in the entry of this engine" in said
    assert len(stub.entries) == 1


def test_a_wrong_key_ends_the_load_at_once_and_is_named_nowhere(
    stub: StubProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_KEY", "sk-some-other-secret")
    started = time.monotonic()
    said = only(ask(stub, 20), UserError)
    assert time.monotonic() - started < 2 and len(stub.entries) == 1
    assert "`STUB_KEY`" in said and "sk-some-other-secret" not in said
    monkeypatch.delenv("STUB_KEY")
    with pytest.raises(UserError, match="STUB_KEY is not set"):
        ask(stub)


@pytest.mark.parametrize("form", ["OpenRouter 402", "403 region", "404 model", "429 quota", "HTML"])
def test_what_all_requests_would_get_costs_one(stub: StubProvider, form: str) -> None:
    stub.options.always = form
    only(ask(stub, 20), UserError)
    assert len(stub.entries) == 1


def test_a_block_is_stored_and_not_asked_again(stub: StubProvider) -> None:
    stub.options.always = "OpenRouter 403 moderation"
    found = ask(stub, 5)
    assert len(stub.entries) == 5
    assert {one["blocked"]["by"] for one in found} == {"gateway"}


@pytest.mark.parametrize("fault", ["500", "503", "529", "reset before", "reset after", "reset within", "cut"])
def test_what_may_pass_is_asked_again(stub: StubProvider, fault: str) -> None:
    stub.options.script = [fault]
    (response,) = ask(stub)
    assert response["finish_reason"] == "stop" and len(stub.entries) == 2


def test_a_busy_server_is_left_alone_as_long_as_it_asks_and_nothing_is_dropped(stub: StubProvider) -> None:
    stub.options.rate = 10
    found = ask(stub, 30, in_flight=30)
    assert all(one["finish_reason"] == "stop" for one in found)


def test_a_server_that_wants_to_be_left_alone_for_a_day_ends_the_load(stub: StubProvider) -> None:
    stub.options.retry_after = "86400"
    stub.options.always = "429"
    started = time.monotonic()
    said = only(ask(stub, 5), UserError)
    assert "wants to be left alone for 86400 s" in said and time.monotonic() - started < 5


def test_what_was_paid_is_stored_before_a_load_ends(stub: StubProvider) -> None:
    stub.options.latency = 0.3
    stub.options.script = ["complete", *["complete"] * 9, "429 quota"]
    found = ask(stub, 30, in_flight=20)
    paid = sum(entry["status"] == 200 for entry in stub.entries)
    assert sum(isinstance(one, dict) for one in found) == paid > 1


@pytest.mark.parametrize("fault", ["headers", "endless", "slow"])
def test_a_reply_that_never_ends_fails_its_request(
    stub: StubProvider, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refusal_eval.features.hosted.client.TRIES", 2)
    stub.options.always = fault
    stub.options.slow_seconds = 10
    found = ask(stub, timeout=0.5)
    assert only(found, ConnectionError)


def test_replies_of_other_types_are_no_answers(stub: StubProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refusal_eval.features.hosted.client.TRIES", 1)
    stub.options.faults = {"types": 1.0}
    for kind in ("openai", "anthropic"):
        found = ask(stub, 40, kind=kind)
        assert all(isinstance(one, ConnectionError | UserError) or one["finish_reason"] == "failed" for one in found)


def test_another_model_ends_the_load_unless_the_entry_knows_its_name(stub: StubProvider) -> None:
    stub.options.answers_as = "other-2026"
    assert "`other-2026` answered" in only(ask(stub, 5), UserError) and len(stub.entries) == 1
    assert ask(stub, known_as=["other"])[0]["finish_reason"] == "stop"
    stub.options.answers_as = "m-2026-11-01"
    assert ask(stub)[0]["model_version"] == "m-2026-11-01"


def test_another_model_in_the_midst_is_no_answer(stub: StubProvider) -> None:
    stub.options.script = ["complete", {"body": {**BODY, "model": "other"}}]
    found = ask(stub, 2, in_flight=1)
    assert [one["finish_reason"] for one in found] == ["stop", "failed"]
    assert "`other` answered" in found[1]["reason"] and found[1]["usage"]["output"] == 5


BODY = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Sure."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 5},
}


def test_log_probabilities_are_of_the_tokens_of_the_text_or_the_load_ends(stub: StubProvider) -> None:
    assert "text_logprobs" not in ask(stub)[0]
    assert ask(stub, logprobs=True)[0]["text_logprobs"]
    stub.options.log_probabilities = False
    assert "`logprobs: false`" in only(ask(stub, 9, logprobs=True), UserError)
    assert len(stub.entries) == 3


# ---------------------------------------------------------------- money


def spending(tmp_path: Path) -> Any:
    return read_spending(journal_path(tmp_path, "mine"))


def test_money_is_what_the_provider_bills_and_never_more_than_the_budget(stub: StubProvider, tmp_path: Path) -> None:
    study = {"study": "mine", "store_dir": str(tmp_path), "budget": 0.02}
    stub.options.latency = 0.01
    found = ask(stub, 200, price=PRICE, study=study)
    answered = [one for one in found if isinstance(one, dict)]
    errors = [one for one in found if isinstance(one, UserError)]
    assert 0 < len(answered) < 200 and len(answered) + len(errors) == 200
    assert "the study's `budget` leaves no room" in str(errors[0])
    billed = (2 * Decimal(stub.billed["input"]) + 10 * Decimal(stub.billed["output"])) / 1_000_000
    said = spending(tmp_path)
    assert said.total == billed <= Decimal("0.02") and len(stub.entries) == len(answered)
    # A larger budget goes on.
    more = ask(stub, 5, price=PRICE, study=study | {"budget": 0.1})
    assert all(isinstance(one, dict) for one in more)


def test_what_nobody_says_was_billed_stays_reserved(stub: StubProvider, tmp_path: Path) -> None:
    study = {"study": "mine", "store_dir": str(tmp_path), "budget": None}
    stub.options.script = ["reset after", "529", "complete"]
    ask(stub, price=PRICE, study=study)
    said = spending(tmp_path)
    assert sum(said.reserved.values()) > 0  # of the first
    lines = [json.loads(line) for line in journal_path(tmp_path, "mine").read_text().splitlines()]
    assert [line["what"] for line in lines].count("reserved") == 3


def test_a_blocked_prompt_costs_no_answer(stub: StubProvider, tmp_path: Path) -> None:
    study = {"study": "mine", "store_dir": str(tmp_path), "budget": 1}
    stub.options.always = "400 invalid_prompt"
    ask(stub, price=PRICE | {"input": 0}, study=study, sampling={"max_tokens": 4096})
    assert spending(tmp_path).total == 0  # of the prompt alone, which is free here
    stub.options.always = "400 content filtering"  # of the answer, whose bill nobody says
    ask(stub, kind="anthropic", price=PRICE, study=study, sampling={"max_tokens": 4096})
    assert spending(tmp_path).total > Decimal("0.04")


def test_a_line_that_was_cut_off_counts_for_nothing_and_the_next_begins_anew(
    stub: StubProvider, tmp_path: Path
) -> None:
    study = {"study": "mine", "store_dir": str(tmp_path), "budget": None}
    ask(stub, price=PRICE, study=study)
    path = journal_path(tmp_path, "mine")
    spent = spending(tmp_path).total
    with open(path, "a") as handle:
        handle.write('{"what": "reserved", "id": "7", "amo')
    assert spending(tmp_path).total == spent
    ask(stub, price=PRICE, study=study)
    assert spending(tmp_path).total > spent and len(path.read_text().splitlines()) == 5


def test_nothing_is_reserved_for_what_was_never_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_KEY", KEY)
    monkeypatch.setattr("refusal_eval.features.hosted.client.TRIES", 1)
    study = {"study": "mine", "store_dir": str(tmp_path), "budget": 1}
    nobody = type("Nobody", (), {"address": "http://127.0.0.1:9/v1"})()
    only(ask(nobody, 3, price=PRICE, study=study), UserError)
    assert spending(tmp_path).total == 0


def test_two_loads_of_a_study_spend_its_money_one_after_the_other(stub: StubProvider, tmp_path: Path) -> None:
    study = {"study": "mine", "store_dir": str(tmp_path), "budget": 1}
    path = journal_path(tmp_path, "mine")
    with Journal(path, Decimal(1), "m", "USD"), pytest.raises(BlockingIOError):
        Journal(path, Decimal(1), "m", "USD").__enter__()
    assert ask(stub, price=PRICE, study=study)


def test_a_study_has_one_currency(stub: StubProvider, tmp_path: Path) -> None:
    study = {"study": "mine", "store_dir": str(tmp_path), "budget": 1}
    ask(stub, price=PRICE, study=study)
    with pytest.raises(UserError, match="counts USD, and the price of engine `m` is in EUR"):
        ask(stub, price=PRICE | {"currency": "EUR"}, study=study)


# ---------------------------------------------------------------- entries


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"address": "https://user:pw@host/v1"}, "holds a name or a password"),
        ({"address": "https://host/v1?api_key=x"}, "holds `api_key`, a secret"),
        ({"address": "http://host/v1"}, "by which the key would travel openly"),
        ({"extra": {"models": ["m", "other"]}}, "another model would answer where this one declines"),
        ({"extra": {"provider": {"api_key": "x"}}}, "`extra` has `api_key`, a secret"),
        ({"extra": {"max_completion_tokens": 9}}, "it is sent already"),
        ({"extra": {"n": 4}}, "draws its `samples` one by one"),
        ({"extra": {"temperature": 1}}, "it is sent already"),
        ({"parameters": {"max_token": "x"}}, "`parameters` has `max_token`"),
        ({"kind": "anthropic", "parameters": {"max_tokens": None}}, "this API needs `max_tokens`"),
    ],
)
def test_what_an_entry_may_not_say(entry: dict[str, Any], message: str) -> None:
    about = {"kind": "openai", "address": "https://host/v1", "served": "m", "as_of": "2026-11-01", "key_variable": "K"}
    with pytest.raises(ValueError, match=message):
        ENGINES.entry(about | entry)


def test_the_identity_has_neither_query_nor_credentials() -> None:
    entry = {"kind": "openai", "address": "https://host/v1/?api-version=1", "served": "m", "as_of": "2026-11-01"}
    engine = ENGINES.entry(entry)
    assert engine.identity(None) == {
        "kind": "openai",
        "address": "https://host/v1",
        "served": "m",
        "as_of": "2026-11-01",
        "parameters": {},
        "extra": {},
    }
    assert engine.url == "https://host/v1/chat/completions?api-version=1"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_redirect_is_not_followed_with_the_key(stub: StubProvider, kind: str) -> None:
    with StubProvider(key=None) as elsewhere:
        stub.options.always, stub.options.redirect_to = "redirect", f"{elsewhere.address}/chat/completions"
        said = only(ask(stub, 5, kind=kind), UserError)
        assert "mend `address`" in said and len(stub.entries) == 1
        assert elsewhere.received == 0


def test_a_server_that_repeats_the_key_has_it_hidden_in_answers_too(stub: StubProvider) -> None:
    message = {"role": "assistant", "content": f"You sent {KEY}."}
    told = {"body": {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}}
    stub.options.script = [told]
    (response,) = ask(stub)
    assert response["text"] == "You sent ***." and KEY not in json.dumps(response)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_slow_bodies_and_odd_ones_are_read_to_their_end_or_asked_again(stub: StubProvider, kind: str) -> None:
    stub.options.script, stub.options.slow_seconds = ["complete", "slow", "headers", "bytes", "cut"], 0.01
    found = ask(stub, 12, kind=kind, in_flight=6)
    assert [one["finish_reason"] for one in found if isinstance(one, dict)].count("stop") >= 11
    assert all(isinstance(one, dict) for one in found)  # nothing is dropped


def test_a_server_that_nobody_reaches_ends_the_load_after_the_tries_of_one_request(
    stub: StubProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TRIES", 2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    started = time.monotonic()
    said = only(ask(stub, 20, address=closed), UserError)
    assert "is the server up, and `address` right?" in said and time.monotonic() - started < 4


def test_a_first_request_that_the_server_cannot_answer_is_left_out_and_the_others_are_asked(
    stub: StubProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TRIES", 2)
    stub.options.script = ["500", "500"]
    found = ask(stub, 20)
    assert isinstance(found[0], ConnectionError) and all(isinstance(one, dict) for one in found[1:])
