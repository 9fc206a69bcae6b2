"""How a server is started, looked at and stopped: it takes its children along, and nobody else."""

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import sleepers
from sleepers import DEAF, JOB, OTHER_GROUP, SERVER, SLEEP, wait_until

from refusal_eval.core.errors import UserError
from refusal_eval.engines import process, server_process
from refusal_eval.engines.process import (
    Process,
    end_processes,
    live_processes,
    process_start,
    read_process,
    send_signal,
    session_members,
)
from refusal_eval.engines.server_process import ServerProcess


@pytest.fixture
def start(tmp_path):
    """Return how to start a server and its children, and wait until all are up; end what a test leaves."""
    servers = []

    def start_server(code, *children):
        command = [sys.executable, "-S", "-c", code, *children]
        server = ServerProcess(command, dict(os.environ), tmp_path / f"log{len(servers)}")
        servers.append(server)
        wait_until(lambda: server.last_lines().count("up") == 1 + len(children))
        return server

    yield start_server
    for server in servers:
        for member in session_members(server.pid):
            send_signal(member, signal.SIGKILL)
        server.stop()


@pytest.fixture
def child():
    """Return how to start a process that says something when it is up; end it afterwards."""
    children = []

    def start_child(code=SLEEP):
        children.append(sleepers.started(code))
        return children[-1]

    yield start_child
    for started in children:
        with started:
            started.kill()


def test_a_process_is_known_by_its_start_until_it_is_dead(child):
    started = child()
    assert process_start(started.pid) == process_start(started.pid) != process_start(os.getpid())
    os.kill(started.pid, signal.SIGKILL)
    os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(started.pid) is None  # a zombie
    assert started.pid not in [process.pid for process in live_processes()]
    started.wait()
    assert process_start(started.pid) is None


def test_a_process_may_have_any_name(child):
    code = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'a) Z 1\\xff (b'); print(1, flush=True); time.sleep(60)"
    started = child(code)
    found = read_process(started.pid)
    assert (found.pid, found.session) == (started.pid, started.pid)


@pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="knows the number of exit for these only")
def test_a_process_lives_while_one_of_its_threads_does(child):
    number = {"x86_64": 60, "aarch64": 93}[platform.machine()]  # exit of one thread
    code = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start();"
        f"print(1, flush=True); ctypes.CDLL(None).syscall({number}, 0)"
    )
    started = child(code)
    stat = Path(f"/proc/{started.pid}/stat")
    wait_until(lambda: stat.read_text().rsplit(")")[-1].split()[0] == "Z")
    assert process_start(started.pid) is not None


def test_a_signal_goes_to_the_very_process_or_to_nobody(child):
    started = child()
    found = read_process(started.pid)
    send_signal(found._replace(start=found.start - 1), signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.3)
    send_signal(found, signal.SIGKILL)
    assert started.wait(5) == -signal.SIGKILL
    send_signal(found, signal.SIGKILL)


@pytest.mark.parametrize("other", [SLEEP, OTHER_GROUP])
@pytest.mark.parametrize("dead", [False, True])
def test_stopping_takes_the_servers_children_along_also_those_of_a_dead_one(dead, other, start):
    server = start(SERVER, other)
    if dead:
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: server.exit_code() is not None)
    assert len(session_members(server.pid)) == (1 if dead else 2)
    server.stop()
    assert session_members(server.pid) == []
    assert server.exit_code() == -(signal.SIGKILL if dead else signal.SIGTERM)


@pytest.mark.parametrize("who", ["job", "guard"])
def test_who_ignores_sigterm_is_killed_after_the_grace_and_others_are_spared(who, start, child):
    server, stranger = start(SERVER, DEAF), child()
    begun = time.monotonic()
    if who == "job":
        server.stop(grace=0.5)
    else:
        end_processes(lambda: session_members(server.pid), 0.5)
    assert 0.5 <= time.monotonic() - begun < 5
    assert session_members(server.pid) == [] and stranger.poll() is None


def test_an_interrupted_stop_still_kills(start):
    server = start(DEAF)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            server.stop(grace=20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert session_members(server.pid) == []
    assert server.exit_code() == -signal.SIGKILL


def test_a_dead_servers_number_is_kept_from_others_until_it_was_stopped(start):
    server = start(SLEEP)
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: server.exit_code() == -signal.SIGKILL)
    os.kill(server.pid, 0)  # the zombie holds it
    server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_nothing_is_signalled_once_all_are_gone(start, child, monkeypatch):
    server = start(SLEEP)
    server.stop()
    sent = []
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    # As if the server's number had been given to another session.
    for other in (Process(server.pid, 1, server.pid), read_process(child().pid)):
        monkeypatch.setattr(server_process, "session_members", lambda session, other=other: [other])
        server.stop(grace=0.1)
    assert sent == []


def test_what_cannot_be_ended_is_reported(start, monkeypatch, caplog):
    server = start(SLEEP)
    monkeypatch.setattr(process, "KILL_WAIT", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(process, "send_signal", lambda *_: None)
        server.stop(grace=0.1)
    assert f"still there after SIGKILL: {server.pid}" in caplog.text
    server.stop()  # a second try
    assert server.exit_code() == -signal.SIGTERM


def test_the_exit_code_is_the_servers(start):
    server = start("print('up'); raise SystemExit(3)")
    wait_until(lambda: server.exit_code() is not None)
    assert server.exit_code() == 3
    server.stop()
    assert server.exit_code() == 3


@pytest.mark.parametrize("children", [(), (SLEEP, OTHER_GROUP)])
def test_the_server_and_its_children_end_when_the_job_is_killed(children, tmp_path, repository):
    environment = {**os.environ, "PYTHONPATH": str(repository / "scripts"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", JOB, SERVER, *children]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as job:
        pid = int(job.stdout.readline().split()[0])
        guards = [one for one in psutil.Process(job.pid).children() if one.pid != pid]
        job.kill()
    try:
        wait_until(lambda: not session_members(pid))
        wait_until(lambda: not any(guard.is_running() for guard in guards))
        assert len(guards) == 1
    finally:
        for member in session_members(pid):
            send_signal(member, signal.SIGKILL)


def test_the_guard_goes_when_the_server_was_stopped_or_cannot_start(start, tmp_path):
    def guards():
        return [one for one in psutil.Process().children() if server_process.__name__ in one.cmdline()]

    server = start(SLEEP)
    assert len(guards()) == 1
    server.stop()
    assert guards() == []
    with pytest.raises(UserError, match=r"missing cannot be run: .*No such file"):
        ServerProcess([str(tmp_path / "missing")], dict(os.environ), tmp_path / "log")
    assert guards() == []
