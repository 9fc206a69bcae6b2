"""Processes that say `up` and sleep: as servers, as their children, as jobs, and as strangers."""

import subprocess
import sys
import time

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
OTHER_GROUP = f"import os; os.setpgid(0, 0); {SLEEP}"
# A server that starts a child for each of its arguments, as an API server its engine core and workers.
SERVER = f"import subprocess, sys; [subprocess.Popen([sys.executable, '-S', '-c', x]) for x in sys.argv[1:]]; {SLEEP}"
# A job that starts a server. It prints the server's number and its private folder when all processes are up.
JOB = """
import os, sys, tempfile, time
from pathlib import Path
from refusal_eval.engines.server_process import ServerProcess
from refusal_eval.engines.server_records import ServerRecord
private = Path(tempfile.mkdtemp(prefix="refusal-eval-"))
Path(private, "engine.sock").touch()
server = ServerProcess([sys.executable, "-S", "-c", *sys.argv[1:]], dict(os.environ), private / "log")
record = ServerRecord(server, str(private))
while server.last_lines().count("up") < len(sys.argv) - 1:
    time.sleep(0.02)
record.update()
print(server.pid, private, flush=True)
time.sleep(60)
"""


def wait_until(condition, seconds=10.0):
    """Fail if the condition does not become true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def started(code=SLEEP):
    """Return a process with a session of its own that is up."""
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    return process
