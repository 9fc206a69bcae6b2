"""Are the GPUs and their driver what the engines need?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from refusal_eval.core.errors import UserError
from refusal_eval.engines.devices.device_pool import (
    BFLOAT16_CAPABILITY,
    OLDEST_CAPABILITY,
    VISIBLE,
    Pool,
    best_first,
    device_pool,
)
from refusal_eval.engines.devices.lease import SHARED_VARIABLE
from refusal_eval.engines.devices.nvidia_smi import MOST_FOREIGN_MEMORY, Seen
from refusal_eval.tools.check.check import Check, fail, not_applicable, ok, warn
from refusal_eval.tools.check.study_facts import EngineNeeds

# The oldest Linux driver that runs programs built for a CUDA version, as NVIDIA's release notes list it.
OLDEST_DRIVERS: Mapping[int, tuple[int, ...]] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
ROOM_FACTOR = 1.2  # weights and the least that a model works with


def cuda_version(lock: str) -> int | None:
    """Return the major version of CUDA that a lock is built for; None if it does not say."""
    found = re.search(r"^(?:cuda-toolkit|nvidia-cuda-runtime(?:-cu\d+)?)==(\d+)\.", lock, re.MULTILINE)
    return int(found[1]) if found else None


def leasable(variables: Mapping[str, str], seen: Seen, cuda: int | None = None) -> Pool | str:
    """Return what a job may lease of these GPUs, or what is wrong with their names.

    Args:
        variables: environment variables, of which those of this check are taken for those of a job.
        seen: what nvidia-smi says.
        cuda: the version that the engine's build is for.
    """
    try:
        return device_pool(variables, seen, OLDEST_CAPABILITY.get(cuda or 0, 0.0))
    except UserError as error:
        return str(error)


def of_jobs(seen: Seen, allowed: Pool | str) -> Seen:
    """Return what nvidia-smi says of the GPUs that a job may lease; of all if there are none."""
    gpus = () if isinstance(allowed, str) else tuple(device.gpu for device in allowed.devices if device.gpu)
    return replace(seen, gpus=gpus or seen.gpus)


def count_check(
    seen: Seen,
    engines: Sequence[EngineNeeds],
    engine_kind: str,
    login_node: bool,
    allowed: Pool | str | None = None,
) -> Check:
    """Return whether there are as many GPUs as the largest engine takes here; without a study a CUDA build takes one.

    `allowed` is what of them a job may lease, or why none; None where nobody asked.
    """
    name = "GPUs"
    needed = _most_gpus(engines, engine_kind)
    if not needed:
        return not_applicable(name, "no engine here needs one")
    if login_node and not seen.gpus:
        return not_applicable(name, "none on this login node; run `refusal-eval check` in a job on a GPU node too")
    if not seen.installed:
        return fail(name, f"no nvidia-smi; {needed} needed", "install NVIDIA's driver, or set `device: cpu`")
    if not seen.gpus:
        todo = "does the kernel module match the driver (`dmesg | grep -i nvrm`)? A reboot may be due"
        return fail(name, f"nvidia-smi lists none: {seen.error or 'no devices were found'}", todo)
    names = [f"{gpu.name}, {_gib(gpu.memory)}" for gpu in seen.gpus]
    what = "; ".join(f"{names.count(one)} x {one}" for one in dict.fromkeys(names))
    if len(seen.gpus) < needed:
        largest = max(engines, key=lambda engine: engine.gpus_here)  # there is one: without engines one GPU is enough
        told = "; ".join([what, *seen.warnings, f"engine {largest.name} needs {needed}"])
        todo = "lower its `tensor_parallel`, `pipeline_parallel` or `data_parallel`, or take a smaller model"
        return fail(name, told, todo)
    if isinstance(allowed, str):
        return fail(name, f"{what}; {allowed}", f"unset {VISIBLE}, or name whole GPUs that are there, each once")
    if allowed is not None and len(allowed.devices) < needed:
        told = f"of {what} a job may lease {allowed.told}; {needed} needed"
        return fail(name, told, f"unset {VISIBLE}, or name as many devices as are needed; in a Slurm job ask for them")
    if seen.error:
        return warn(
            name, f"{what}; nvidia-smi does not list who is on them: {seen.error}", "a job leases none until it does"
        )
    if allowed is not None:
        busy = [device.gpu for device in allowed.devices if device.gpu and device.gpu.foreign]
        if len(allowed.devices) - len(busy) < needed:
            told = "; ".join(f"GPU {gpu.index}: {gpu.foreign}" for gpu in busy)
            return warn(
                name, f"{what}; {told}", f"a job waits until others are gone; {SHARED_VARIABLE}=1 leases all the same"
            )
    told = "; ".join([what, *(allowed.left_out if allowed else ()), f"{needed} needed at a time"])
    if seen.warnings:
        return warn(name, told, "; ".join(seen.warnings))
    return ok(name, told)


def driver_check(seen: Seen, engine_kind: str, cuda: int | None) -> Check:
    """Return whether the driver is new enough for the engine's build."""
    name = "driver"
    if engine_kind != "cuda" or not seen.gpus:
        return not_applicable(name, "no CUDA build, or no GPU")
    driver, oldest = seen.gpus[0].driver, OLDEST_DRIVERS.get(cuda or 0)
    if oldest is None:
        note = f"{driver}; which one CUDA {cuda} needs is not known here"
        return warn(name, note, "try `refusal-eval check --model`")
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
    # The lease leaves worse ones out, or gives them last.
    lowest = sorted((gpu.capability for gpu in seen.gpus), reverse=True)[: _most_gpus(engines, engine_kind) or 1][-1]
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
    best = best_first(seen.gpus)[: engine.gpus_here]
    if unknown := [str(gpu.index) for gpu in best if gpu.memory is None]:
        told = f"nvidia-smi does not tell the memory of GPU {', '.join(unknown)}"
        return warn(name, told, "compare it with the weights yourself, or try `refusal-eval check --model`")
    free = sorted(((gpu.memory or 0) - (gpu.used or 0) for gpu in seen.gpus), reverse=True)[: engine.gpus_here]
    busy = [str(gpu.index) for gpu in seen.gpus if (gpu.used or 0) > MOST_FOREIGN_MEMORY]
    taken = f"; GPUs {', '.join(busy)} are in use by others" if busy else ""
    room = min(gpu.memory or 0 for gpu in best) * engine.memory_share
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


def _most_gpus(engines: Sequence[EngineNeeds], engine_kind: str) -> int:
    """Return how many GPUs the largest engine takes here; without a study a CUDA build takes one."""
    return max((engine.gpus_here for engine in engines), default=1 if engine_kind == "cuda" else 0)


def _gib(memory: int | None) -> str:
    return "memory unknown" if memory is None else f"{memory / 1024:.0f} GiB"
