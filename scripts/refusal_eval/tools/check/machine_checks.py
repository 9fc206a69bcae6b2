"""Memory, processor, limits, folders, clock and disk of a machine."""

import fcntl
import os
import platform
import resource
import shlex
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path, size_text
from refusal_eval.core.memory import main_memory
from refusal_eval.data.resume import PARTIAL, being_written
from refusal_eval.engines.devices.lease import lock_folder
from refusal_eval.engines.private_folder import socket_folders, why_no_socket
from refusal_eval.tools.check.check_lines import CheckLine, CheckOutcome, fail, not_applicable, ok, warn
from refusal_eval.tools.check.study_needs import EngineHere, Needs
from refusal_eval.tools.plan.disk_use import SPARE, disks, nearest_folder, read_free

GIB, GB = 2**30, 10**9
SHARED_BYTES_PER_GPU = GIB // 2  # vLLM's and NCCL's buffers between the processes of one engine
LEAST_MEMORY = 4 * GIB
FILES_BESIDE_REQUESTS = 512
MOST_SKEW = 2.0  # seconds between this clock and that of the disk; make and Snakemake compare times of files
LOW_RESULTS, LOW_CACHE = GB, 5 * GB
STALE_DAYS = 7  # an unfinished download that lives is written every few seconds
DAY = 24 * 60 * 60
ENDINGS = (PARTIAL, ".incomplete")  # ours, and those of the hub's library, which a kill leaves behind


def machine_lines(needs: Needs | None, kind: str, variables: Mapping[str, str]) -> Iterator[CheckLine]:
    """Yield the report's lines on this machine."""
    engines, of_study = needs.engines if needs else (), needs or Needs()
    for engine in engines:
        yield f"memory for {engine.name}", memory(engine, *main_memory())
    shared = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else None
    yield "shared memory", shared_memory(engines, shared)
    yield "processor", processor(kind, platform.machine(), Path("/proc/cpuinfo").read_text(errors="replace").split())
    yield "open files", open_files(of_study.in_flight, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    yield "sockets", sockets([(folder, _why_no_sockets(folder)) for folder in socket_folders()])
    yield "file locks", file_locks(variables)
    results, cache = of_study.results, of_study.cache
    for disk in disks(of_study.disk, read_free):
        # What is only downloaded is below: that line knows what a download has already.
        if disk["folders"] != [cache]:
            holds = "results" if any(Path(one).is_relative_to(results) for one in disk["folders"]) else "responses"
            yield f"disk for {holds}", results_disk(disk)
    yield "disk for downloads", cache_disk(cache, read_free(cache), of_study)
    yield "unfinished downloads", unfinished_downloads(cache)
    yield "clock", clock(Path(results))


def memory(engine: EngineHere, total: int, available: int) -> CheckOutcome:
    """Return whether main memory is enough for an engine (bytes)."""
    need, _why = engine.engine.memory_needed(engine.weights or 0, total)
    if engine.device != "cpu":
        need = max(LEAST_MEMORY, (engine.weights or 0) / 10)  # weights pass through it, file by file
    seen = f"{need / GIB:.1f} GiB needed{engine.about}, {available / GIB:.1f} of {total / GIB:.1f} GiB free"
    if need <= available:
        return ok(seen)
    if engine.device != "cpu":
        return warn(seen, "loading may be slow or be killed: ask Slurm for more memory, or close programs")
    return fail(seen, "lower `memory_share`, close other programs, or take a smaller model")


def shared_memory(engines: Sequence[EngineHere], size: int | None) -> CheckOutcome:
    """Return whether shared memory (`/dev/shm`, bytes) is enough for engines of several processes."""
    largest = max((engine.gpus for engine in engines), default=0)
    if largest < 2:
        return not_applicable("no engine takes several GPUs of one machine")
    if size is None:
        return fail("there is no /dev/shm", "in a container: `--shm-size`, or `--ipc=host`")
    need = largest * SHARED_BYTES_PER_GPU
    seen = f"{size / GIB:.1f} GiB in /dev/shm, {need / GIB:.1f} GiB for {largest} GPUs"
    todo = f"in a container: `--shm-size={need // GIB + 1}g`, or `--ipc=host`"
    return fail(seen, todo) if size < need else ok(seen)


def processor(kind: str, machine: str, flags: Collection[str]) -> CheckOutcome:
    """Return whether the processor can run the CPU build, and how fast."""
    if kind != "cpu":
        return not_applicable("the engine is no CPU build")
    if machine != "x86_64":
        return ok(machine)
    if "avx2" not in flags:
        return fail("no AVX2", "the CPU build of vLLM does not run here: use another machine")
    if "avx512f" not in flags:
        return warn("AVX2, no AVX-512", "it works, several times slower than with AVX-512")
    return ok("AVX-512" + (", bfloat16" if "avx512_bf16" in flags else ""))


def open_files(in_flight: int, hard: int) -> CheckOutcome:
    """Return whether a process may open a connection per request in flight; a job raises its own limit to `hard`."""
    need, unlimited = in_flight + FILES_BESIDE_REQUESTS, hard == resource.RLIM_INFINITY
    seen = f"{'any number' if unlimited else hard} allowed, {need} needed"
    if unlimited or hard >= need:
        return ok(seen)
    return fail(seen, "raise the hard limit (`ulimit -Hn`) or lower the study's `requests_in_flight`")


def sockets(reasons: Sequence[tuple[str, str | None]]) -> CheckOutcome:
    """Return whether there is a folder for the engine's Unix sockets: by folders, each with why it will not do."""
    good = next((folder for folder, why in reasons if why is None), None)
    if good is None:
        text = "; ".join(f"{folder}: {why}" for folder, why in reasons)
        return fail(text, "set TMPDIR to a short path on a local disk")
    first, why = reasons[0]
    if why is None:
        return ok(f"they work in {good}")
    todo = "nothing, if that is fine; or set TMPDIR to a shorter path on a local disk"
    return warn(f"{first}: {why}; {good} is used instead", todo)


def file_locks(variables: Mapping[str, str]) -> CheckOutcome:
    """Return whether leases of GPUs can be noted where jobs will; the folder is made if need be."""
    folder = "the folder of the leases"
    try:
        folder = str(lock_folder(variables))
        with tempfile.TemporaryFile(dir=folder) as one:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (UserError, OSError) as error:
        seen = f"{folder}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
        return fail(seen, "set REFUSAL_EVAL_LOCKS to a folder of yours on a local disk")
    return ok(f"they work in {folder}")


def results_disk(disk: Mapping[str, Any]) -> CheckOutcome:
    """Return whether there is room for what a study puts on a disk, which is described as by `disk_use.disks`."""
    seen = f"{size_text(disk['free'])} free on the disk of {', '.join(map(shown_path, disk['folders']))}"
    if disk["most"]:
        seen += (
            f"; {size_text(disk['expected'])} needed, {size_text(disk['most'])} if all answers are as long as may be"
        )
    if disk["verdict"] == "too small":
        return fail(seen, disk["todo"])
    return warn(seen, disk["todo"]) if disk["verdict"] == "tight" or disk["free"] < LOW_RESULTS else ok(seen)


def cache_disk(folder: str, free: int, needs: Needs) -> CheckOutcome:
    """Check that there is room for what is still to be fetched (bytes), as far as its size is known."""
    seen, todo = f"{free / GB:.1f} GB free in {shown_path(folder)}", "make room, or set `cache_dir` to a larger disk"
    weights = needs.weights
    if weights:
        seen += "; to be fetched: " + ", ".join(f"{source.what} ({source.size_text})" for source in weights)
    total = needs.weights_size
    if total * SPARE > free:
        return fail(f"{seen}; {size_text(total)} in all", todo)
    if free < LOW_CACHE:
        return fail(seen, todo) if weights and free < LOW_RESULTS else warn(seen, todo)
    return ok(seen)


def unfinished_downloads(cache: str) -> CheckOutcome:
    """Check for unfinished downloads that have not grown for a week."""
    shown, now, sizes, days, repositories = shown_path(cache), time.time(), [], [], set()
    for path in Path(cache, "hub").glob("*/blobs/*"):
        try:
            status = os.stat(path)
            if path.name.endswith(ENDINGS) and now - status.st_mtime > STALE_DAYS * DAY and not being_written(path):
                kind, _, name = path.parent.parent.name.partition("--")  # models--owner--name
                repositories.add(f"{kind.removesuffix('s')} {name.replace('--', '/', 1)}")
                sizes.append(status.st_size)
                days.append((now - status.st_mtime) / DAY)
        except OSError:  # it was just finished or removed
            continue
    if not sizes:
        return ok(f"none in {shown} that is older than {STALE_DAYS} days")
    files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
    # The command looks at their times again, and so spares what was continued since.
    endings = " -o ".join(f"-name '*{ending}'" for ending in ENDINGS)
    removal = rf"find {shlex.quote(f'{shown}/hub')} -type f \( {endings} \) -mmin +{STALE_DAYS * DAY // 60} -delete"
    text = f"{files}, {size_text(sum(sizes))}, of {', '.join(sorted(repositories))}"
    return warn(
        f"{text}; not written to for {min(days):.0f} days",
        f"`make fetch` goes on with those that a study still takes; this removes them: `{removal}`",
    )


def clock(folder: Path) -> CheckOutcome:
    """Check that this machine's clock agrees with that of a folder's disk.

    If the folder does not exist, its nearest existing parent is used.
    """
    shown = shown_path(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=nearest_folder(folder)) as handle:
            before = time.time()
            os.utime(handle.name)  # without a time: the disk's own clock
            written, after = os.stat(handle.name).st_mtime, time.time()
    except OSError:
        return warn(f"cannot write in {shown}", "make it, or set `results_dir` to a folder of yours")
    ahead, behind = before - written, written - after
    skew = max(ahead, behind, 0.0)
    if skew <= MOST_SKEW:
        return ok(f"agrees with the disk of {shown} to {skew:.1f} s")
    side = "ahead of" if ahead > 0 else "behind"
    todo = "set the clock (`timedatectl set-ntp true`), or ask the administrator: jobs rerun or wait for no reason"
    return fail(f"{skew:.0f} s {side} the disk of {shown}", todo)


def _why_no_sockets(folder: str) -> str | None:
    try:
        with tempfile.TemporaryDirectory(prefix="refusal-eval-", dir=folder) as made:
            return why_no_socket(made)
    except OSError as error:
        return error.strerror or str(error)
