"""Executing requests: everything once, in order, stored at once; what fails is reported and never stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from store_files import response as stored_response

from refusal_eval.ask.pending import Pending
from refusal_eval.ask.requests import Request, RequestSettings
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.packing import pack_floats
from refusal_eval.core.time_limit import TimeLimit
from refusal_eval.engines import execution as module
from refusal_eval.engines.engine_base import EngineDied, Rejected, RunningEngine
from refusal_eval.engines.execution import Execution, Outcome

MISSING = object()  # in place of a field
SETTINGS = RequestSettings(sampling={"max_tokens": 4})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_CHECKS", 0.05)


def request(number: int) -> Request:
    return Request(f"p{number}", 0, 0, sha256_of(number), number, [number])


def item(number: int, cell: str = "model/split") -> Pending:
    return Pending(request(number), SETTINGS, cell)


class ScriptedEngine(RunningEngine):
    """Answers by the first token id; some ids misbehave, by an error or by odd fields of their responses."""

    def __init__(
        self, misbehaves: Mapping[int, Exception | dict[str, Any]] | None = None, seconds: float = 0.0
    ) -> None:
        self.misbehaves, self.seconds = misbehaves or {}, seconds
        self.asked: list[tuple[int, int | None]] = []
        self.at_once = self.most = 0
        self.dead = self.unwell = False

    async def complete(self, token_ids: list[int], settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        self.asked.append((token_ids[0], seed))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        odd = self.misbehaves.get(token_ids[0], {})
        if isinstance(odd, Exception):
            raise odd
        reply = stored_response(f"answer {token_ids[0]}") | odd
        return {field: value for field, value in reply.items() if value is not MISSING}

    def serving_record(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        if self.dead:
            raise EngineDied("exit code 9")

    async def check_health(self) -> None:
        if self.unwell:
            raise EngineDied("not well")

    async def metrics(self) -> dict[str, float]:
        return {"generated_tokens": 0.0, "prefix_cache_queries": 10.0, "prefix_cache_hits": 4.0}


def run(
    folder: Path,
    pending: int | list[Pending],
    engine: ScriptedEngine,
    in_flight: int = 3,
    meanwhile: Callable[[asyncio.Task[Outcome]], Awaitable[None]] | None = None,
    seconds: float = 60.0,
    **how: Any,
) -> Outcome:
    """Execute requests, and do something `meanwhile`; fail where the load has not ended after some seconds."""
    items = [item(number) for number in range(pending)] if isinstance(pending, int) else pending

    async def work() -> Outcome:
        with StoreWriter(folder, "engine", "job") as writer:
            execution = Execution(engine, writer, StoreReader(folder, "engine"), "s1", in_flight, **how)
            task = asyncio.create_task(execution.run(items))
            if meanwhile is not None:
                await meanwhile(task)
            await asyncio.wait({task}, timeout=seconds)
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=seconds)
                pytest.fail(f"the load has not ended after {seconds} s")
            return task.result()

    return asyncio.run(work())


def stored(folder: Path, count: int) -> set[int]:
    found = StoreReader(folder, "engine").lookup(sha256_of(number) for number in range(count))
    return {number for number in range(count) if sha256_of(number) in found}


@pytest.mark.parametrize("seeded", [True, False])
def test_every_request_is_executed_once_in_order_and_stored(tmp_path: Path, seeded: bool) -> None:
    engine = ScriptedEngine()
    assert run(tmp_path, 20, engine, seeded=seeded).executed == 20
    assert engine.asked == [(number, number if seeded else None) for number in range(20)]
    assert stored(tmp_path, 20) == set(range(20))


def test_all_that_may_be_in_flight_is_and_a_long_request_holds_up_no_other(tmp_path: Path) -> None:
    class Uneven(ScriptedEngine):
        """Does not end the first request before all others are answered."""

        async def complete(self, token_ids: list[int], *rest: Any) -> dict[str, Any]:
            if token_ids[0] == 0:
                self.others = asyncio.Event()
                self.at_once += 1
                await asyncio.wait_for(self.others.wait(), 30)
                self.at_once -= 1
            self.seconds = 0.001
            response = await super().complete(token_ids, *rest)
            if len(self.asked) == 99:
                self.others.set()
            return response

    engine = Uneven()
    assert run(tmp_path, 100, engine, in_flight=5).executed == 100
    assert engine.most == 5


def test_nothing_drains_between_cells(tmp_path: Path) -> None:
    class Waiting(ScriptedEngine):
        """Answers nothing before six requests are there."""

        async def complete(self, token_ids: list[int], *rest: Any) -> dict[str, Any]:
            self.there = getattr(self, "there", None) or asyncio.Event()
            if self.at_once == 5:
                self.there.set()
            self.at_once += 1
            await asyncio.wait_for(self.there.wait(), 30)
            self.at_once -= 1
            return await super().complete(token_ids, *rest)

    items = [item(number, f"model/split{number // 2}") for number in range(6)]
    assert run(tmp_path, items, Waiting(), in_flight=6).executed == 6


REFUSED = {"key": sha256_of(4), "status": 400, "message": "no such thing"}


@pytest.mark.parametrize(
    ("fault", "rejected", "failed"),
    [
        (Rejected(400, "no such thing"), [REFUSED], []),
        (ConnectionError("no answer"), [], [sha256_of(4)]),
        (ValueError("no log-probability"), [], [sha256_of(4)]),
    ],
)
def test_a_rejected_or_failed_request_is_reported_and_never_stored_and_the_others_go_on(
    fault: Exception, rejected: list[Any], failed: list[str], tmp_path: Path
) -> None:
    outcome = run(tmp_path, 10, ScriptedEngine({4: fault}))
    assert (outcome.executed, outcome.rejected, outcome.failed) == (9, rejected, failed)
    assert stored(tmp_path, 10) == set(range(10)) - {4}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("text", None, "text: Input should be a valid string"),
        ("logprobs", None, "there is not one log-probability for each token"),
        ("logprobs", pack_floats([-1.0]), "there is not one log-probability for each token"),
        ("stop_reason", MISSING, "stop_reason: Field required"),
        ("finish_reason", None, "finish_reason: Input should be a valid string"),
        ("finish_reason", "max_tokens", "the finish_reason 'max_tokens', not one of stop, length, content_filter"),
        ("weight", float("nan"), "Out of range float values are not JSON compliant"),
        ("weight", {1, 2}, "Object of type set is not JSON serializable"),
    ],
)
def test_a_response_that_the_store_could_not_give_back_is_named_and_not_stored(
    field: str, value: Any, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = run(tmp_path, 10, ScriptedEngine({4: {field: value}}))
    assert (outcome.executed, outcome.failed) == (9, [sha256_of(4)])
    assert stored(tmp_path, 10) == set(range(10)) - {4}
    assert "a request of model/split failed: the engine's response" in caplog.text and message in caplog.text
    assert "answer 4" not in caplog.text


def test_half_a_pair_of_surrogates_is_stored_as_a_replacement_character_and_so_is_what_follows(tmp_path: Path) -> None:
    seen = list[Any]()
    engine = ScriptedEngine({4: {"text": "cut \ud83d"}})
    outcome = run(tmp_path, 10, engine, look=lambda cell, asked, given: seen.append(given))
    assert outcome.executed == 10
    assert seen[4] == StoreReader(tmp_path, "engine").lookup([sha256_of(4)])[sha256_of(4)]["response"]
    assert seen[4]["text"] == "cut \ufffd"


def test_too_many_failures_end_the_work_and_keep_what_succeeded(tmp_path: Path) -> None:
    faults: dict[int, Exception] = {n: Rejected(400, "bad argument") for n in range(4, 100)}
    engine = ScriptedEngine(faults)
    with pytest.raises(UserError, match=r"3 requests failed, more than.*`failure_limit`.*bad argument.*4 responses"):
        run(tmp_path, 100, engine, in_flight=1, most_failures=2)
    assert len(engine.asked) == 7
    assert stored(tmp_path, 100) == {0, 1, 2, 3}


def test_the_engines_death_ends_the_work_at_once_and_keeps_what_came_before(tmp_path: Path) -> None:
    engine = ScriptedEngine({5: EngineDied("exit code 9")})
    with pytest.raises(EngineDied, match="exit code 9"):
        run(tmp_path, 100, engine)
    assert len(engine.asked) < 12
    assert stored(tmp_path, 100) >= set(range(3))


@pytest.mark.parametrize(("what", "reported"), [("dead", "exit code 9"), ("unwell", "not well")])
def test_an_engine_that_died_or_answers_no_more_is_noticed_although_no_request_comes_back(
    what: str, reported: str, tmp_path: Path
) -> None:
    engine = ScriptedEngine(seconds=60)
    setattr(engine, what, True)
    with pytest.raises(EngineDied, match=reported):
        run(tmp_path, 10, engine, seconds=10)


def test_a_full_disk_ends_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StoreWriter, "append", full)
    with pytest.raises(OSError, match="No space left"):
        run(tmp_path, 10, ScriptedEngine())


def test_before_the_time_limit_no_more_is_taken_and_what_is_in_flight_is_kept(tmp_path: Path) -> None:
    engine = ScriptedEngine(seconds=0.2)
    limit = TimeLimit(take=time.monotonic() + 0.5, stop=time.monotonic() + 30)
    outcome = run(tmp_path, 100, engine, in_flight=2, limit=limit)
    assert outcome.executed == len(engine.asked) == len(stored(tmp_path, 100))
    assert 2 <= outcome.executed <= 8
    assert outcome.left == 100 - outcome.executed


def test_at_the_time_limit_what_is_in_flight_is_given_up(tmp_path: Path) -> None:
    limit = TimeLimit(take=time.monotonic() + 60, stop=time.monotonic() + 0.1)
    outcome = run(tmp_path, 10, ScriptedEngine(seconds=60), in_flight=2, limit=limit, seconds=10)
    assert (outcome.executed, outcome.left) == (0, 10)


def test_what_another_run_answers_meanwhile_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKS_BETWEEN_REFRESHES", 1)
    engine = ScriptedEngine(seconds=0.2)

    async def other_run(_: object) -> None:
        await asyncio.sleep(0.1)
        with StoreWriter(tmp_path, "engine", "other") as writer:
            for number in range(5, 20):
                writer.append(sha256_of(number), stored_response("theirs"), "s2")

    outcome = run(tmp_path, 20, engine, in_flight=1, meanwhile=other_run)
    assert outcome.executed + outcome.elsewhere == 20
    assert outcome.elsewhere >= 15 and len(engine.asked) <= 5
    assert stored(tmp_path, 20) == set(range(20))


class CountingTurns:
    """A dialogue of `turns` turns; the token id of a turn tells dialogue and turn."""

    def __init__(self, turns: int, shared: bool = False) -> None:
        self.turns, self.shared = turns, shared

    def next_request(self, asked: list[tuple[Request, Any]]) -> Request | None:
        first, turn = asked[0][0], len(asked)
        assert asked[-1][1]["text"].startswith(("answer", "stored"))
        if turn == self.turns:
            return None
        number = 1000 + turn if self.shared else 100 * (1 + first.token_ids[0]) + turn
        return Request(first.prompt_id, 0, turn, sha256_of(number), number, [number])


def dialogues(count: int, turns: Any) -> list[Pending]:
    return [Pending(request(number), SETTINGS, "m/s", turns, [], turns.turns) for number in range(count)]


def test_the_turns_of_a_dialogue_are_asked_one_after_the_other(tmp_path: Path) -> None:
    turns: Any = CountingTurns(3)
    engine = ScriptedEngine()
    assert run(tmp_path, dialogues(4, turns), engine).executed == 12
    asked = [number for number, _ in engine.asked]
    for dialogue in range(4):
        order = [asked.index(number) for number in (dialogue, 100 * (1 + dialogue) + 1, 100 * (1 + dialogue) + 2)]
        assert order == sorted(order)


def test_a_dialogue_goes_on_where_the_store_knows_a_later_turn(tmp_path: Path) -> None:
    with StoreWriter(tmp_path, "engine", "before") as writer:
        writer.append(sha256_of(101), stored_response("stored"), "s0")
    engine, turns = ScriptedEngine(), CountingTurns(3)
    outcome = run(tmp_path, dialogues(1, turns), engine)
    assert [number for number, _ in engine.asked] == [0, 102]
    assert (outcome.executed, outcome.elsewhere) == (2, 1)


def test_a_turn_that_two_dialogues_come_to_ask_is_executed_once(tmp_path: Path) -> None:
    engine, turns = ScriptedEngine(seconds=0.01), CountingTurns(2, shared=True)
    outcome = run(tmp_path, dialogues(3, turns), engine)
    assert sorted(number for number, _ in engine.asked) == [0, 1, 2, 1001]
    assert outcome.executed + outcome.elsewhere == 6


def test_a_turn_and_a_prompt_that_ask_the_same_at_one_time_are_both_answered(tmp_path: Path) -> None:
    engine, turns = ScriptedEngine(seconds=0.02), CountingTurns(2, shared=True)
    outcome = run(tmp_path, [*dialogues(1, turns), item(5), item(1001)], engine, in_flight=2)
    assert sorted(number for number, _ in engine.asked) == [0, 5, 1001, 1001]
    assert outcome.executed == 4


def test_a_rejected_turn_ends_its_dialogue_only(tmp_path: Path) -> None:
    engine, turns = ScriptedEngine({101: Rejected(400, "no")}), CountingTurns(3)
    outcome = run(tmp_path, dialogues(2, turns), engine)
    assert sorted(number for number, _ in engine.asked) == [0, 1, 101, 201, 202]
    assert (outcome.executed, len(outcome.rejected), outcome.left) == (4, 1, 0)


def ask_often(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the watch ask nothing but this, and that all the time."""
    monkeypatch.setattr(module, "SECONDS_BETWEEN_CHECKS", 0.001)
    monkeypatch.setattr(module, "CHECKS_BETWEEN_COUNTERS", 1 if question == "metrics" else 10**9)
    monkeypatch.setattr(module, "CHECKS_BETWEEN_HEALTH", 1 if question == "check_health" else 10**9)


async def turns_of_the_loop(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("question", ["metrics", "check_health"])
def test_a_load_ends_though_the_engine_tells_in_the_very_moment_of_its_last_answer(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11's `asyncio.wait_for` forgets a cancellation that comes together with a result."""

    class Together(ScriptedEngine):
        """Answers when it is asked how it is, and tells that some turns of the event loop earlier or later."""

        asked_how = asyncio.Event()

        async def complete(self, *asked: Any) -> dict[str, Any]:
            await self.asked_how.wait()
            await turns_of_the_loop(6)
            return await super().complete(*asked)

        async def metrics(self) -> dict[str, float]:
            self.asked_how.set()
            await turns_of_the_loop(turns)
            return await super().metrics()

        async def check_health(self) -> None:
            await self.metrics()

    ask_often(question, monkeypatch)
    for turns in range(16):
        Together.asked_how = asyncio.Event()
        assert run(tmp_path / str(turns), 1, Together(), seconds=3).executed == 1


async def hanging() -> None:
    await asyncio.sleep(3600)


async def deaf() -> None:
    """Do as a library that keeps the first cancellation to itself, and tries again."""
    try:
        await hanging()
    except asyncio.CancelledError:
        await hanging()


async def failing() -> None:
    raise ConnectionError("no counters")


# A health request that fails is left out: it is how an engine says that it is dead.
@pytest.mark.parametrize(
    ("odd", "question"),
    [(hanging, "metrics"), (hanging, "check_health"), (deaf, "metrics"), (deaf, "check_health"), (failing, "metrics")],
)
def test_answered_requests_end_a_load_whatever_becomes_of_counters_and_health(
    odd: Callable[[], Awaitable[None]], question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_often(question, monkeypatch)
    engine = ScriptedEngine(seconds=0.1)
    monkeypatch.setattr(engine, question, odd)
    started = time.monotonic()
    assert run(tmp_path, 5, engine, seconds=10).executed == 5
    assert time.monotonic() - started < 5
    assert stored(tmp_path, 5) == set(range(5))


@pytest.mark.parametrize("question", ["metrics", "check_health"])
def test_counters_and_health_that_hang_do_not_keep_the_time_limit_from_being_seen(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_often(question, monkeypatch)
    monkeypatch.setattr(module, "HEALTH_SECONDS", 0.05)
    monkeypatch.setattr(module, "COUNTERS_SECONDS", 0.05)
    engine = ScriptedEngine(seconds=60)
    monkeypatch.setattr(engine, question, hanging)
    limit = TimeLimit(take=time.monotonic() + 60, stop=time.monotonic() + 0.5)
    assert run(tmp_path, 10, engine, in_flight=2, limit=limit, seconds=5).left == 10


def swallowing(answers: bool) -> ScriptedEngine:
    """Return an engine whose library keeps cancellations to itself: to answer all the same, or to fail otherwise."""

    class Swallowing(ScriptedEngine):
        async def complete(self, token_ids: list[int], *rest: Any) -> dict[str, Any]:
            self.asked.append((token_ids[0], None))
            try:
                await asyncio.sleep(2)
            except asyncio.CancelledError:
                if not answers:
                    raise ConnectionError("cut off") from None
            return stored_response("late")

    return Swallowing()


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("dead", [True, False])
def test_a_worker_whose_cancellation_is_lost_asks_no_more(answers: bool, dead: bool, tmp_path: Path) -> None:
    """At the time limit, and of a dead engine."""
    engine = swallowing(answers)
    engine.dead = dead
    if dead:
        with pytest.raises(EngineDied, match="exit code 9"):
            run(tmp_path, 10, engine, in_flight=2, seconds=5)
    else:
        limit = TimeLimit(take=time.monotonic() + 60, stop=time.monotonic() + 0.1)
        outcome = run(tmp_path, 10, engine, in_flight=2, limit=limit, seconds=5)
        assert outcome.executed == (2 if answers else 0)
    assert len(engine.asked) == 2


def test_a_worker_whose_cancellation_is_lost_takes_no_further_request_of_a_job_that_is_stopped(tmp_path: Path) -> None:
    async def stop(task: asyncio.Task[Outcome]) -> None:
        await asyncio.sleep(0.1)
        task.cancel()

    engine = swallowing(answers=True)
    with pytest.raises(asyncio.CancelledError):
        run(tmp_path, 10, engine, in_flight=2, meanwhile=stop, seconds=5)
    assert len(engine.asked) == 2
