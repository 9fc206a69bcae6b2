"""A job as `scripts/execute.py` is one, for test_leases.py: it leases devices, starts a server on them, and stops it.

The server is a process that starts a worker which does not inherit its open files, as vLLM's engine core; the worker
holds a witness of its own on each device, and tells if somebody else was there.
"""

import os
import sys
import time
from pathlib import Path

from refusal_eval.engines.devices.lease import lease_devices
from refusal_eval.engines.server_process import ServerProcess

WORKER = """
import fcntl, os, signal, sys, time
folder, name, hold = sys.argv[1], sys.argv[2], float(sys.argv[3])
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
files = []
for device in os.environ["CUDA_VISIBLE_DEVICES"].split(","):
    file = open(f"{folder}/witness-{device}", "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        open(f"{folder}/twice-{device}-{name}", "w").close()
    files.append(file)
begun = time.time()
open(f"{folder}/using-{name}", "w").close()
while not stopped and time.time() - begun < hold + 4:
    time.sleep(0.02)
time.sleep(0.3)  # memory is given back some time after the signal
with open(f"{folder}/used", "a") as used:
    used.write(f"{name} {len(files)} {time.time() - begun:.2f}\\n")
"""
SERVER = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', *sys.argv[1:]])"


def main(folder: str, name: str, count: int, hold: float) -> None:
    """Use `count` devices for `hold` seconds."""
    lease = lease_devices(count, os.environ)
    command = [sys.executable, "-S", "-c", SERVER, WORKER, folder, name, str(hold)]
    environment = dict(os.environ) | lease.environment()
    server = ServerProcess(command, environment, Path(folder, f"log-{name}"), lease.files)
    lease.hand_to(server.pid)
    while not Path(folder, f"using-{name}").exists() and server.exit_code() is None:
        time.sleep(0.02)
    time.sleep(hold)
    server.stop()
    lease.release()
    Path(folder, f"done-{name}").touch()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
