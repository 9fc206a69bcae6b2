"""Are the GPUs and their driver what the engines need?"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refusal_eval.devices import smi
from refusal_eval.devices.pool import VISIBLE, device_pool, pool_in_words
from refusal_eval.doctor.check import Check, fail, not_applicable, ok, warn
from refusal_eval.doctor.study import EngineNeeds
from refusal_eval.errors import UserError

QUERY = ("index", "name", "memory.total", "memory.used", "driver_version", "compute_cap")
ASK_SECONDS = 60
# The oldest Linux driver that runs programs built for a CUDA version, as NVIDIA's release notes list it.
OLDEST_DRIVERS: Mapping[int, tuple[int, ...]] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
OLDEST_CAPABILITY: Mapping[int, float] = {11: 5.0, 12: 7.0, 13: 7.5}  # of vLLM's wheels for a CUDA version
BFLOAT16_CAPABILITY = 8.0
USED_MIB = 1024  # memory that a desktop or a monitor may hold
ROOM_FACTOR = 1.2  # weights and the least that a model works with


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi lists it; memory in MiB; capability 0 where the driver does not tell."""

    index: str
    name: str
    memory: int
    used: int
    driver: str
    capability: float


@dataclass(frozen=True)
class Seen:
    """What nvidia-smi said: its GPUs, or why there are none. `installed` tells whether the program is there."""

    installed: bool
    gpus: tuple[Gpu, ...] = ()
    error: str = ""


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of `nvidia-smi --query-gpu=... --format=csv`, with its heading line.

    Raises:
        ValueError: if it is not such a list.
    """
    rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    if not rows:
        return ()
    columns = {name.split(" [")[0]: place for place, name in enumerate(rows[0])}
    if not {"index", "name", "memory.total", "driver_version"} <= set(columns):
        raise ValueError(f"not a list of GPUs: {text.splitlines()[0][:80]}")

    def field(row: Sequence[str], name: str) -> str:
        return row[columns[name]].strip() if name in columns and columns[name] < len(row) else ""

    return tuple(
        Gpu(
            index=field(row, "index"),
            name=field(row, "name"),
            memory=_whole(field(row, "memory.total")),
            used=_whole(field(row, "memory.used")),
            driver=field(row, "driver_version"),
            capability=_number(field(row, "compute_cap")),
        )
        for row in rows[1:]
        if row
    )


def cuda_version(lock: str) -> int | None:
    """Return the major version of CUDA that a lock is built for; None if it does not say."""
    found = re.search(r"^(?:cuda-toolkit|nvidia-cuda-runtime(?:-cu\d+)?)==(\d+)\.", lock, re.MULTILINE)
    return int(found[1]) if found else None


@dataclass(frozen=True)
class Leasable:
    """The devices that a job may lease: how many, in words why no more, and what is wrong with their names."""

    count: int
    told: str
    error: str = ""


def leasable(variables: Mapping[str, str], gpus: Sequence[smi.Gpu]) -> Leasable:
    """Return what a job may lease of these GPUs: what CUDA_VISIBLE_DEVICES, Slurm or the machine leaves it.

    Args:
        variables: environment variables, of which those of this check stand for those of a job.
        gpus: what nvidia-smi lists.
    """
    try:
        pool = device_pool(variables, gpus)
    except UserError as error:
        return Leasable(0, "none", str(error))
    return Leasable(len(pool), pool_in_words(pool, variables, gpus))


def count_check(
    seen: Seen,
    engines: Sequence[EngineNeeds],
    engine_kind: str,
    login_node: bool,
    allowed: Leasable | None = None,
) -> Check:
    """Return whether there are as many GPUs as the largest engine takes here; without a study a CUDA build takes one.

    `allowed` is what of them a job may lease; None where nobody asked.
    """
    name = "GPUs"
    needed = max((engine.gpus_here for engine in engines), default=1 if engine_kind == "cuda" else 0)
    if not needed:
        return not_applicable(name, "no engine here needs one")
    if login_node and not seen.gpus:
        return not_applicable(name, "none on this login node; run `make doctor` in a job on a GPU node too")
    if not seen.installed:
        return fail(name, f"no nvidia-smi; {needed} needed", "install NVIDIA's driver, or set `device: cpu`")
    if not seen.gpus:
        todo = "does the kernel module match the driver (`dmesg | grep -i nvrm`)? A reboot may be due"
        return fail(name, f"nvidia-smi lists none: {seen.error or 'no devices were found'}", todo)
    names = [f"{gpu.name}, {gpu.memory / 1024:.0f} GiB" for gpu in seen.gpus]
    what = "; ".join(f"{names.count(one)} x {one}" for one in dict.fromkeys(names))
    if len(seen.gpus) < needed:
        largest = max(engines, key=lambda engine: engine.gpus_here)  # there is one: without engines one GPU is enough
        todo = "lower its `tensor_parallel`, `pipeline_parallel` or `data_parallel`, or take a smaller model"
        return fail(name, f"{what}; engine {largest.name} needs {needed}", todo)
    if allowed is not None and allowed.error:
        return fail(name, f"{what}; {allowed.error}", f"unset {VISIBLE}, or name devices that are there, each once")
    if allowed is not None and allowed.count < needed:
        told = f"of {what} a job may lease {allowed.told}; {needed} needed"
        return fail(name, told, f"unset {VISIBLE}, or name as many devices as are needed; in a Slurm job ask for them")
    return ok(name, f"{what}; {needed} needed at a time")


def driver_check(seen: Seen, engine_kind: str, cuda: int | None) -> Check:
    """Return whether the driver is new enough for the engine's build."""
    name = "driver"
    if engine_kind != "cuda" or not seen.gpus:
        return not_applicable(name, "no CUDA build, or no GPU")
    driver, oldest = seen.gpus[0].driver, OLDEST_DRIVERS.get(cuda or 0)
    if oldest is None:
        return warn(name, f"{driver}; which one CUDA {cuda} needs is not known here", "try `make gpu-check`")
    version = tuple(int(part) for part in re.findall(r"\d+", driver))
    text = ".".join(f"{part:02d}" for part in oldest)
    if version < oldest:
        todo = f"update it to {text} or newer, or name your own environment with an older CUDA as the engine's `python`"
        return fail(name, f"{driver} is too old for CUDA {cuda}", todo)
    return ok(name, f"{driver} (CUDA {cuda} needs {text})")


def capability_check(seen: Seen, engine_kind: str, cuda: int | None, engines: Sequence[EngineNeeds]) -> Check:
    """Return whether the GPUs are new enough for the build, and for the engines' number formats."""
    name = "compute capability"
    if engine_kind != "cuda" or not seen.gpus:
        return not_applicable(name, "no CUDA build, or no GPU")
    lowest = min(gpu.capability for gpu in seen.gpus)
    needed = OLDEST_CAPABILITY.get(cuda or 0, 7.0)
    if not lowest:
        return warn(name, "the driver does not tell", f"the build needs {needed}, bfloat16 {BFLOAT16_CAPABILITY}")
    if lowest < needed:
        return fail(name, f"{lowest}; the build needs {needed}", "these GPUs are too old for this vLLM: use others")
    wide = [engine.name for engine in engines if engine.device == "cuda" and engine.dtype == "bfloat16"]
    if lowest < BFLOAT16_CAPABILITY and wide:
        todo = "set `dtype: float16` (other request keys: nothing stored is used again)"
        return fail(name, f"{lowest} has no bfloat16, which {', '.join(wide)} use", todo)
    return ok(name, f"{lowest}")


def memory_check(seen: Seen, engine: EngineNeeds) -> Check:
    """Return whether an engine's weights fit its GPUs, and whether others use them."""
    name = f"GPU memory for {engine.name}"
    if not seen.gpus or not engine.gpus:
        return not_applicable(name, "no GPU")
    free = sorted((gpu.memory - gpu.used for gpu in seen.gpus), reverse=True)[: engine.gpus_here]
    busy = [gpu.index for gpu in seen.gpus if gpu.used > USED_MIB]
    taken = f"; GPUs {', '.join(busy)} are in use by others" if busy else ""
    room = min(gpu.memory for gpu in seen.gpus) * engine.memory_share
    if engine.weights_bytes is not None:
        alone = engine.weights_bytes / 2**20 / engine.sharing
        need = alone * ROOM_FACTOR
        about = " (estimated)" if engine.estimated else ""
        seen_text = f"weights take {need / 1024:.1f} GiB{about} of {room / 1024:.1f} GiB per GPU{taken}"
        todo = "raise `tensor_parallel`, or take a smaller or quantized model"
        # An estimate fails only where the weights alone are too large, and files of weights to be quantized never do.
        if need > room and engine.estimated and (alone <= room or engine.quantized):
            return warn(name, seen_text, f"{todo}, if that is so; it is known when they are fetched")
        if need > room:
            return fail(name, seen_text, todo)
    else:
        seen_text = f"weights are not here yet: their size is not known{taken}"
    if busy and (len(free) < engine.gpus_here or free[-1] < room):
        return warn(name, seen_text, "wait for them, or name other GPUs in CUDA_VISIBLE_DEVICES")
    return ok(name, seen_text)


def _whole(text: str) -> int:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


# --- Reading -------------------------------------------------------------------------------------------------------


def read_gpus() -> Seen:
    """Return what nvidia-smi says."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Seen(installed=False)
    try:
        command = [program, f"--query-gpu={','.join(QUERY)}", "--format=csv"]
        reply = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
        if reply.returncode != 0:
            said = (reply.stdout + reply.stderr).strip().splitlines()
            return Seen(True, error=said[0][:200] if said else f"exit code {reply.returncode}")
        return Seen(True, parse_gpus(reply.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Seen(True, error=str(error)[:200])
