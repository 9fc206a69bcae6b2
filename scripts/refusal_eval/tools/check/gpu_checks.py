"""Are the GPUs and their driver what the engines need?"""

import re
from collections.abc import Iterator, Mapping, Sequence
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
from refusal_eval.tools.check.check_lines import Line, Outcome, fail, not_applicable, ok, warn
from refusal_eval.tools.check.study_needs import EngineHere

# The oldest Linux driver that runs programs built for a CUDA version, as NVIDIA's release notes list it.
OLDEST_DRIVERS: Mapping[int, tuple[int, ...]] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
ROOM_FACTOR = 1.2  # weights and the least that a model works with
TRY_IT = "try `refusal-eval check --model`"


def gpu_lines(
    seen: Seen,
    cuda: int | None,
    engines: Sequence[EngineHere],
    kind: str,
    variables: Mapping[str, str],
    login_node: bool = False,
) -> Iterator[Line]:
    """Yield what there is to tell of the GPUs.

    Args:
        seen: what nvidia-smi says.
        cuda: the version of CUDA that the repository's CUDA build is for.
        engines: the study's engines.
        kind: build of the repository's own engine environment, empty if there is none.
        variables: environment variables, of which those of this check are taken for those of a job.
        login_node: whether this machine submits jobs and runs none.
    """
    allowed = _leasable(variables, seen, OLDEST_CAPABILITY.get(cuda or 0, 0.0) if kind == "cuda" else 0.0)
    yield "GPUs", count(seen, allowed, engines, kind, login_node)
    # What matters is what jobs may lease.
    gpus = () if isinstance(allowed, str) else tuple(device.gpu for device in allowed.devices if device.gpu)
    seen = replace(seen, gpus=gpus or seen.gpus)
    applies, nothing = kind == "cuda" and bool(seen.gpus), not_applicable("no CUDA build, or no GPU")
    yield "driver", driver(seen.gpus[0].driver, cuda) if applies else nothing
    yield "compute capability", capability(seen, cuda, engines) if applies else nothing
    for engine in engines:
        if engine.gpus:
            yield f"GPU memory for {engine.name}", gpu_memory(seen, engine)


def cuda_version(lock: str) -> int | None:
    """Return the major version of CUDA that a lock is built for; None if it does not say."""
    found = re.search(r"^(?:cuda-toolkit|nvidia-cuda-runtime(?:-cu\d+)?)==(\d+)\.", lock, re.MULTILINE)
    return int(found[1]) if found else None


def _leasable(variables: Mapping[str, str], seen: Seen, oldest: float) -> Pool | str:
    """Return what a job may lease of these GPUs, or what is wrong with their names."""
    try:
        return device_pool(variables, seen, oldest)
    except UserError as error:
        return str(error)


def count(
    seen: Seen, allowed: Pool | str, engines: Sequence[EngineHere], kind: str, login_node: bool = False
) -> Outcome:
    """Return whether there are as many GPUs as the largest engine takes here."""
    needed = _most_gpus(engines, kind)
    if not needed:
        return not_applicable("no engine here needs one")
    if login_node and not seen.gpus:
        return not_applicable("none on this login node; run `refusal-eval check` in a job on a GPU node too")
    if not seen.installed:
        return fail(f"no nvidia-smi; {needed} needed", "install NVIDIA's driver, or set `device: cpu`")
    if not seen.gpus:
        todo = "does the kernel module match the driver (`dmesg | grep -i nvrm`)? A reboot may be due"
        return fail(f"nvidia-smi lists none: {seen.error or 'no devices were found'}", todo)
    sizes = ["memory unknown" if gpu.memory is None else f"{gpu.memory / 1024:.0f} GiB" for gpu in seen.gpus]
    names = [f"{gpu.name}, {size}" for gpu, size in zip(seen.gpus, sizes, strict=True)]
    what = "; ".join(f"{names.count(one)} x {one}" for one in dict.fromkeys(names))
    if len(seen.gpus) < needed:
        largest = max(engines, key=lambda engine: engine.gpus)  # there is one: without engines one GPU is enough
        told = "; ".join([what, *seen.warnings, f"engine {largest.name} needs {needed}"])
        todo = "lower its `tensor_parallel`, `pipeline_parallel` or `data_parallel`, or take a smaller model"
        return fail(told, todo)
    if isinstance(allowed, str):
        return fail(f"{what}; {allowed}", f"unset {VISIBLE}, or name whole GPUs that are there, each once")
    if len(allowed.devices) < needed:
        told = f"of {what} a job may lease {allowed.summary}; {needed} needed"
        return fail(told, f"unset {VISIBLE}, or name as many devices as are needed; in a Slurm job ask for them")
    if seen.error:
        told = f"{what}; nvidia-smi does not list who is on them: {seen.error}"
        return warn(told, "a job leases none until it does")
    busy = [device.gpu for device in allowed.devices if device.gpu and device.gpu.foreign]
    if len(allowed.devices) - len(busy) < needed:
        told = "; ".join([what, *(f"GPU {gpu.index}: {gpu.foreign}" for gpu in busy)])
        return warn(told, f"a job waits until others are gone; {SHARED_VARIABLE}=1 leases all the same")
    told = "; ".join([what, *allowed.left_out, f"{needed} needed at a time"])
    return warn(told, "; ".join(seen.warnings)) if seen.warnings else ok(told)


def driver(version: str, cuda: int | None) -> Outcome:
    """Return whether the driver is new enough for a CUDA build."""
    oldest = OLDEST_DRIVERS.get(cuda or 0)
    if oldest is None:
        return warn(f"{version}; which one CUDA {cuda} needs is not known here", TRY_IT)
    text = ".".join(f"{part:02d}" for part in oldest)
    if tuple(int(part) for part in re.findall(r"\d+", version)) < oldest:
        todo = f"update it to {text} or newer, or name your own environment with an older CUDA as the engine's `python`"
        return fail(f"{version} is too old for CUDA {cuda}", todo)
    return ok(f"{version} (CUDA {cuda} needs {text})")


def capability(seen: Seen, cuda: int | None, engines: Sequence[EngineHere]) -> Outcome:
    """Return whether the GPUs are new enough for a CUDA build, and for the engines' number formats."""
    # The lease leaves worse ones out, or gives them last.
    lowest = sorted((gpu.capability for gpu in seen.gpus), reverse=True)[: _most_gpus(engines, "cuda") or 1][-1]
    needed = OLDEST_CAPABILITY.get(cuda or 0, 7.0)
    if not lowest:
        return warn("the driver does not tell", f"the build needs {needed}, bfloat16 {BFLOAT16_CAPABILITY}")
    if lowest < needed:
        return fail(f"{lowest}; the build needs {needed}", "these GPUs are too old for this vLLM: use others")
    wide = [one.name for one in engines if one.device == "cuda" and one.engine.dtype == "bfloat16"]
    if lowest < BFLOAT16_CAPABILITY and wide:
        todo = "set `dtype: float16` (other request keys: nothing stored is used again)"
        return fail(f"{lowest} has no bfloat16, which {', '.join(wide)} use", todo)
    return ok(f"{lowest}")


def gpu_memory(seen: Seen, engine: EngineHere) -> Outcome:
    """Return whether an engine's weights fit its GPUs, and whether others use them."""
    if not seen.gpus:
        return not_applicable("no GPU")
    best = best_first(seen.gpus)[: engine.gpus]
    if unknown := [str(gpu.index) for gpu in best if gpu.memory is None]:
        told = f"nvidia-smi does not tell the memory of GPU {', '.join(unknown)}"
        return warn(told, f"compare it with the weights yourself, or {TRY_IT}")
    free = sorted(((gpu.memory or 0) - (gpu.used or 0) for gpu in seen.gpus), reverse=True)[: engine.gpus]
    busy = [str(gpu.index) for gpu in seen.gpus if (gpu.used or 0) > MOST_FOREIGN_MEMORY]
    taken = f"; GPUs {', '.join(busy)} are in use by others" if busy else ""
    room = min(gpu.memory or 0 for gpu in best) * engine.engine.memory_share
    told = f"weights are not here yet: their size is not known{taken}"
    if engine.weights is not None:
        alone = engine.weights / 2**20 / engine.sharing
        need = alone * ROOM_FACTOR
        about = " (estimated)" if engine.estimated else ""
        told = f"weights take {need / 1024:.1f} GiB{about} of {room / 1024:.1f} GiB per GPU{taken}"
        todo = "raise `tensor_parallel`, or take a smaller or quantized model"
        # An estimate fails only where the weights alone are too large, and files of weights to be quantized never do.
        if need > room and engine.estimated and (alone <= room or getattr(engine.engine, "quantization", None)):
            return warn(told, f"{todo}, if that is so; it is known when they are fetched")
        if need > room:
            return fail(told, todo)
    if busy and (len(free) < engine.gpus or free[-1] < room):
        return warn(told, f"wait for them, or name other GPUs in {VISIBLE}")
    return ok(told)


def _most_gpus(engines: Sequence[EngineHere], kind: str) -> int:
    """Return how many GPUs the largest engine takes here; without a study a CUDA build takes one."""
    return max((engine.gpus for engine in engines), default=1 if kind == "cuda" else 0)
