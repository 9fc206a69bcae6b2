"""Two runs that are asked the same requests at the same time share the work, without a lock and without waiting."""

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from store_files import response
from test_execute import ScriptedEngine, item

from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.files import sha256_of
from refusal_eval.engines import execution as module
from refusal_eval.engines.execution import Execution, Outcome

COUNT, IN_FLIGHT = 200, 4
RESPONSE = response("a")


def keys(numbers: range) -> list[str]:
    return [sha256_of(number) for number in numbers]


def asked(engine: ScriptedEngine) -> list[int]:
    return [number for number, _ in engine.asked]


async def run_of(folder: Path, job: str, engine: ScriptedEngine, numbers: range, after: float = 0.0) -> Outcome:
    """Execute requests that the store lacked at the beginning, `after` seconds later."""
    reader = StoreReader(folder, "engine")
    await asyncio.sleep(after)
    with StoreWriter(folder, "engine", job) as writer:
        writer.describe("s", {"job": job})
        return await Execution(engine, writer, reader, "s", IN_FLIGHT).run([item(number) for number in numbers])


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look into the store every 20 ms instead of every 10 s."""
    monkeypatch.setattr(module, "SECONDS_BETWEEN_CHECKS", 0.02)
    monkeypatch.setattr(module, "CHECKS_BETWEEN_REFRESHES", 1)


@pytest.mark.parametrize("after", [0.0, 0.1])
def test_two_runs_with_the_same_requests_share_them(tmp_path: Path, often: None, after: float) -> None:
    one, other = ScriptedEngine(seconds=0.02), ScriptedEngine(seconds=0.02)

    async def both() -> tuple[Outcome, Outcome]:
        first = run_of(tmp_path, "one", one, range(COUNT))
        second = run_of(tmp_path, "other", other, range(COUNT), 0.001 + after)
        outcomes = await asyncio.gather(first, second)
        return outcomes[0], outcomes[1]

    outcomes = asyncio.run(both())
    for outcome in outcomes:
        assert outcome.executed + outcome.elsewhere == COUNT
    # What both ask is what is on its way when they look, at the beginning and where they meet.
    by_one, by_other = asked(one), asked(other)
    assert len(by_one) + len(by_other) < 1.5 * COUNT, f"{len(by_one)} and {len(by_other)} requests were sent"
    assert min(len(by_one), len(by_other)) > COUNT / 5
    assert by_one[20] < by_one[-1] and by_other[20] > by_other[-1], "they come from two ends"
    assert StoreReader(tmp_path, "engine").missing(keys(range(COUNT))) == []


def test_runs_that_share_an_engine_and_no_request_keep_their_order(tmp_path: Path, often: None) -> None:
    one, other = ScriptedEngine(seconds=0.005), ScriptedEngine(seconds=0.005)

    async def both() -> None:
        first = asyncio.create_task(run_of(tmp_path, "one", one, range(60)))
        while len(asked(one)) < 2 * IN_FLIGHT:  # the first responses are in the store
            await asyncio.sleep(0.001)
        await asyncio.gather(first, run_of(tmp_path, "other", other, range(60, 120)))

    asyncio.run(both())
    assert asked(one) == list(range(60)) and asked(other) == list(range(60, 120))


def test_what_was_answered_while_the_engine_started_is_not_asked(tmp_path: Path) -> None:
    reader, engine = StoreReader(tmp_path, "engine"), ScriptedEngine()
    with StoreWriter(tmp_path, "engine", "before") as earlier:
        for key in keys(range(15)):
            earlier.append(key, RESPONSE, "s")
    with StoreWriter(tmp_path, "engine", "job") as writer:
        work = Execution(engine, writer, reader, "s", 100)
        outcome = asyncio.run(work.run([item(number) for number in range(20)]))
    assert asked(engine) == list(range(15, 20))
    assert (outcome.executed, outcome.elsewhere) == (5, 15)


def test_of_a_million_requests_only_those_in_other_runs_files_are_looked_for(
    tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop stands still meanwhile, and the engine waits for requests."""
    missing, looked_for = StoreReader.missing, list[int]()

    def counted(self: StoreReader, wanted: Iterable[str]) -> list[str]:
        looked_for.append(len(found := list(wanted)))
        return missing(self, found)

    reader, engine = StoreReader(tmp_path, "engine"), ScriptedEngine(seconds=0.02)
    with StoreWriter(tmp_path, "engine", "other") as other, StoreWriter(tmp_path, "engine", "job") as writer:

        async def work() -> Outcome:
            run = asyncio.create_task(
                Execution(engine, writer, reader, "s", 2).run([item(number) for number in range(60)])
            )
            await asyncio.sleep(0.2)  # it looks at its own file only
            assert sum(looked_for) == 0
            for key in keys(range(50, 70)):
                other.append(key, RESPONSE, "s")
            return await run

        monkeypatch.setattr(StoreReader, "missing", counted)
        outcome = asyncio.run(work())
    assert outcome.executed + outcome.elsewhere == 60 and outcome.elsewhere >= 8
    assert looked_for and max(looked_for) <= 10


@pytest.mark.parametrize("after", [0.2, 0.5])
def test_two_runs_find_each_other_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: float) -> None:
    """At ten times the speed: 60 requests of 1 s, and a check each second."""
    monkeypatch.setattr(module, "SECONDS_BETWEEN_CHECKS", 0.1)
    monkeypatch.setattr("test_other_runs.IN_FLIGHT", 1)
    one, other = ScriptedEngine(seconds=0.1), ScriptedEngine(seconds=0.1)

    async def both() -> None:
        first = run_of(tmp_path, "one", one, range(60))
        await asyncio.gather(first, run_of(tmp_path, "other", other, range(60), after))

    asyncio.run(both())
    twice = set(asked(one)) & set(asked(other))
    assert len(twice) <= 12, f"{len(twice)} of 60 requests were executed twice"
    assert asked(other)[0] == 59, "the later one begins at the other end"


def test_a_run_of_the_same_requests_that_goes_on_is_known_at_once(tmp_path: Path) -> None:
    """What it has answered this load no longer asks; that it is one of the same requests is known all the same."""
    engine = ScriptedEngine()
    with StoreWriter(tmp_path, "engine", "before") as earlier:
        earlier.append(sha256_of(0), RESPONSE, "s")
        with StoreWriter(tmp_path, "engine", "job") as writer:
            work = Execution(engine, writer, StoreReader(tmp_path, "engine"), "s", 2, keys=keys(range(20)))
            asyncio.run(work.run([item(number) for number in range(1, 20)]))
    assert asked(engine) == list(range(19, 0, -1))


@pytest.mark.parametrize("gone", ["closed", "killed", "old"])
def test_files_of_runs_that_have_ended_turn_no_order_round(tmp_path: Path, gone: str) -> None:
    engine, before = ScriptedEngine(), StoreWriter(tmp_path, "engine", "before")
    before.append(sha256_of(0), RESPONSE, "s")
    if gone == "closed":
        before.close()
    if gone == "killed":
        before.path.rename(str(before.path).replace(f"-{os.getpid()}.", "-999999999."))
    if gone == "old":
        os.utime(before.path, (time.time() - 3600,) * 2)
    with StoreWriter(tmp_path, "engine", "job") as writer:
        work = Execution(engine, writer, StoreReader(tmp_path, "engine"), "s", 2, keys=keys(range(20)))
        asyncio.run(work.run([item(number) for number in range(1, 20)]))
    assert asked(engine) == list(range(1, 20))


def test_a_file_of_another_run_that_cannot_be_read_ends_no_load(
    tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = ScriptedEngine(seconds=0.02)

    async def both() -> Outcome:
        first = asyncio.create_task(run_of(tmp_path, "one", engine, range(COUNT)))
        await asyncio.sleep(0.1)
        (tmp_path / "engine" / "0-other.jsonl").mkdir()  # no file, so that it cannot be read
        return await first

    assert asyncio.run(both()).executed == COUNT
    assert "0-other.jsonl, a file of the store, cannot be read" in caplog.text
