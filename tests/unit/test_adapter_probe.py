"""Before a load with LoRA adapters stores anything: each adapter is applied, and changes no one else."""

import asyncio
from typing import Any

import pytest

from refusal_eval.ask.pending import Pending
from refusal_eval.ask.requests import Request, RequestSettings
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import pack_floats
from refusal_eval.core.time_limit import TimeLimit
from refusal_eval.engines import watched
from refusal_eval.engines.engine_base import EngineDied, Rejected, RunningEngine
from refusal_eval.features.lora.adapter_probe import probe_adapters

LORA = {"lora": {"sha256": "a" * 64}}
PLAIN = (-0.5, -1.0)
TUNED = (-0.25, -2.0)


class Engine(RunningEngine):
    """Answers with the weights that `weights` says, for (adapter, whether it was asked together with others)."""

    def __init__(self, weights: Any) -> None:
        self.weights, self.at_once, self.asked = weights, 0, list[RequestSettings]()

    async def complete(self, token_ids: Any, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        self.asked.append(settings)
        self.at_once += 1
        await asyncio.sleep(0.2 if settings.sampling["max_tokens"] > 8 else 0)
        logprobs = self.weights(settings.served_as is not None, self.at_once > 1, len(token_ids))
        await asyncio.sleep(0)
        self.at_once -= 1
        return {"token_ids": [1, 2], "logprobs": pack_floats(list(logprobs))}

    def serving_record(self) -> dict[str, Any]:
        return {}

    async def __aenter__(self) -> "Engine":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def asked(changes: dict[str, Any], tokens: int = 3) -> Pending:
    settings = RequestSettings(sampling={"max_tokens": 300, "temperature": 1.0}, changes=changes)
    cell = "tuned/split" if changes else "plain/split"
    return Pending(Request(f"p{tokens}", 0, 0, "k", 7, own_ids=tuple(range(tokens))), settings, cell)


BOTH = [asked({}, 1), *(asked(LORA, tokens) for tokens in (1, 2, 3))]


def probe(weights: Any, pending: list[Pending] = BOTH) -> tuple[dict[str, Any], Engine]:
    engine = Engine(weights)
    return asyncio.run(probe_adapters(engine, pending)), engine


def test_an_adapter_that_is_applied_is_in_the_receipt() -> None:
    found, engine = probe(lambda adapted, beside, tokens: TUNED if adapted else PLAIN)
    assert found == {"adapters": {"tuned": {"difference": 1.0}}, "plain_beside_adapters": {"difference": 0.0}}
    assert {(one.sampling["temperature"], one.sampling["max_tokens"]) for one in engine.asked} == {(0.0, 8), (0.0, 64)}


def test_a_load_without_adapters_is_asked_nothing() -> None:
    found, engine = probe(lambda *_: PLAIN, [asked({})])
    assert found == {} and engine.asked == []


def test_an_adapter_that_changes_nothing_stops_the_load() -> None:
    with pytest.raises(UserError, match="adapter of `tuned` is loaded and changes nothing: 3 greedy answers"):
        probe(lambda *_: PLAIN)


def test_one_certain_answer_does_not_stop_it() -> None:
    found, _ = probe(lambda adapted, beside, tokens: TUNED if adapted and tokens > 2 else (0.0, 0.0))
    assert found["adapters"]["tuned"]["difference"] == 2.0


def test_a_plain_model_that_gets_the_weights_of_another_stops_the_load() -> None:
    with pytest.raises(UserError, match=r"without an adapter answers otherwise.*`batch: model`"):
        probe(lambda adapted, beside, tokens: TUNED if adapted or beside else PLAIN)


def test_rounding_does_not() -> None:
    found, _ = probe(lambda adapted, beside, tokens: TUNED if adapted else (-0.5 - 0.01 * beside, -1.0))
    assert 0 < found["plain_beside_adapters"]["difference"] < 0.02


@pytest.mark.parametrize("error", [Rejected(400, "Out of range float values are not JSON compliant"), None])
def test_an_adapter_that_computes_no_numbers_is_named(error: Rejected | None) -> None:
    def weights(adapted: bool, beside: bool, tokens: int) -> tuple[float, ...]:
        if adapted and error:
            raise error
        return (float("nan"), -1.0) if adapted else PLAIN

    with pytest.raises(UserError, match=r"adapter of `tuned` computes values that are no numbers \(NaN\)"):
        probe(weights)


def test_prompts_that_cannot_be_asked_stop_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def weights(*_: object) -> tuple[float, ...]:
        raise Rejected(400, "too long")

    assert probe(weights)[0] == {}
    assert "not known" in caplog.text


class Hanging(Engine):
    """Answers nothing; its watch says so at the second look."""

    looks = 0

    async def complete(self, token_ids: Any, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def check_health(self) -> None:
        self.looks += 1
        if self.looks > 1:
            raise EngineDied("nothing has come of its 1 requests")


def test_an_engine_that_hangs_at_the_probe_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "SECONDS_BETWEEN_LOOKS", 0.01)
    with pytest.raises(EngineDied, match="nothing has come of its 1 requests"):
        asyncio.run(probe_adapters(Hanging(None), BOTH))


def test_the_time_limit_holds_at_the_probe_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "SECONDS_BETWEEN_LOOKS", 0.01)
    with pytest.raises(UserError, match="time limit is reached before the first request"):
        asyncio.run(probe_adapters(Hanging(None), BOTH, TimeLimit(take=0.0, stop=0.0)))
