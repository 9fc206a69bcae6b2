"""Scripts of rules, each run in a fork of a process that has loaded their libraries: jobs start two seconds sooner."""

import ast
import io
import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
# They start engines, and tests end them in all ways.
OWN_PROCESS = ("execute.py", "capture_activations.py", "search_prompts.py", "compute_gradients.py")
MOST = 1 << 20  # bytes of a job's environment
# As Snakemake sets them for a job; linear algebra reads them when it is loaded.
THREADS = ("OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def serve_jobs() -> str:
    """Fork a process that runs scripts until this one ends; return the path of its socket."""
    path = str(Path(tempfile.mkdtemp(prefix="jobs-", dir="/tmp"), "socket"))  # a TMPDIR may be that of one test
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(path)
    door.listen(64)
    if os.fork():
        door.close()
        return path
    _load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries those that are done
    while True:
        asked, _ = door.accept()
        if os.fork() == 0:
            door.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(asked)
        asked.close()


def _load() -> None:
    """Load what scripts import, and what a first figure loads."""
    from refusal_eval.engines.stopping import end_with_parent

    end_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ |= dict.fromkeys(THREADS, "1")
    for script in sorted(SCRIPTS.glob("*.py")):
        for node in ast.parse(script.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                exec(ast.unparse(node), {})
    import snakemake.iocontainers  # noqa: F401 - what a job's first lines load
    from matplotlib.figure import Figure

    for ending in ("pdf", "svg", "png"):
        Figure().savefig(io.BytesIO(), format=ending)


def _answer(asked: socket.socket) -> None:
    """Run one script in a fork, and send back its exit code."""
    text, files, *_ = socket.recv_fds(asked, MOST, 2)
    if pid := os.fork():
        asked.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        os._exit(0)
    job = json.loads(text)
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    tempfile.tempdir = None  # it is asked for again
    sys.argv = [job["script"]]
    code = 0
    try:
        runpy.run_path(job["script"], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def fork_jobs(path: str) -> None:
    """Let this process of Snakemake have the scripts of this repository run there, but for those that start engines."""
    from snakemake.script import PythonScript

    in_a_process = PythonScript.execute_script

    def execute_script(self: Any, fname: str, edit: bool = False) -> None:
        script = Path(self.path.get_path_or_uri(secret_free=True))
        own = script.name in OWN_PROCESS or script.resolve().parent != SCRIPTS
        if own or edit or self.conda_env or self.container_img:
            in_a_process(self, fname, edit)
            return
        env = {**os.environ, **dict.fromkeys(THREADS, str(self.threads))}
        if folder := self.resources.get("tmpdir"):
            env |= dict.fromkeys(("TMPDIR", "TMP", "TEMPDIR", "TEMP"), str(folder))
        if code := _run(path, fname, env):
            raise subprocess.CalledProcessError(code, f"{sys.executable} {fname}")

    PythonScript.execute_script = execute_script


def _run(path: str, script: str, env: dict[str, str]) -> int:
    job = {"script": os.path.abspath(script), "cwd": os.getcwd(), "env": env}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
        asked.connect(path)
        socket.send_fds(asked, [json.dumps(job).encode()], [1, 2])
        return int(asked.recv(64) or b"1")
