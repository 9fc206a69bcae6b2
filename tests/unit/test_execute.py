"""Executing requests: everything once, in order, stored at once; what fails is told and never stored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from refusal_eval.engines.base import EngineDied, Rejected
from refusal_eval.execute import Outcome, Pending, execute, in_shard, pending_requests
from refusal_eval.files import sha256_of
from refusal_eval.packing import pack_floats
from refusal_eval.requests import Request
from refusal_eval.store import StoreReader, StoreWriter

SAMPLING = {"max_tokens": 4}


def item(number: int) -> Pending:
    request = Request(f"p{number}", 0, 0, sha256_of(number), number, [number])
    return Pending(request, SAMPLING)


class ScriptedEngine:
    """Answers by the first token id; some ids misbehave."""

    def __init__(self, misbehaves: dict[int, Exception]) -> None:
        self.misbehaves = misbehaves
        self.asked: list[tuple[int, int | None]] = []

    async def complete(self, token_ids: list[int], sampling: dict[str, Any], seed: int | None) -> dict[str, Any]:
        self.asked.append((token_ids[0], seed))
        await asyncio.sleep(0)
        if token_ids[0] in self.misbehaves:
            raise self.misbehaves[token_ids[0]]
        return {"text": f"answer {token_ids[0]}", "token_ids": [1], "logprobs": pack_floats([-1.0])}


def run(folder: Path, count: int, engine: ScriptedEngine, determinism: str = "seeded", in_flight: int = 3) -> Outcome:
    with StoreWriter(folder, "engine", "job") as writer:
        pending = [item(number) for number in range(count)]
        return asyncio.run(execute(pending, engine, writer, "s1", determinism, in_flight))  # type: ignore[arg-type]


def stored(folder: Path, count: int) -> set[int]:
    found = StoreReader(folder, "engine").lookup(sha256_of(number) for number in range(count))
    return {number for number in range(count) if sha256_of(number) in found}


def test_every_request_is_executed_once_in_order_and_stored(tmp_path: Path) -> None:
    engine = ScriptedEngine({})
    assert run(tmp_path, 20, engine).executed == 20
    assert engine.asked == [(number, number) for number in range(20)]
    assert stored(tmp_path, 20) == set(range(20))


def test_a_rejected_request_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    outcome = run(tmp_path, 10, ScriptedEngine({4: Rejected(400, "no such thing")}))
    assert outcome.executed == 9
    assert outcome.rejected == [{"key": sha256_of(4), "status": 400, "message": "no such thing"}]
    assert stored(tmp_path, 10) == set(range(10)) - {4}


@pytest.mark.parametrize("fault", [ConnectionError("no answer"), ValueError("no log-probability")])
def test_a_failed_request_is_never_stored(tmp_path: Path, fault: Exception) -> None:
    outcome = run(tmp_path, 10, ScriptedEngine({4: fault}))
    assert (outcome.executed, outcome.failed) == (9, [sha256_of(4)])
    assert stored(tmp_path, 10) == set(range(10)) - {4}


def test_the_engines_death_ends_the_work_at_once_and_keeps_what_came_before(tmp_path: Path) -> None:
    engine = ScriptedEngine({5: EngineDied("exit code 9")})
    with pytest.raises(EngineDied, match="exit code 9"):
        run(tmp_path, 100, engine)
    assert len(engine.asked) < 12
    assert stored(tmp_path, 100) >= set(range(3))


def test_a_full_disk_ends_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StoreWriter, "append", full)
    with pytest.raises(OSError, match="No space left"):
        run(tmp_path, 10, ScriptedEngine({}))


def test_strict_asks_one_at_a_time_and_free_sends_no_seeds(tmp_path: Path) -> None:
    class Counting(ScriptedEngine):
        at_once = most = 0

        async def complete(self, *arguments: Any) -> dict[str, Any]:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            try:
                return await super().complete(*arguments)
            finally:
                self.at_once -= 1

    strict, free = Counting({}), Counting({})
    run(tmp_path / "strict", 10, strict, "strict", 5)
    run(tmp_path / "free", 10, free, "free", 5)
    assert (strict.most, free.most) == (1, 5)
    assert {seed for _, seed in free.asked} == {None}


def test_equal_requests_of_two_cells_are_executed_once(tmp_path: Path) -> None:
    class File:
        header = {"sampling": SAMPLING}  # noqa: RUF012

        def requests(self) -> list[Request]:
            return [item(1).request, item(2).request]

    found = list(pending_requests([File(), File()], {sha256_of(1), sha256_of(2)}))  # type: ignore[list-item]
    assert [pending.request.prompt_id for pending in found] == ["p1", "p2"]


def test_shards_part_the_keys_without_overlap() -> None:
    keys = [sha256_of(number) for number in range(200)]
    owners = [[shard for shard in range(3) if in_shard(key, shard, 3)] for key in keys]
    assert all(len(owner) == 1 for owner in owners)
    assert {owner[0] for owner in owners} == {0, 1, 2}
