"""Two jobs for the same requests: the second is refused, whether the first is seen here, by Slurm, or by its record."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sleepers import wait_until

import refusal_eval.engines.running_jobs as module
from refusal_eval.core.errors import UserError
from refusal_eval.core.slurm_jobs import NoAnswer
from refusal_eval.engines.process import process_start, this_place
from refusal_eval.engines.running_jobs import only_capture, only_job


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return tmp_path / "results" / "small"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def job(study: Path, *cells: str, name: str = "generate/model/a/0", shard: int = 0, shards: int = 1, slurm: str = ""):
    """Return the context of a job of this process for some cells."""
    requests = [str(study / "requests" / f"{cell}.jsonl") for cell in cells]
    return only_job(
        study / "receipts" / f"{name}.json", requests, shard, shards, {"SLURM_JOB_ID": slurm} if slurm else {}
    )


def running(name: str, cells: tuple[str, ...], **changes: object) -> module.RunningJob:
    """Return a job of this machine, by default this process."""
    start = process_start(os.getpid()) or 0
    me = module.RunningJob(name, cells, 0, 1, *this_place(), os.getpid(), start, slurm_job=None, time=time.time())
    return dataclasses.replace(me, **changes)


def left(study: Path, cells: list[str], name: str = "generate/model/a/0", **changes: object) -> Path:
    """Leave the record of another job, by default one of this machine whose process is gone."""
    other = running(
        name, tuple(f"requests/{cell}.jsonl" for cell in cells), **({"pid": 2**22 + 1, "start": 1} | changes)
    )
    path = study / "running" / other.file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(other)))
    return path


def records(study: Path) -> list[str]:
    return sorted(path.name for path in (study / "running").glob("*.json"))


def test_a_record_stands_while_the_job_works_and_is_gone_after_it_however_it_ends(study: Path) -> None:
    with job(study, "a/one"):
        assert records(study) == [f"generate_model_a_0-{os.uname().nodename}-{os.getpid()}.json"]
    assert records(study) == []
    with pytest.raises(SystemExit), job(study, "a/one"):
        raise SystemExit("stopped by SIGTERM")
    assert records(study) == []


def test_a_living_process_of_this_machine_refuses_a_second_job(study: Path, sleeper: subprocess.Popen[bytes]) -> None:
    left(study, ["a/one"], pid=sleeper.pid, start=process_start(sleeper.pid))
    with pytest.raises(UserError, match=rf"process {sleeper.pid} on .*kill {sleeper.pid}`;"), job(study, "a/one"):
        pass
    assert len(records(study)) == 1, "the record of the job that goes on is kept"
    with job(study, "a/two"):
        pass  # other cells


@pytest.mark.parametrize("other", [{}, {"pid": os.getppid(), "start": 1}, {"boot_id": "before"}])
def test_a_job_that_is_gone_is_cleared_away(study: Path, other: dict[str, object]) -> None:
    """Its number is free, or another process by now, or its machine was started again."""
    path = left(study, ["a/one"], **other)
    with job(study, "a/one"):
        assert not path.exists() and len(records(study)) == 1


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING"])
def test_slurm_tells_of_jobs_on_other_nodes(study: Path, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left(study, ["a/one"], host="node7", slurm_job="41")
    monkeypatch.setattr(module, "job_state", {"41": state}.get)
    message = rf"Slurm job 41 \(process \d+ on node7\).*\({state.lower()}\).*scancel 41"
    with pytest.raises(UserError, match=message), job(study, "a/one", slurm="42"):
        pass
    monkeypatch.setattr(module, "job_state", lambda number: None)
    with job(study, "a/one", slurm="42"):
        assert len(records(study)) == 1


def test_a_slurm_job_that_starts_anew_takes_over_its_own_record(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(study, ["a/one"], host="node7", slurm_job="41")
    monkeypatch.setattr(module, "job_state", {"41": "RUNNING"}.get)
    with job(study, "a/one", slurm="41"):
        assert len(records(study)) == 1
    assert records(study) == []


def test_where_nobody_can_tell_the_record_does(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(number: str) -> str | None:
        raise NoAnswer("squeue does not answer")

    monkeypatch.setattr(module, "job_state", silent)
    for other in ({"host": "node7"}, {"host": "node7", "slurm_job": "41"}):
        path = left(study, ["a/one"], **other)
        with pytest.raises(UserError, match="sign of life"), job(study, "a/one"):
            pass
        os.utime(path, (path.stat().st_mtime - 1000,) * 2)
        with job(study, "a/one"):
            assert not path.exists()


def test_records_are_touched_while_a_job_works(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.01)
    with job(study, "a/one"):
        (record,) = (study / "running").glob("*.json")
        os.utime(record, (0, 0))
        wait_until(lambda: record.stat().st_mtime > 0)


def test_other_batches_and_shards_of_the_same_cells_are_recognised(
    study: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    alive = {"pid": sleeper.pid, "start": process_start(sleeper.pid)}
    left(study, ["a/one", "b/one"], name="generate/engine/e/0", shards=2, shard=0, **alive)
    for shard, shards, refused in ((0, 2, True), (1, 2, False), (0, 1, True), (2, 3, True)):
        refusal = pytest.raises(UserError, match="same requests") if refused else contextlib.nullcontext()
        with refusal, job(study, "a/one", name="generate/model/e/a/0", shard=shard, shards=shards):
            pass


def test_of_two_jobs_that_start_at_the_same_moment_the_first_goes_on(study: Path) -> None:
    me = running("generate/model/a/0", ("requests/a/one.jsonl",), slurm_job="42")
    later = dataclasses.replace(me, slurm_job="43", time=me.time + 0.01)
    folder = study / "running"
    folder.mkdir(parents=True)
    for each in (me, later):
        (folder / each.file()).write_text(json.dumps(dataclasses.asdict(each)))
    # Neither was there before the other, both live (this very process): only the later one sees somebody.
    assert module.others_alive(folder, me, earlier=()) == []
    assert [other for other, _ in module.others_alive(folder, later, earlier=())] == [me]
    # A record that was there before counts, whatever the clock of its machine said.
    assert [other for other, _ in module.others_alive(folder, me, earlier=[later.file()])] == [later]


def test_a_job_whose_record_is_seen_late_is_refused_before_the_first_request(
    study: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    with job(study, "a/one") as look_again:
        look_again()
        left(study, ["a/one"], pid=sleeper.pid, start=process_start(sleeper.pid), time=0.0)  # it began before
        with pytest.raises(UserError, match=f"process {sleeper.pid}"):
            look_again()


def test_the_late_look_waits_until_records_of_the_same_moment_can_be_seen(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.3)
    began = time.monotonic()
    with job(study, "a/one") as look_again:
        assert time.monotonic() - began < 0.3, "the engine starts meanwhile"
        look_again()
        assert time.monotonic() - began >= 0.3


def test_a_job_that_is_just_ending_is_waited_for(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 30)
    states = ["COMPLETING", "COMPLETING", None]
    left(study, ["a/one"], host="node7", slurm_job="41")
    monkeypatch.setattr(module, "job_state", lambda number: states.pop(0))
    with job(study, "a/one"):
        assert states == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("cells", value) for value in (1, [["a"]], {"a": 1}, None)),
        *(("name", value) for value in (1, None)),
        *((field, "1") for field in ("shard", "pid", "start", "time")),
        *(("slurm_job", value) for value in (1, [])),
    ],
)
def test_damaged_records_are_no_jobs(study: Path, field: str, value: object) -> None:
    with job(study, "a/one"):
        (record,) = (study / "running").glob("*.json")
        whole = json.loads(record.read_text())
    for name, text in {
        "x": "{",
        "y": '{"cells": 1}',
        "z": "[" * 100_000,
        "damaged": json.dumps(whole | {"start": 1, "pid": 1, "host": "other", field: value}),
    }.items():
        (study / "running" / f"{name}.json").write_text(text)
    with job(study, "a/one"):
        assert len(list((study / "running").glob("*.json"))) == 5, "it runs, and removes no record of others"


def test_the_same_activations_are_captured_by_one_job(study: Path, sleeper: subprocess.Popen[bytes]) -> None:
    file = study / "activations" / "last_prompt_token" / "a" / "s.safetensors"
    sleeps = {"pid": sleeper.pid, "start": process_start(sleeper.pid)}
    other = running("activations/last_prompt_token/a/s", (str(file.relative_to(study)),), **sleeps)
    (study / "running").mkdir(parents=True)
    (study / "running" / other.file()).write_text(json.dumps(dataclasses.asdict(other)))
    with pytest.raises(UserError, match=f"process {sleeper.pid} .* still executes"), only_capture(file, {}):
        pass
    with only_capture(file.with_name("t.safetensors"), {}) as look_again, job(study, "a/s"):
        look_again()
    assert len(list((study / "running").iterdir())) == 1
