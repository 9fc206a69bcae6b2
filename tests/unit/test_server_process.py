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

from refusal_eval.engines import server_process as module
from refusal_eval.engines.guard import end_session
from refusal_eval.engines.process import (
    Process,
    live_processes,
    process_start,
    read_process,
    send_signal,
    session_members,
)
from refusal_eval.engines.server_process import ServerProcess

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
OTHER_GROUP = f"import os; os.setpgid(0, 0); {SLEEP}"
WITH_CHILD = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); " + SLEEP
GUARD = "refusal_eval.engines.guard"
JOB = """
import os, sys, time
from pathlib import Path
from refusal_eval.engines.server_process import ServerProcess
log = Path(sys.argv[1])
server = ServerProcess([sys.executable, "-c", *sys.argv[2:]], dict(os.environ), log)
while log.read_text().count("up") < len(sys.argv) - 2:
    time.sleep(0.02)
print(server.pid, flush=True)
time.sleep(60)
"""


def wait_until(condition, seconds=10.0):
    """Fail if the condition does not become true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path):
    """Return how to start a server of `ups` processes and wait until all are up; end what a test leaves."""
    servers = []

    def start_server(*arguments, ups=1):
        server = ServerProcess([sys.executable, "-c", *arguments], dict(os.environ), tmp_path / f"log{len(servers)}")
        servers.append(server)
        wait_until(lambda: server.last_lines().count("up") == ups)
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

    def start_child(code):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
        children.append(process)
        process.stdout.readline()
        return process

    yield start_child
    for process in children:
        with process:
            process.kill()


def test_a_process_is_known_by_its_start_until_it_is_dead(child):
    started = child(SLEEP)
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
    assert (found.pid, found.session, found.group) == (started.pid, started.pid, started.pid)


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
    started = child(SLEEP)
    found = read_process(started.pid)
    send_signal(found._replace(start=found.start - 1), signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.3)
    send_signal(found, signal.SIGKILL)
    assert started.wait(5) == -signal.SIGKILL
    send_signal(found, signal.SIGKILL)


def test_stopping_takes_the_servers_children_along(start):
    server = start(WITH_CHILD, SLEEP, ups=2)
    assert len(session_members(server.pid)) == 2
    server.stop()
    assert session_members(server.pid) == []
    assert server.exit_code() == -signal.SIGTERM


def test_stopping_ends_the_children_of_a_dead_server(start):
    server = start(WITH_CHILD, SLEEP, ups=2)
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: server.exit_code() is not None)
    assert len(session_members(server.pid)) == 1
    server.stop()
    assert session_members(server.pid) == []
    assert server.exit_code() == -signal.SIGKILL


def test_stopping_ends_a_child_that_made_a_group_of_its_own(start):
    server = start(WITH_CHILD, OTHER_GROUP, ups=2)
    assert len({member.group for member in session_members(server.pid)}) == 2
    server.stop()
    assert session_members(server.pid) == []


def test_who_ignores_sigterm_is_killed_after_the_grace(start):
    server = start(WITH_CHILD, DEAF, ups=2)
    started = time.monotonic()
    server.stop(grace=0.5)
    assert 0.5 <= time.monotonic() - started < 5
    assert session_members(server.pid) == []


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
    stranger = read_process(child(SLEEP).pid)
    sent = []
    monkeypatch.setattr(os, "killpg", lambda *arguments: sent.append(arguments))
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    # As if the server's number had been given to another session.
    monkeypatch.setattr(module, "session_members", lambda session: [Process(server.pid, 1, server.pid, server.pid)])
    server.stop(grace=0.1)
    monkeypatch.setattr(module, "session_members", lambda session: [stranger])
    server.stop(grace=0.1)
    assert sent == []


def test_what_cannot_be_ended_is_told(start, monkeypatch, caplog):
    server = start(SLEEP)
    monkeypatch.setattr(module, "KILL_WAIT", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda *_: None)
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


@pytest.mark.parametrize("ups", [(SLEEP,), (WITH_CHILD, SLEEP), (WITH_CHILD, OTHER_GROUP)])
def test_the_server_and_its_children_end_when_the_job_is_killed(ups, tmp_path, repository):
    command = [sys.executable, "-c", JOB, str(tmp_path / "log"), *ups]
    environment = {**os.environ, "PYTHONPATH": str(repository / "scripts")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        guards = [child for child in psutil.Process(process.pid).children() if child.pid != pid]
        process.kill()
    try:
        wait_until(lambda: not session_members(pid))
        wait_until(lambda: not any(guard.is_running() for guard in guards))
        assert len(guards) == 1
    finally:
        for member in session_members(pid):
            send_signal(member, signal.SIGKILL)


def test_the_guard_goes_when_the_server_was_stopped_or_cannot_start(start, tmp_path):
    def guards():
        return [child for child in psutil.Process().children() if GUARD in child.cmdline()]

    server = start(SLEEP)
    assert len(guards()) == 1
    server.stop()
    assert guards() == []
    with pytest.raises(OSError):
        ServerProcess([str(tmp_path / "missing")], dict(os.environ), tmp_path / "log")
    assert guards() == []


def test_the_guard_kills_who_ignores_sigterm_and_spares_others(start, child):
    server, stranger = start(WITH_CHILD, DEAF, ups=2), child(SLEEP)
    started = time.monotonic()
    end_session(server.pid, grace=0.5)
    assert 0.5 <= time.monotonic() - started < 5
    assert session_members(server.pid) == [] and stranger.poll() is None
