"""What all benchmarks share: the machine, timed processes, and values with their median."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The library is not installed; a benchmark imports this module before it.
sys.path.insert(0, str(ROOT / "scripts"))


@dataclass(frozen=True)
class Timed:
    """A finished process: seconds from its start to its exit, and what it printed."""

    seconds: float
    output: str


def timed(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Timed:
    """Run a command in a folder and return how long it took.

    Raises:
        SystemExit: if it failed; the end of its output is shown.
    """
    started = time.perf_counter()
    process = subprocess.run(
        list(command),
        cwd=folder,
        env=dict(environment) if environment is not None else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        raise SystemExit(f"{process.stdout[-6000:]}\n\nexit code {process.returncode}: {shlex.join(command)}")
    return Timed(seconds, process.stdout)


def snakemake(*arguments: str) -> list[str]:
    """Return the command line of Snakemake with these arguments."""
    return [sys.executable, "-m", "snakemake", *arguments]


def print_head(what: str) -> None:
    """Print what is measured, by which command, on which machine."""
    shown = [os.path.relpath(sys.argv[0]), *sys.argv[1:]]
    load = f"{os.getloadavg()[0]:.1f}"
    print(f"{what}\ncommand: python {shlex.join(shown)}\nmachine: {machine()}\nload before: {load}", flush=True)


def machine() -> str:
    """Return processor, cores, memory, GPUs and Python of this machine in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [processor(), f"{os.cpu_count()} cores", f"{memory:.0f} GiB", *(gpus() or ["no GPU"])]
    return ", ".join([*parts, f"Python {platform.python_version()}", platform.platform(terse=True)])


def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def gpus() -> list[str]:
    """Return the names of the NVIDIA GPUs; none where there is no driver."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    reply = subprocess.run(query, capture_output=True, text=True, check=False)
    return [line.strip() for line in reply.stdout.splitlines() if line.strip()] if reply.returncode == 0 else []


def print_values(name: str, values: Sequence[float], unit: str = "s", digits: int = 2) -> float:
    """Print all values and their median; return the median."""
    median = statistics.median(values)
    shown = "  ".join(f"{value:.{digits}f}" for value in values)
    print(f"{name:<44} median {median:8.{digits}f} {unit:<10} all: {shown}", flush=True)
    return median


def print_limit(name: str, value: float, limit: float, unit: str = "", at_least: bool = False) -> None:
    """Print a value beside its limit, and whether it keeps it."""
    kept = value >= limit if at_least else value <= limit
    sign, verdict = ("at least" if at_least else "at most"), ("kept" if kept else "NOT KEPT")
    print(f"{name:<44} {value:.2f} {unit} ({sign} {limit:g}: {verdict})", flush=True)
