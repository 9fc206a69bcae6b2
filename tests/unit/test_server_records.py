"""What a killed run leaves behind is found and ended by the next one, and nothing else is."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import sleepers
from sleepers import DEAF, JOB, SERVER, SLEEP, wait_until

from refusal_eval.core.errors import UserError
from refusal_eval.engines import process
from refusal_eval.engines.private_folder import checked_folder
from refusal_eval.engines.process import process_start, read_process, send_signal, session_members
from refusal_eval.engines.server_process import ServerProcess
from refusal_eval.engines.server_records import ServerRecord, record_folders, remove_orphans, remove_private_folder


class Run(NamedTuple):
    """A job, its server, and what the server started."""

    job: subprocess.Popen[str]
    server: int
    private: Path
    record: Path
    children: list[int]

    def edit(self, **changes):
        """Change fields of the record."""
        record = json.loads(self.record.read_text())
        self.record.write_text(json.dumps(record | changes))

    def marks(self, *pids, later=0):
        """Return the marks of processes as the record has them, or of later processes with their numbers."""
        return [{"pid": pid, "start": process_start(pid) - later} for pid in pids]

    def kill(self):
        """Kill as a machine out of memory might: the server's first process, its guard, and the job."""
        (guard,) = (child.pid for child in psutil.Process(self.job.pid).children() if child.pid != self.server)
        os.kill(guard, signal.SIGKILL)
        os.kill(self.server, signal.SIGKILL)
        os.kill(self.job.pid, signal.SIGKILL)
        wait_until(lambda: not alive(self.server, self.job.pid))


def alive(*pids):
    """Return those that live."""
    return [pid for pid in pids if process_start(pid) is not None]


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Give the test a temporary folder of its own, and with it its own records."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return folder


@pytest.fixture
def started(temporary, repository):
    """Return how to start a job with a server and two children; end what a test leaves."""
    runs = []

    def start(children=(SLEEP, SLEEP)):
        environment = {**os.environ, "PYTHONPATH": str(repository / "scripts"), "TMPDIR": str(temporary)}
        command = [sys.executable, "-c", JOB, SERVER, *children]
        job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        server, private = job.stdout.readline().split()
        members = [member.pid for member in session_members(int(server)) if member.pid != int(server)]
        (record,) = record_folders()[0].glob(f"{server}-*.json")
        runs.append(Run(job, int(server), Path(private), record, members))
        return runs[-1]

    yield start
    for run in runs:
        with run.job as job:
            job.kill()
        for pid in run.children:
            member = read_process(pid)
            if member and member.session == run.server:
                send_signal(member, signal.SIGKILL)
        wait_until(lambda run=run: not alive(run.server, *run.children))


@pytest.fixture
def killed(started):
    """Return a run of which only the server's two children live."""
    run = started()
    run.kill()
    assert alive(*run.children) == run.children
    return run


@pytest.fixture
def stranger():
    """Return the number of a process that has a session of its own and is nobody's orphan."""
    with sleepers.started() as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("runtime", ["", "/"])  # of the shell of the run that ends it; the killed one had none
def test_what_a_killed_run_left_is_ended_and_reported(killed, stranger, tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime and str(tmp_path))
    # The job is a zombie here, as it is where nobody waits for a killed run's jobs.
    (message,) = remove_orphans()
    assert all(str(pid) in message for pid in killed.children) and "killed run" in message
    assert alive(*killed.children, stranger) == [stranger]
    assert not killed.private.exists() and not killed.record.exists()
    assert remove_orphans() == []


def test_who_ignores_sigterm_is_killed_after_the_grace_also_where_jobs_start_together(started):
    run = started((DEAF, SLEEP))
    run.kill()
    begun = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        messages = list(pool.map(lambda _: remove_orphans(grace=0.5), range(4)))
    assert 0.5 <= time.monotonic() - begun < 5
    assert any(messages) and not any("do not end" in line for lines in messages for line in lines)
    assert alive(*run.children) == [] and not run.record.exists()


def test_a_living_job_keeps_its_server_and_is_known_by_its_start_too(started):
    run = started()
    assert remove_orphans() == []
    assert alive(run.server, *run.children) == [run.server, *run.children]
    assert run.record.exists() and run.private.exists()
    run.edit(job=run.marks(run.job.pid, later=1)[0])  # the number is another's by now
    remove_orphans()
    assert alive(run.server, *run.children) == []


def test_numbers_that_are_others_by_now_are_left_alone(killed):
    killed.edit(members=killed.marks(*killed.children, later=1), server={"pid": killed.server, "start": 1})
    assert remove_orphans() == []
    assert alive(*killed.children) == killed.children
    assert not killed.record.exists()  # nothing is left to look for


def test_processes_that_came_after_the_last_record_are_ended_beside_a_known_one(killed):
    killed.edit(members=killed.marks(killed.children[0]))
    remove_orphans()
    assert alive(*killed.children) == []


def test_a_late_process_is_still_known_when_the_known_one_ended_first(started):
    run = started((SLEEP, DEAF))
    run.kill()
    deaf = next(pid for pid in run.children if "SIG_IGN" in Path(f"/proc/{pid}/cmdline").read_text())
    run.edit(members=run.marks(*(set(run.children) - {deaf})))
    remove_orphans(grace=0.5)
    assert alive(*run.children) == []


def test_another_session_with_the_same_number_is_left_alone(killed, stranger):
    killed.edit(server={"pid": stranger, "start": 1})
    remove_orphans()
    assert alive(*killed.children, stranger) == [stranger]


@pytest.mark.parametrize(
    ("elsewhere", "kept"),
    [
        ({"boot_id": "earlier"}, False),
        ({"host": "other", "boot_id": "other"}, True),
        ({"pid_namespace": "pid:[1]"}, True),
    ],
)
def test_numbers_of_another_boot_machine_or_container_mean_nothing_here(killed, elsewhere, kept):
    killed.edit(**elsewhere)
    assert remove_orphans() == []
    assert alive(*killed.children) == killed.children
    assert killed.record.exists() is kept


def test_damaged_records_are_left_alone_and_reported(killed):
    whole, folder = killed.record.read_text(), killed.record.parent
    number_0 = json.dumps(json.loads(whole) | {"server": {"pid": 0, "start": 1}})
    damaged = [killed.record, *(folder / f"{number}.json" for number in range(5))]
    for path, text in zip(damaged, ["", "{", "[]", '{"server": 3}', number_0], strict=False):
        path.write_text(text)
    elsewhere = killed.private / "record"
    elsewhere.write_text(whole)
    damaged[-1].symlink_to(elsewhere)
    messages = remove_orphans()
    assert sorted(message.split()[0] for message in messages) == sorted(map(str, damaged))
    assert all("left alone" in message for message in messages)
    assert all(os.path.lexists(path) for path in damaged)
    assert alive(*killed.children) == killed.children


def test_what_cannot_be_ended_stays_recorded_and_is_reported(killed, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(process, "send_signal", lambda *_: None)
        patch.setattr(process, "KILL_WAIT", 0.1)
        (message,) = remove_orphans(grace=0.1)
    assert "do not end" in message and str(killed.children[0]) in message
    assert killed.record.exists() and killed.private.exists()
    remove_orphans()
    assert alive(*killed.children) == []


def test_an_own_server_is_recorded_while_it_runs(temporary, tmp_path):
    server = ServerProcess([sys.executable, "-c", SERVER, SLEEP], dict(os.environ), tmp_path / "log")
    try:
        record = ServerRecord(server, str(temporary / "refusal-eval-x"))
        (file,) = record_folders()[0].iterdir()
        wait_until(lambda: server.last_lines().count("up") == 2)
        record.update()
        first, whole = file.stat().st_ino, json.loads(file.read_text())
        record.update()
        assert file.stat().st_ino == first  # written only if something changed
        record.remove()
        assert file.exists()  # not while it runs
    finally:
        server.stop()
    assert whole["members"][0]["pid"] == server.pid and len(whole["members"]) == 2
    assert whole["job"] == {"pid": os.getpid(), "start": process_start(os.getpid())}
    record.update()
    assert json.loads(file.read_text()) == whole  # who was there is worth more than that nobody is
    record.remove()
    assert not file.exists()
    record.remove()


def test_records_are_private(temporary):
    before = os.umask(0)
    try:
        folder = checked_folder(record_folders()[0])
    finally:
        os.umask(before)
    assert folder.parent == temporary and folder.stat().st_mode & 0o777 == 0o700


def foreign(folder, monkeypatch):
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    record_folders()[0].mkdir(mode=0o700)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder, _: folder.symlink_to(tempfile.mkdtemp()), "is a link"),
        (lambda folder, _: folder.touch(), "a file"),
        (lambda folder, _: (folder.mkdir(), folder.chmod(0o750)), "chmod 700"),
        (foreign, "another user"),
    ],
)
def test_a_folder_that_is_not_ours_alone_is_refused(make, said, monkeypatch):
    make(record_folders()[0], monkeypatch)
    with pytest.raises(UserError, match=said):
        remove_orphans()


def test_the_users_runtime_folder_is_taken_if_there_is_one(tmp_path, monkeypatch, temporary):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))  # set on the login node
    assert [folder.parent for folder in record_folders()] == [temporary]
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    assert [folder.parent for folder in record_folders()] == [tmp_path / "runtime", temporary]
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    assert [folder.parent for folder in record_folders()] == [temporary]


def test_somebody_elses_folder_beside_our_own_stops_nothing(tmp_path, monkeypatch, temporary):
    record_folders()[0].symlink_to(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (message,) = remove_orphans()
    assert "is a link" in message


def test_only_a_private_folder_is_removed(temporary, tmp_path):
    kept = [temporary / "other", tmp_path / "refusal-eval-x", checked_folder(record_folders()[0])]
    for folder in kept:
        folder.mkdir(exist_ok=True)
    link = temporary / "refusal-eval-link"
    link.symlink_to(kept[0])
    for folder in [*kept, link, temporary / "missing"]:
        remove_private_folder(str(folder))
    remove_private_folder("")
    assert all(folder.exists() for folder in [*kept, link])
    (temporary / "refusal-eval-x").mkdir()
    remove_private_folder(str(temporary / "refusal-eval-x"))
    assert not (temporary / "refusal-eval-x").exists()
