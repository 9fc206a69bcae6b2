"""Nothing lost, doubled or changed: a run with the real engine is disturbed, and a plain rerun completes it.

After each fault nothing of the run may live on, the rerun executes only what was missing (counted at the server), no
stored record changes, and the answers have the bytes of an undisturbed run (`determinism: strict`).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from faults import (
    GONE_SECONDS,
    RUN_SECONDS,
    SERVER,
    START_SECONDS,
    Place,
    Run,
    answers,
    contents,
    executed_since,
    guard_of,
    interrupt,
    job_of,
    only_grown,
    receipt_times,
    server_of,
    session_of,
    stored,
    wait_for,
    wait_for_records,
    winners,
)
from project import Project, change_yaml, copy_of
from real import SHORT, first_layers, real_project

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

SOON_SECONDS = 25.0  # within which a dead engine ends the job, and Snakemake the run
ENGINE, FIRST_LAYERS = "smollm2-135m", 4
ENOUGH = 8  # records in the store when the fault comes: the engine is in the middle of its work


# ---------------------------------------------------------------- an undisturbed run


@dataclass(frozen=True)
class Reference:
    """An undisturbed run: its folder, answers, and how long the engine started and worked (seconds)."""

    project: Project
    answers: dict[str, bytes]
    keys: frozenset[str]
    start: float
    work: float


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what the engine compiles."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a study whose requests are made, so that a run begins with the engine."""
    folder = tmp_path_factory.mktemp("prepared")
    project = real_project(folder / "project", judges=["keyword"])
    # What is tested is who answers what, and when; the first layers answer as reliably as all, and three times as fast.
    weights = {"kind": "folder", "path": str(first_layers(project, folder / "model", FIRST_LAYERS))}
    engines = {ENGINE: {"like": ENGINE, "weights": weights, "dtype": "float32"}}
    change_yaml(project.folder / "catalogue.yaml", lambda data: {**data, "engines": engines})
    for model in ("plain", "declining"):
        project.catalogue("models", model, sampling={**SHORT, "max_tokens": 32})
    project.snakemake("--until", "requests")
    return project


@pytest.fixture(scope="module")
def reference(prepared: Project, compiled: Path, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Return an undisturbed run."""
    project = copy_of(prepared, tmp_path_factory.mktemp("reference") / "project")
    with Place(project, compiled) as place:
        run = place.start()
        assert run.wait() == 0, run.said()
        nothing_is_left(place)
    counted = executed_since(project, {})
    keys = frozenset(stored(project.store))
    assert counted == len(keys) == 32
    healthy = re.search(r"healthy after ([\d.]+) s", log_of(project))
    assert healthy
    return Reference(project, answers(project), keys, float(healthy[1]), seconds_of_work(project))


def log_of(project: Project) -> str:
    """Return the log of the only load."""
    folder = project.results / "logs" / "generate" / "engine" / ENGINE
    (log,) = (path for path in folder.glob("*.log") if not path.name.endswith(".server.log"))
    return log.read_text()


def seconds_of_work(project: Project) -> float:
    """Return the seconds between the first and the last record, by their times."""
    times = sorted(record["time"] for record in winners(project).values())
    first, last = (time_of_day(text) for text in (times[0], times[-1]))
    return (last - first) % 86400


def time_of_day(text: str) -> float:
    """Return the seconds since midnight of an ISO time."""
    match = re.search(r"T(\d+):(\d+):([\d.]+)", text)
    assert match
    hours, minutes, seconds = match.groups()
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


@pytest.fixture
def place(prepared: Project, compiled: Path, tmp_path: Path) -> Iterator[Place]:
    """Return a folder in which the study can run."""
    with Place(copy_of(prepared, tmp_path / "project"), compiled) as found:
        yield found


# ---------------------------------------------------------------- what must hold after each fault


def nothing_is_left(place: Place) -> None:
    """Assert that a run has ended with all its processes, and took its sockets and records along."""
    wait_for("end of all processes", lambda: not place.processes(), GONE_SECONDS)
    assert place.sockets() == [] and place.private_folders() == [] and place.engine_records() == []


def plain_rerun(place: Place, reference: Reference) -> None:
    """Run again as the user would.

    Assert that what was missing is executed and nothing else, that no record changes or is doubled, that the answers
    are those of the undisturbed run, and that nothing is left.
    """
    project = place.project
    before, files, earlier = stored(project.store), contents(project.store), receipt_times(project)
    counted = winners(project)
    assert set(counted) == set(before), "the library and the plain reading find the same records"
    run = place.run()
    assert run.process.returncode == 0, run.said()
    after = stored(project.store)
    assert executed_since(project, earlier) == len(reference.keys) - len(before)
    assert set(after) == reference.keys and all(len(lines) == 1 for lines in after.values())
    assert {key: after[key] for key in before} == before and only_grown(files, contents(project.store))
    assert {key: record for key, record in winners(project).items() if key in counted} == counted
    assert answers(project) == reference.answers
    nothing_is_left(place)


# ---------------------------------------------------------------- a time limit, three times too short


def test_a_time_limit_three_times_too_short(
    prepared: Project, compiled: Path, tmp_path: Path, reference: Reference
) -> None:
    # A machine that was busier while the reference was made has time for everything: then it gets less.
    for number, part in enumerate((2.3, 5, 12)):
        with Place(copy_of(prepared, tmp_path / str(number)), compiled) as place:
            if len(steps := runs_until_whole(place, reference, part)) > 1:
                break
    assert len(steps) >= 2 and sum(steps) == len(reference.keys)


def runs_until_whole(place: Place, reference: Reference, part: float) -> list[int]:
    """Run with time for 1 / `part` of the work until everything is answered; return what each run added."""
    # At 80 % of the limit no more requests are taken (see `time_limit.py`); the rest is for ending in peace.
    share = reference.start + 6 + reference.work / part
    place.project.study(time_limit=round(share / 0.8 / 60, 3))
    project, steps = place.project, []
    while True:
        before = stored(project.store)
        run = place.run()
        after = stored(project.store)
        steps.append(len(after) - len(before))
        assert {key: after[key] for key in before} == before and all(len(lines) == 1 for lines in after.values())
        nothing_is_left(place)
        if run.process.returncode == 0:
            break
        assert "time limit" in run.said() and "Traceback" not in run.said()
        assert run.seconds() < 60 * 0.95 * share / 0.8 / 60 + 15  # in time: Snakemake's own start is not in the limit
        answered = re.search(r"the engine answered (\d+) requests", run.said())
        assert answered and int(answered[1]) == steps[-1], "the server counted what was stored"
        assert steps[-1] > 0, "every run goes on"
        assert len(steps) < 6
    assert executed_since(project, {}) == steps[-1]
    assert answers(project) == reference.answers
    return steps


# ---------------------------------------------------------------- signals


@dataclass(frozen=True)
class Case:
    """A signal to somebody.

    Attributes:
        name: what is done.
        disturb: does it.
        says: what the run must say of it.
        at: records in the store when it comes; 0 is while the engine starts.
        locked: the folder stays locked.
        completes: the job is left to complete its batch.
    """

    name: str
    disturb: Callable[[Run], None]
    says: str = ""
    at: int = ENOUGH
    locked: bool = False
    completes: bool = False


def kill_server(run: Run) -> None:
    server_of(run).kill()


def kill_session(run: Run) -> None:
    os.killpg(server_of(run).pid, signal.SIGKILL)


def kill_core(run: Run) -> None:
    core_of(run).kill()


def terminate_server(run: Run) -> None:
    server_of(run).terminate()


def terminate_core(run: Run) -> None:
    core_of(run).terminate()


def core_of(run: Run) -> psutil.Process:
    """Return the engine's core, which `nvidia-smi` and `top` show, and which the kernel kills for lack of memory."""

    def core() -> psutil.Process | None:
        with suppress(psutil.NoSuchProcess):  # short-lived ones come and go while the server starts
            members = session_of(server_of(run))
            return next((process for process in members if process.name().startswith("VLLM::EngineCor")), None)
        return None

    found = wait_for("engine core", core, START_SECONDS, run)
    assert isinstance(found, psutil.Process)
    return found


def kill_job(run: Run) -> None:
    job_of(run).kill()


def terminate_job(run: Run) -> None:
    job_of(run).terminate()


def interrupt_twice(run: Run) -> None:
    interrupt(run)
    time.sleep(0.5)
    interrupt(run)


def interrupt_snakemake(run: Run) -> None:
    os.kill(run.pid, signal.SIGINT)


def terminate_snakemake(run: Run) -> None:
    os.kill(run.pid, signal.SIGTERM)


def kill_snakemake(run: Run) -> None:
    os.kill(run.pid, signal.SIGKILL)


CASES = [
    Case("SIGKILL of the server's first process", kill_server, says="the engine died"),
    Case("SIGKILL of all processes of the server", kill_session, says="the engine died"),
    Case("SIGKILL of the engine core", kill_core, says="the engine died"),
    Case("SIGTERM to the server", terminate_server, says="the engine died"),
    Case("SIGTERM to the engine core", terminate_core, says="the engine died"),
    Case("SIGKILL of the server while it starts", kill_server, says="the engine died while starting", at=0),
    Case("SIGKILL of the job", kill_job),
    Case("SIGKILL of the job while the engine starts", kill_job, at=0),
    Case("SIGTERM to the job", terminate_job, says="stopped by SIGTERM"),
    Case("SIGINT to the group (Ctrl-C)", interrupt, says="Terminating processes on user request"),
    Case("SIGINT to the group while the engine starts", interrupt, at=0),
    Case("SIGINT to the group twice", interrupt_twice),
    Case(
        "SIGINT to snakemake alone", interrupt_snakemake, says="Terminating processes on user request", completes=True
    ),
    Case("SIGTERM to snakemake", terminate_snakemake, says="Will exit after finishing", completes=True),
    Case("SIGKILL of snakemake", kill_snakemake, locked=True),
    Case("SIGKILL of snakemake while the engine starts", kill_snakemake, at=0, locked=True),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_signal(case: Case, place: Place, reference: Reference) -> None:
    run = place.start()
    if case.at:
        wait_for_records(run, case.at)
    else:
        server = server_of(run)
        wait_for("engine core", lambda: len(session_of(server)) > 2, START_SECONDS, run)
    disturbed = time.monotonic()
    case.disturb(run)
    assert run.wait() != 0, "what is not complete is not told as complete"
    ended = time.monotonic() - disturbed
    wait_for("end of all processes", lambda: not place.processes(), GONE_SECONDS)
    said, count = run.said(), len(stored(place.project.store))
    assert case.says in said
    if "engine died" in case.says:
        assert "Its last lines" in said and ended < SOON_SECONDS
    assert count == len(reference.keys) if case.completes else case.at <= count < len(reference.keys)
    assert place.locked() == case.locked
    if case.locked:
        refused = place.run()
        assert refused.process.returncode != 0 and "--unlock" in refused.said()
        assert place.run("--unlock").process.returncode == 0
    plain_rerun(place, reference)


def test_an_engine_core_that_stands_still(place: Place, reference: Reference) -> None:
    """As when a device hangs: every process lives, the server says that it is well, and no token comes."""
    place.project.catalogue("engines", ENGINE, stall_timeout=20)
    run = place.start()
    wait_for_records(run, ENOUGH)
    stopped = time.monotonic()
    core_of(run).suspend()
    assert run.wait() != 0
    assert 15 < time.monotonic() - stopped < 20 + SOON_SECONDS
    assert "nothing has come of its" in run.said() and "`stall_timeout`" in run.said()
    nothing_is_left(place)
    plain_rerun(place, reference)


@pytest.mark.parametrize("disturb", [terminate_server, terminate_core, kill_core, terminate_job])
def test_with_dozens_of_requests_in_flight(
    disturb: Callable[[Run], None], prepared: Project, compiled: Path, tmp_path: Path
) -> None:
    """An engine that is told to stop answers what is in flight with what it has: none of that may count."""
    with Place(copy_of(prepared, tmp_path / "project"), compiled) as place:
        project = place.project
        project.study(determinism="seeded", samples=60)
        run = place.start()  # the engine takes 256 of 960 requests at a time, and equal lengths end in the same moment
        core = core_of(run)
        wait_for("engine at work", lambda: "the engine is healthy" in run.said(), START_SECONDS, run)
        started = time.monotonic()
        # On busy cores the API server, which yields to the core, hands out nothing before the core is through.
        wait_for("records", lambda: len(stored(project.store)) >= 3 or time.monotonic() > started + 8, 60, run)
        core.suspend()  # a fast machine would answer the rest while this test counts
        in_flight = sum(len(list(file.keys())) for file in project.request_files("requests")) - len(
            stored(project.store)
        )
        assert in_flight > 100
        disturb(run)
        with suppress(psutil.NoSuchProcess):
            core.resume()
        assert run.wait() != 0
        nothing_is_left(place)
        before, files, earlier = stored(project.store), contents(project.store), receipt_times(project)
        assert len(before) < 960
        again = place.run()
        assert again.process.returncode == 0, again.said()
        after = stored(project.store)
        assert executed_since(project, earlier) == 960 - len(before)
        assert len(after) == 960 and all(len(lines) == 1 for lines in after.values())
        assert {key: after[key] for key in before} == before and only_grown(files, contents(project.store))
        ends = {record["response"]["finish_reason"] for record in winners(project).values()}
        assert ends <= {"stop", "length"}


def test_sigkill_of_everything(place: Place, reference: Reference) -> None:
    """Only the engine's own processes live on; the next run ends them, and no process that merely looks like them."""
    looks_like = [
        subprocess.Popen(["VLLM::EngineCore", "900"], executable="/bin/sleep", cwd=place.project.folder),
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(900)", "-P", SERVER, f"--uds={place.temporary}"],
            cwd=place.project.folder,
            start_new_session=True,
        ),
    ]
    place.spare(*(process.pid for process in looks_like))
    try:
        run = place.start()
        wait_for_records(run, ENOUGH)
        job, server = job_of(run), server_of(run)
        members = session_of(server)
        for victim in (guard_of(run), server, job, psutil.Process(run.pid)):
            victim.kill()
        run.wait()
        time.sleep(5)
        orphans = [process for process in members if alive(process)]
        assert orphans, "without an orphan this test shows nothing"
        assert place.locked() and place.run("--unlock").process.returncode == 0
        plain_rerun(place, reference)
        reported = next(line for line in log_of(place.project).splitlines() if "orphan" in line)
        assert all(str(process.pid) in reported for process in orphans)
        assert not any(alive(process) for process in orphans)
        assert [process.poll() for process in looks_like] == [None, None], "nothing else was removed"
    finally:
        for process in looks_like:
            process.kill()
            process.wait()


def alive(process: psutil.Process) -> bool:
    """Tell whether this very process lives."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# ---------------------------------------------------------------- the store's file


def cut_last_record(store: Path) -> None:
    """Leave 300 bytes of the last record of a store of one file."""
    (path,) = store.glob("*/*.jsonl")
    content = path.read_bytes()
    start = content.rstrip(b"\n").rfind(b"\n") + 1
    assert len(content) - start > 300
    path.write_bytes(content[: start + 300])


def test_a_cut_record_is_executed_again(place: Place, reference: Reference) -> None:
    shutil.copytree(reference.project.store, place.project.store, dirs_exist_ok=True)
    cut_last_record(place.project.store)
    plain_rerun(place, reference)
    assert executed_since(place.project, {}) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a small disk: a run starts, as there is room for it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(place: Place, reference: Reference, small_disk: Path) -> None:
    project = place.project
    project.store.rmdir()
    project.store.symlink_to(small_disk / "store")
    project.study(store_dir=str(small_disk / "store"))
    run = place.start()
    server_of(run)  # a disk that is full before is refused without an engine
    free = os.statvfs(small_disk)
    (small_disk / "of_somebody_else").write_bytes(bytes(free.f_bavail * free.f_bsize - 12 * 2**10))
    assert run.wait() != 0
    assert "the disk with the store is full" in run.said() and str(small_disk) in run.said()
    assert "Traceback" not in run.said()
    assert 0 < len(stored(project.store)) < len(reference.keys)
    nothing_is_left(place)
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    plain_rerun(place, reference)


# ---------------------------------------------------------------- two at once


def test_two_runs_at_once_in_one_folder(place: Place, reference: Reference) -> None:
    first = place.start()
    job_of(first)
    second = place.run()
    assert second.process.returncode != 0 and "cannot be locked" in second.said()
    assert first.wait() == 0, first.said()
    assert executed_since(place.project, {}) == len(reference.keys)
    assert answers(place.project) == reference.answers
    nothing_is_left(place)


def test_two_studies_at_once_on_one_store(
    place: Place, prepared: Project, compiled: Path, reference: Reference, tmp_path: Path
) -> None:
    with Place(copy_of(prepared, tmp_path / "second"), compiled) as other:
        store = place.project.store
        other.project.study(store_dir=str(store))
        runs = [place.start(), other.start()]
        counted: dict[str, object] = {}
        deadline = time.monotonic() + 2 * RUN_SECONDS
        while any(run.process.poll() is None for run in runs):
            assert time.monotonic() < deadline, runs[0].said() + runs[1].said()
            now = winners(place.project, store)
            assert {key: now[key] for key in counted} == counted, "the record that counts stays the same"
            counted = now
            time.sleep(1)
        assert [run.process.returncode for run in runs] == [0, 0], runs[0].said() + runs[1].said()
        now = winners(place.project, store)
        assert {key: now[key] for key in counted} == counted and set(now) == reference.keys
        assert answers(place.project) == answers(other.project) == reference.answers
        both = [executed_since(each.project, {}) for each in (place, other)]
        doubled = sum(len(lines) - 1 for lines in stored(store).values())
        assert sum(both) == len(reference.keys) + doubled
        nothing_is_left(place)
        nothing_is_left(other)
