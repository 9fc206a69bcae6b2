"""Running snakemake as a terminal does, disturbing it, and looking at what is left: processes, records, sockets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from project import ROOT, Project

from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import read_json

START_SECONDS = 240.0  # that an engine may take to start and answer its first requests, on a busy machine
RUN_SECONDS = 600.0  # for a whole run
GONE_SECONDS = 20.0  # within which nothing of a killed run may be left
SERVER = "vllm_server.py"
GUARD = "refusal_eval.engines.server_process"
RECORD = b'{"key":"'


@dataclass
class Run:
    """A snakemake in a session of its own, as a terminal's foreground job is, with a folder for temporary files."""

    project: Project
    temporary: Path
    process: subprocess.Popen[bytes]
    output: Path
    started: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        """Return what was printed so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait(self, seconds: float = RUN_SECONDS) -> int:
        """Return the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"snakemake does not end:\n{self.said()[-4000:]}") from None

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started


class Place:
    """A study's folder, with temporary files of its own, so that what runs leave behind is seen and nothing else.

    Use it as a context manager: at the end whatever still runs there is killed.
    """

    def __init__(self, project: Project, compiled: Path) -> None:
        self.project = project
        # Short, because the engine's sockets lie in it.
        self.temporary = Path(tempfile.mkdtemp(prefix="faults-", dir="/tmp"))
        self._compiled = compiled
        self._runs = 0
        self._spared: set[int] = set()

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def start(self, *arguments: str) -> Run:
        """Start snakemake for the answers of the study."""
        command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")]
        command += ["--directory", str(self.project.folder), "--configfile", str(self.project.folder / "study.yaml")]
        command += ["--cores", "2", *(arguments or ("--until", "answers"))]
        self._runs += 1
        output = self.project.folder / f"run{self._runs}.txt"
        hidden = ("XDG_RUNTIME_DIR",)  # records of running engines go to the temporary files, too
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {"NO_COLOR": "1", "TMPDIR": str(self.temporary)}
        # The engine compiles a few kernels at its first request (15-20 s); here only in the first of all runs.
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(self._compiled)
        with open(output, "wb") as stream:
            process = subprocess.Popen(
                command,
                cwd=self.project.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Where the tests run in the background, SIGINT is ignored, and children inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        return Run(self.project, self.temporary, process, output)

    def run(self, *arguments: str) -> Run:
        """Run snakemake to its end."""
        run = self.start(*arguments)
        run.wait()
        return run

    def spare(self, *pids: int) -> None:
        """Do not count these processes, which are not of a run, among those in the folder."""
        self._spared.update(pids)

    def processes(self) -> list[psutil.Process]:
        """Return the live processes whose working folder is the project's: all of a run's inherit it."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if (
                    process.pid not in self._spared
                    and Path(process.cwd()).is_relative_to(self.project.folder)
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found

    def locked(self) -> bool:
        """Tell whether Snakemake's lock was left in the folder."""
        return any((self.project.folder / ".snakemake").glob("locks/*"))

    def sockets(self) -> list[Path]:
        """Return the sockets among the temporary files."""
        return [path for path in self.temporary.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]

    def private_folders(self) -> list[Path]:
        """Return the folders of engines; the folder where running engines are recorded is none, and may be empty."""
        kept = f"refusal-eval-{os.getuid()}"
        return [path for path in self.temporary.glob("refusal-eval-*") if path.name != kept]

    def engine_records(self) -> list[Path]:
        """Return the records of running engines."""
        return sorted((self.temporary / f"refusal-eval-{os.getuid()}").glob("*.json"))


# ---------------------------------------------------------------- waiting and finding


def wait_for(what: str, condition: Callable[[], Any], seconds: float, run: Run | None = None) -> Any:
    """Return the first true value of a condition.

    Raises:
        AssertionError: if it takes longer than `seconds`, or if the run ends before.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        ended = run is not None and run.process.poll() is not None
        if ended or time.monotonic() > deadline:
            said = run.said()[-4000:] if run else ""
            raise AssertionError(f"{'the run ended without' if ended else 'no'} {what} in {seconds:.0f} s\n{said}")
        time.sleep(0.2)
    return value


def wait_for_records(run: Run, count: int, store: Path | None = None) -> None:
    """Wait until the store holds `count` records."""
    folder = store or run.project.store
    wait_for(f"{count} records", lambda: len(stored(folder)) >= count, START_SECONDS, run)


def job_of(run: Run) -> psutil.Process:
    """Return the job that executes requests: the script that snakemake runs."""
    found = wait_for("job", lambda: _descendant(run.pid, ".execute.py"), START_SECONDS, run)
    assert isinstance(found, psutil.Process)
    return found


def server_of(run: Run) -> psutil.Process:
    """Return the first process of the engine's server."""
    found = wait_for("server", lambda: _descendant(run.pid, SERVER), START_SECONDS, run)
    assert isinstance(found, psutil.Process)
    return found


def guard_of(run: Run) -> psutil.Process:
    """Return the process that ends the server when the job is gone."""
    found = wait_for("guard", lambda: _descendant(run.pid, GUARD), START_SECONDS, run)
    assert isinstance(found, psutil.Process)
    return found


def session_of(server: psutil.Process) -> list[psutil.Process]:
    """Return the processes of a server: all of its session."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == server.pid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _descendant(pid: int, word: str) -> psutil.Process | None:
    """Return the first Python process below `pid`, those nearest to it first, with an argument that ends so."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error, IndexError):
                command = child.cmdline()
                if Path(command[0]).name.startswith("python") and any(part.endswith(word) for part in command[1:]):
                    return child
    return None


def interrupt(run: Run) -> None:
    """Send SIGINT to the process group, as Ctrl-C in a terminal does."""
    os.killpg(run.pid, signal.SIGINT)


# ---------------------------------------------------------------- the store


def stored(store: Path) -> dict[str, list[bytes]]:
    """Return the whole records of a store by key, in the order of files and lines, read without the library."""
    found: dict[str, list[bytes]] = {}
    for path in sorted(store.glob("*/*.jsonl")):
        with suppress(FileNotFoundError):
            for line in path.read_bytes().splitlines(keepends=True):
                if line.startswith(RECORD) and line.endswith(b"\n"):
                    found.setdefault(json.loads(line)["key"], []).append(line)
    return found


def winners(project: Project, store: Path | None = None) -> dict[str, Any]:
    """Return the record that counts of every request of the study that has one."""
    found: dict[str, Any] = {}
    for file in project.request_files("requests"):
        reader = StoreReader(store or project.store, file.header["engine_id"])
        keys = list(file.keys())
        found |= reader.lookup([key for key in keys if key is not None])
    return found


def contents(folder: Path, pattern: str = "*.jsonl") -> dict[str, bytes]:
    """Return the bytes of files by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob(pattern))}


def answers(project: Project) -> dict[str, bytes]:
    """Return the bytes of the answers by path."""
    return contents(project.results / "answers")


def receipts(project: Project) -> dict[str, dict[str, Any]]:
    """Return the receipts by path."""
    folder = project.results / "receipts"
    return {str(path.relative_to(folder)): read_json(path) for path in sorted(folder.rglob("*.json"))}


def receipt_times(project: Project) -> dict[str, int]:
    """Return when each receipt was written, by path."""
    folder = project.results / "receipts"
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in sorted(folder.rglob("*.json"))}


def executed_since(project: Project, earlier: Mapping[str, int]) -> int:
    """Return the requests that servers counted, over the receipts that were written since."""
    now = receipt_times(project)
    new = [receipt for path, receipt in receipts(project).items() if now[path] != earlier.get(path)]
    return sum(executed_at_server(receipt) for receipt in new)


def executed_at_server(receipt: Mapping[str, Any]) -> int:
    """Return the requests that the server of a receipt counted, after a check of the receipt's own count."""
    if "engine" not in receipt:
        assert receipt["executed"] == 0
        return 0
    counted = int(receipt["engine"]["counters"]["requests"])
    assert counted == receipt["executed"], "the receipt counts what the server counted"
    return counted


def only_grown(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """Tell whether every file still begins with what it held."""
    return all(after.get(name, b"").startswith(content) for name, content in before.items())
