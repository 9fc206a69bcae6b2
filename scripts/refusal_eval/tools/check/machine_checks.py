"""Memory, shared memory, processor, limits, clock and temporary folder of a machine."""

from __future__ import annotations

import fcntl
import os
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from refusal_eval.core.memory import main_memory
from refusal_eval.engines.private_folder import socket_folders, why_no_socket
from refusal_eval.tools.check.check import Check, fail, not_applicable, ok, warn
from refusal_eval.tools.check.study_facts import EngineNeeds

GIB = 2**30
SHARED_BYTES_PER_GPU = 2**30 // 2  # vLLM's and NCCL's buffers between the processes of one engine
LEAST_MEMORY = 4 * GIB
FILES_BESIDE_REQUESTS = 512
MOST_SKEW = 2.0  # seconds between this clock and that of the disk; make and Snakemake compare times of files


def memory_check(total: int, available: int, engine: EngineNeeds) -> Check:
    """Return whether main memory is enough for an engine (bytes)."""
    name = f"memory for {engine.name}"
    need = max(engine.memory_share * total, (engine.weights_bytes or 0) * 1.2) if engine.device == "cpu" else 0
    if engine.device != "cpu":
        need = max(LEAST_MEMORY, (engine.weights_bytes or 0) / 10)  # weights pass through it, file by file
    about = " (estimated)" if engine.estimated else ""
    seen = f"{need / GIB:.1f} GiB needed{about}, {available / GIB:.1f} of {total / GIB:.1f} GiB free"
    if need <= available:
        return ok(name, seen)
    if engine.device != "cpu":
        return warn(name, seen, "loading may be slow or be killed: ask Slurm for more memory, or close programs")
    return fail(name, seen, "lower `memory_share`, close other programs, or take a smaller model")


def shared_memory_check(size: int | None, engines: Sequence[EngineNeeds]) -> Check:
    """Return whether shared memory (`/dev/shm`, bytes) is enough for engines of several processes."""
    name = "shared memory"
    largest = max((engine.gpus_here for engine in engines), default=0)
    if largest < 2:
        return not_applicable(name, "no engine takes several GPUs of one machine")
    need = largest * SHARED_BYTES_PER_GPU
    if size is None:
        return fail(name, "there is no /dev/shm", "in a container: `--shm-size`, or `--ipc=host`")
    seen = f"{size / GIB:.1f} GiB in /dev/shm, {need / GIB:.1f} GiB for {largest} GPUs"
    if size < need:
        return fail(name, seen, f"in a container: `--shm-size={need // GIB + 1}g`, or `--ipc=host`")
    return ok(name, seen)


def processor_check(machine: str, flags: Collection[str], engine_kind: str) -> Check:
    """Return whether the processor can run the CPU build, and how fast."""
    name = "processor"
    if engine_kind != "cpu":
        return not_applicable(name, "the engine is no CPU build")
    if machine != "x86_64":
        return ok(name, machine)
    if "avx2" not in flags:
        return fail(name, "no AVX2", "the CPU build of vLLM does not run here: use another machine")
    if "avx512f" not in flags:
        return warn(name, "AVX2, no AVX-512", "it works, several times slower than with AVX-512")
    return ok(name, "AVX-512" + (", bfloat16" if "avx512_bf16" in flags else ""))


def open_files_check(hard: int, in_flight: int) -> Check:
    """Return whether a process may open a connection per request in flight; a job raises its own limit to `hard`."""
    name, need = "open files", in_flight + FILES_BESIDE_REQUESTS
    if hard < 0 or hard >= need:
        return ok(name, f"{'any number' if hard < 0 else hard} allowed, {need} needed")
    return fail(
        name,
        f"{hard} allowed, {need} needed",
        "raise the hard limit (`ulimit -Hn`) or lower the study's `requests_in_flight`",
    )


def sockets_check(reasons: Sequence[tuple[str, str | None]]) -> Check:
    """Return whether there is a folder for the engine's Unix sockets.

    Args:
        reasons: folders in the order of choice, each with why it will not do, or None if it will.
    """
    name = "sockets"
    good = [folder for folder, reason in reasons if reason is None]
    if not good:
        told = "; ".join(f"{folder}: {reason}" for folder, reason in reasons)
        return fail(name, told, "set TMPDIR to a short path on a local disk")
    first, why = reasons[0]
    if why is not None:
        todo = "nothing, if that is fine; or set TMPDIR to a shorter path on a local disk"
        return warn(name, f"{first}: {why}; {good[0]} is used instead", todo)
    return ok(name, f"they work in {good[0]}")


def locks_check(folder: str, error: str | None) -> Check:
    """Return whether file locks work in the folder of the leases; an empty one if there is no such folder."""
    if error is None:
        return ok("file locks", f"they work in {folder}")
    return fail(
        "file locks",
        f"{folder}: {error}" if folder else error,
        "set REFUSAL_EVAL_LOCKS to a folder of yours on a local disk",
    )


def clock_check(folder: str, skew: float | None) -> Check:
    """Return whether this machine's clock agrees with that of the disk of the results (seconds, positive: ahead)."""
    name = "clock"
    if skew is None:
        return warn(name, f"cannot write in {folder}", "make it, or set `results_dir` to a folder of yours")
    if abs(skew) <= MOST_SKEW:
        return ok(name, f"agrees with the disk of {folder} to {abs(skew):.1f} s")
    side = "ahead of" if skew > 0 else "behind"
    todo = "set the clock (`timedatectl set-ntp true`), or ask the administrator: jobs rerun or wait for no reason"
    return fail(name, f"{abs(skew):.0f} s {side} the disk of {folder}", todo)


# --- Reading -------------------------------------------------------------------------------------------------------


def read_memory() -> tuple[int, int]:
    """Return the machine's main memory and what of it this process may still take, in bytes."""
    return main_memory()


def read_shared_memory() -> int | None:
    """Return the free bytes of /dev/shm; None if there is none."""
    return shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else None


def read_processor() -> tuple[str, frozenset[str]]:
    """Return the machine's kind and the features of its processor."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as handle:
        line = next((line for line in handle if line.startswith(("flags", "Features"))), ":")
    return platform.machine(), frozenset(line.split(":", 1)[1].split())


def read_open_files() -> int:
    """Return the most files that a process may open; -1 for any number."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return -1 if hard == resource.RLIM_INFINITY else hard


def read_sockets() -> list[tuple[str, str | None]]:
    """Return the folders in which an engine's sockets may lie, and what speaks against each."""
    return [(folder, _why_not(folder)) for folder in socket_folders()]


def read_locks(folder: str) -> str | None:
    """Return why file locks do not work in a folder, or None if they do."""
    try:
        with tempfile.TemporaryFile(dir=folder) as one:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.strerror or str(error)
    return None


def read_skew(folder: Path) -> float | None:
    """Return how far this machine's clock is ahead of that of a folder's disk; None if nothing can be written there.

    The folder need not be there: the nearest one above it is taken.
    """
    place = next(one for one in (folder, *folder.absolute().parents) if one.is_dir())
    try:
        with tempfile.NamedTemporaryFile(dir=place) as handle:
            before = time.time()
            handle.write(b"x")
            handle.flush()
            os.utime(handle.name)  # without a time: the disk's own clock
            written = os.stat(handle.name).st_mtime
            after = time.time()
    except OSError:
        return None
    return before - written if written < before else after - written if written > after else 0.0


def _why_not(folder: str) -> str | None:
    try:
        made = tempfile.mkdtemp(prefix="refusal-eval-", dir=folder)
    except OSError as error:
        return error.strerror or str(error)
    try:
        return why_no_socket(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)
