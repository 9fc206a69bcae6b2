"""An engine's server gets the devices that were leased for it, and holds them as long as any of it lives."""

import asyncio
import json
import os
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_entries import server as server_of
from store_files import response
from test_devices import Machine
from test_execute import item

from refusal_eval.ask.requests import RequestSettings
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.log_text import SERVER_LINES
from refusal_eval.core.memory import count_memory_kills
from refusal_eval.engines import execution
from refusal_eval.engines import server as module
from refusal_eval.engines.engine_base import EngineDied
from refusal_eval.engines.engine_client import Health
from refusal_eval.engines.execution import Execution
from refusal_eval.engines.server import LIMITS, Server, ServerWatch
from refusal_eval.engines.server_process import ServerProcess

ENTRY = {"max_model_len": 64, "tensor_parallel": 2, "memory_share": 0.5, "start_timeout": 20}
# Stands where the engine environment's Python does: it tells what it was given, and is healthy.
SERVER = """
import asyncio, json, os, sys
if sys.argv[1] == "-c":
    sys.exit(1)  # the question for versions
links = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if int(name) > 2
         and os.path.exists(f"/proc/self/fd/{name}")]
reported = {"devices": os.environ.get("CUDA_VISIBLE_DEVICES"), "files": links, "pid": os.getpid()}
reported["secret"] = os.environ.get("HF_TOKEN")
reported["programs"] = os.environ["PATH"].split(os.pathsep)[0]
open(TOLD, "w").write(json.dumps(reported))

async def serve(reader, writer):
    while (line := await reader.readline()).strip():
        pass
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
    await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_unix_server(serve, next(word[6:] for word in sys.argv if word.startswith("--uds=")))
    await server.serve_forever()

asyncio.run(main())
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path, monkeypatch)
    found.gpus(4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("REFUSAL_EVAL_LOCKS", found["REFUSAL_EVAL_LOCKS"])
    monkeypatch.setenv("HF_TOKEN", "hf_PLANTED")
    return found


def engine(folder: Path, server: str = SERVER, **entry: Any) -> Server:
    program = folder / "server.py"
    program.write_text(f"TOLD = {str(folder / 'reported')!r}\n{server}")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S {program} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return server_of(ENTRY | entry, str(folder / "model"), str(python), "cuda", "seeded", folder / "server.log", gpus=2)


def during(one: Server, look: Callable[[Server], Any]) -> Any:
    async def work() -> Any:
        async with one:
            return look(one)

    return asyncio.run(work())


def test_the_server_sees_the_leased_devices_and_inherits_their_locks(machine: Machine, tmp_path: Path) -> None:
    locks = Path(machine["REFUSAL_EVAL_LOCKS"])

    def look(_: Server) -> tuple[dict[str, Any], list[str]]:
        held = [path.read_text() for path in sorted(locks.iterdir()) if path.read_text().strip()]
        return json.loads((tmp_path / "reported").read_text()), held

    reported, held = during(engine(tmp_path), look)
    assert reported["devices"] == "GPU-0000,GPU-1000"
    # As long as the server lives they are taken; and whose processes they are, for those that inherit no file.
    assert sum(link.startswith(str(locks)) for link in reported["files"]) == 2
    assert any(str(reported["pid"]) in text for text in held)
    assert reported["secret"] is None
    assert reported["programs"] == str(tmp_path), "those of the engine environment come first"


def test_two_engines_get_different_devices(machine: Machine, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()

    async def work() -> list[str]:
        async with engine(folders[0]), engine(folders[1]):
            return [json.loads((folder / "reported").read_text())["devices"] for folder in folders]

    first, second = asyncio.run(work())
    assert not set(first.split(",")) & set(second.split(","))


def test_a_server_that_dies_later_is_reported_at_once_with_its_last_lines(machine: Machine, tmp_path: Path) -> None:
    def kill(one: Server) -> None:
        reported = json.loads((tmp_path / "reported").read_text())
        os.kill(reported["pid"], 9)
        while one.exit_code() is None:
            pass
        one.check()

    noisy = SERVER.replace(
        "async def main():", "print('CUDA error: device-side assert', flush=True)\nasync def main():"
    )
    with pytest.raises(EngineDied, match=r"exit code -9(.|\n)*device-side assert"):
        during(engine(tmp_path, noisy), kill)


@pytest.mark.parametrize("kills", [0, 1])
def test_the_cause_of_a_death_comes_before_the_noise_of_the_shutdown(
    machine: Machine, tmp_path: Path, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = count_memory_kills() + kills
    monkeypatch.setattr("refusal_eval.core.memory.count_memory_kills", lambda: killed)
    lines = [
        "(EngineCore pid=2) ERROR 11-22 01:00:26 [core.py:718] Traceback (most recent call last):",
        "(EngineCore pid=2) ERROR 11-22 01:00:26 [core.py:718] RuntimeError: CUDA error: device-side assert triggered",
        *["(APIServer pid=1) INFO 11-22 01:00:27 [launcher.py:100] Shutting down"] * 40,
    ]
    broken = f"import sys\nif sys.argv[1] != '-c':\n    print({chr(10).join(lines)!r})\nsys.exit(3)\n"
    with pytest.raises(UserError) as died:
        during(engine(tmp_path, broken), lambda _: None)
    first = str(died.value).splitlines()[0]
    lack = "The kernel killed a process here for lack of main memory: ask for more (`mem_mb` on a cluster)"
    dead = "the engine died while starting (exit code 3)" + (f". {lack}" if kills else "")
    assert first == (
        f"{dead}. Its cause: RuntimeError: CUDA error: device-side assert "
        f"triggered. Its last lines, from {tmp_path / 'server.log'}:"
    )
    assert SERVER_LINES.sub("", first) == dead
    assert str(died.value).endswith("Shutting down")


# Answers about its health, each time on a new connection, and nothing else.
HANGS = (
    SERVER.replace("readline()).strip():\n        pass", "readline()).strip():\n        await answers(line)")
    .replace("Content-Length", "Connection: close\\r\\nContent-Length")
    .replace(
        "async def serve",
        "async def answers(line):\n    await asyncio.sleep(600 if line.startswith(b'POST') else 0)\n\nasync def serve",
    )
)


@pytest.mark.feature("steering")
def test_a_steered_server_that_hangs_at_its_proof_is_not_waited_for_without_end(
    machine: Machine, tmp_path: Path
) -> None:
    from refusal_eval.features.steering.intervention_file import CompiledIntervention
    from refusal_eval.features.steering.loaded_intervention import LoadedIntervention

    one = engine(tmp_path, HANGS, stall_timeout=1)
    one._load = replace(
        one._load, changes=[LoadedIntervention([CompiledIntervention("m", "0" * 64, 1, "add", (2,), "file")])]
    )

    async def work() -> None:
        async with asyncio.timeout(60), one:
            pytest.fail("it was taken for proven")

    with pytest.raises(UserError, match="no token under the intervention of `m` in 1 s, which is what `stall_timeout`"):
        asyncio.run(work())
    one._start_deadline = time.monotonic() - 5
    assert one._least_limit("stall_timeout", 1) == ("the time limit", 0.0)


HALF_DEAD = SERVER.replace(
    "    await server.serve_forever()\n",
    "    while not os.path.exists(TOLD + '.stop'):\n        await asyncio.sleep(0.01)\n"
    "    server.close()\n    print('Waiting for connections to close', flush=True)\n    await asyncio.sleep(600)\n",
)


def test_a_server_that_lives_and_takes_no_connections_is_dead(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM after SIGTERM: the engine is gone, and the server waits for a response that nobody will ever give."""
    monkeypatch.setitem(LIMITS, Health.UNWELL, 0.3)

    async def work() -> None:
        async with engine(tmp_path, HALF_DEAD) as one:
            for _ in range(10):
                await one.check_health()
            (tmp_path / "reported.stop").touch()
            for _ in range(1000):
                one.check()  # its process lives
                await one.check_health()
                await asyncio.sleep(0.01)

    with pytest.raises(EngineDied, match=r"has not been well for(.|\n)*Waiting for connections to close"):
        asyncio.run(work())


def test_a_server_that_answers_and_does_nothing_is_dead(machine: Machine, tmp_path: Path) -> None:
    """vLLM whose device hangs: its front end is well, and no token comes."""
    counters = iter([{"generated_tokens": 5.0}] * 2 + [{"generated_tokens": 6.0}] * 1000)

    class Client:
        async def health(self) -> Health:
            return Health.WELL

        async def metrics(self) -> dict[str, float]:
            return next(counters)

        async def complete(self, *asked: object) -> dict[str, Any]:
            await asyncio.sleep(600)
            return {}

        async def close(self) -> None:
            pass

    async def work() -> None:
        one = server_of({**ENTRY, "stall_timeout": 1}, "folder", "python", "cpu", "seeded", tmp_path / "log")
        one._client, one._server, one.exit_code, one._last_words = Client(), object(), lambda: None, str
        await watched(one, 1.5)  # nothing was asked
        request = asyncio.create_task(one.complete([1], RequestSettings(), 1))
        try:
            await watched(one, 5)
        finally:
            request.cancel()

    async def watched(one: Server, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            await one.metrics()
            await one.check_health()
            await asyncio.sleep(0.05)

    with pytest.raises(EngineDied, match="nothing has come of its 1 requests"):
        asyncio.run(work())


def test_an_engine_whose_connections_do_not_close_is_stopped_all_the_same(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.2)

    async def work() -> ServerProcess:
        async with asyncio.timeout(30), engine(tmp_path) as one:
            assert one._client and one._server
            monkeypatch.setattr(one._client, "close", lambda close=one._client.close: hang_after(close))
            return one._server

    async def hang_after(close: Callable[[], Awaitable[None]]) -> None:
        await close()
        await asyncio.sleep(3600)

    assert asyncio.run(work()).exit_code() is not None
    assert "connections did not close within" in caplog.text


# ---------------------------------------------------------------- when a server is taken for dead

EVERY = 5.0  # seconds between looks
WELL, SILENT, UNWELL = Health.WELL, Health.SILENT, Health.UNWELL


def trouble(seen: Iterable[tuple[Health, float]], in_flight: int = 0) -> str | None:
    """Return what a watch says first, of (health, for how many seconds)."""
    watch, now = ServerWatch(stall_seconds=600), 100.0
    for health, seconds in seen:
        for _ in range(round(seconds / EVERY)):
            now += EVERY
            if found := watch.look(health, in_flight, now):
                return found
    return None


@pytest.mark.parametrize(
    ("seen", "dead"),
    [
        ([(WELL, 100_000)], False),
        ([(SILENT, 800)], False),
        ([(SILENT, 800), (WELL, 5), (SILENT, 800)], False),
        ([(SILENT, 800), (UNWELL, 5), (WELL, 5)], False),  # one refusal after long silence
        ([(UNWELL, 10), (WELL, 5), (UNWELL, 10)], False),
        ([(SILENT, 1000)], True),
        ([(WELL, 50), (UNWELL, 20)], True),
        ([(SILENT, 500), (UNWELL, 20)], True),
    ],
)
def test_a_busy_server_may_be_silent_for_long_and_one_that_is_not_well_is_dead(
    seen: list[tuple[Health, float]], dead: bool
) -> None:
    assert ("has not been well for" in str(trouble(seen))) is dead


def looks(watch: ServerWatch, seconds: float, start: float, in_flight: int = 3) -> str | None:
    found = (watch.look(WELL, in_flight, start + EVERY * i) for i in range(1, round(seconds / EVERY) + 1))
    return next((said for said in found if said), None)


def test_a_server_whose_counters_stand_still_is_dead() -> None:
    watch = ServerWatch(stall_seconds=600)
    watch.counted({"generated_tokens": 7})
    assert looks(watch, 595, start=0) is None
    watch.counted({"generated_tokens": 8})
    assert looks(watch, 600, start=595) is None
    said = looks(watch, 10, start=1195)
    assert said is not None and "nothing has come of its 3 requests for 605 s" in said and "stall_timeout" in said


def test_a_server_that_hangs_at_its_first_step_is_dead() -> None:
    watch = ServerWatch(stall_seconds=600)
    assert looks(watch, 5000, start=0, in_flight=0) is None
    watch.counted({"generated_tokens": 0})
    said = looks(watch, 610, start=5000)
    assert said is not None and "nothing has come of its 3 requests for 605 s" in said


def test_a_server_without_requests_may_stand_still() -> None:
    watch = ServerWatch(stall_seconds=600)
    watch.counted({"generated_tokens": 7})
    assert looks(watch, 5000, start=0, in_flight=0) is None
    assert looks(watch, 595, start=5000) is None  # counted from its first request on


def test_a_server_without_counters_is_dead_once_it_no_longer_answers() -> None:
    watch = ServerWatch(stall_seconds=600)
    for number in range(10):
        assert looks(watch, 595, start=595 * number) is None
        watch.answered()
    said = looks(watch, 605, start=5950)
    assert said is not None and "nothing has come of its 3 requests for 605 s" in said and "no counters" in said


def test_answers_count_while_the_counters_cannot_be_read() -> None:
    watch = ServerWatch(stall_seconds=600)
    watch.counted({"generated_tokens": 7})
    for number in range(10):
        assert looks(watch, 595, start=595 * number) is None
        watch.answered()


def test_prompts_that_are_read_again_and_again_keep_no_server_alive() -> None:
    """Requests that push each other out of the memory: the counters of prompts move, and no token comes."""
    watch, counters = ServerWatch(stall_seconds=600), {"requests": 5.0, "generated_tokens": 7.0, "prompt_tokens": 0.0}
    said, seconds = None, 0
    while said is None and seconds < 100_000:
        counters["prompt_tokens"] += 500
        watch.counted(counters)
        said = looks(watch, 10, start=seconds)
        seconds += 10
    assert said is not None and "nothing has come of its 3 requests for 1205 s" in said and "stall_timeout" in said


def test_an_answer_that_takes_a_day_is_waited_for_while_tokens_come() -> None:
    """One token a minute in all, of three requests that may have 1,000 tokens each."""
    watch = ServerWatch(stall_seconds=600, longest_answer=1000)
    for number in range(3000):
        watch.counted({"requests": 0.0, "generated_tokens": float(number), "prompt_tokens": 30.0})
        assert looks(watch, 60, start=60 * number) is None


def test_a_server_that_generates_more_than_its_requests_can_have_is_dead() -> None:
    watch, said, number = ServerWatch(stall_seconds=600, longest_answer=100), None, 0
    while said is None and number < 10_000:
        watch.counted({"requests": 0.0, "generated_tokens": 10.0 * number})
        said, number = looks(watch, 60, start=60 * number), number + 1
    assert said is not None and "nothing has come of its 3 requests" in said
    assert number > 60


@pytest.mark.parametrize("counts", [True, False])
def test_a_server_that_stops_answering_ends_the_load_whether_it_reports_counters_or_not(
    counts: bool, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first requests are answered, and then none."""
    answers = iter(range(6))

    class Client:
        async def health(self) -> Health:
            return Health.WELL

        async def metrics(self) -> dict[str, float]:
            if not counts:
                raise ConnectionError("the engine's counters cannot be read")
            return {"requests": 6.0, "generated_tokens": 6.0, "prefix_cache_queries": 0.0, "prefix_cache_hits": 0.0}

        async def complete(self, *asked: object) -> dict[str, Any]:
            await asyncio.sleep(0.05 if next(answers, None) is not None else 600)
            return response("a")

    one = server_of({**ENTRY, "stall_timeout": 1}, "folder", "python", "cpu", "seeded", tmp_path / "log")
    one._client, one._server, one.exit_code, one._last_words = Client(), object(), lambda: None, str
    monkeypatch.setattr(execution, "SECONDS_BETWEEN_CHECKS", 0.02)

    async def work() -> None:
        reader = StoreReader(tmp_path, "engine")
        with StoreWriter(tmp_path, "engine", "job") as writer:
            async with asyncio.timeout(20):
                await Execution(one, writer, reader, "s", 2).run([item(number) for number in range(20)])

    with pytest.raises(EngineDied, match="nothing has come of its 2 requests"):
        asyncio.run(work())
    assert len(StoreReader(tmp_path, "engine").lookup([sha256_of(number) for number in range(20)])) == 6


def test_a_server_without_counters_is_not_ended_while_its_answers_come(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load takes longer than its `stall_timeout`, and no answer does."""

    class Client:
        async def health(self) -> Health:
            return Health.WELL

        async def metrics(self) -> dict[str, float]:
            raise ConnectionError("the engine's counters cannot be read")

        async def complete(self, *asked: object) -> dict[str, Any]:
            await asyncio.sleep(0.3)
            return response("a")

    one = server_of({**ENTRY, "stall_timeout": 1}, "folder", "python", "cpu", "seeded", tmp_path / "log")
    one._client, one._server, one.exit_code, one._last_words = Client(), object(), lambda: None, str
    monkeypatch.setattr(execution, "SECONDS_BETWEEN_CHECKS", 0.02)

    async def work() -> int:
        reader = StoreReader(tmp_path, "engine")
        with StoreWriter(tmp_path, "engine", "job") as writer:
            outcome = await Execution(one, writer, reader, "s", 1).run([item(number) for number in range(8)])
            return outcome.executed

    assert asyncio.run(work()) == 8


def test_time_in_which_the_job_itself_stood_still_does_not_count() -> None:
    watch = ServerWatch(stall_seconds=600)
    watch.counted({"generated_tokens": 7})
    assert looks(watch, 400, start=0) is None
    assert watch.look(WELL, 3, 100_000.0) is None  # suspended for a day
    assert watch.look(SILENT, 3, 100_005.0) is None and watch.look(SILENT, 3, 200_000.0) is None
