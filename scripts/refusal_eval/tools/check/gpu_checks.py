"""Are the GPUs and their driver what the engines need?"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from refusal_eval.core.errors import UserError
from refusal_eval.engines.devices.device_pool import (
    BFLOAT16_CAPABILITY,
    LOCKED_CUDA,
    OLDEST_CAPABILITY,
    VISIBLE,
    Pool,
    best_first,
    device_pool,
)
from refusal_eval.engines.devices.lease import SHARED_VARIABLE
from refusal_eval.engines.devices.nvidia_smi import MOST_FOREIGN_MEMORY, Seen
from refusal_eval.tools.check.check_lines import CheckLine, CheckOutcome, fail, not_applicable, ok, warn
from refusal_eval.tools.check.study_needs import EngineHere

# The oldest Linux driver that runs programs built for a CUDA version, as NVIDIA's release notes list it.
OLDEST_DRIVERS = {13: "580.65.06"}
# The least memory that a model needs besides its weights: a share of them, for large ones at most so many MiB.
ROOM_SHARE, MOST_ROOM = 0.2, 4096


def gpu_lines(
    seen: Seen, engines: Sequence[EngineHere], kind: str, variables: Mapping[str, str], login_node: bool = False
) -> Iterator[CheckLine]:
    """Yield the report's lines on the GPUs.

    Args:
        seen: what nvidia-smi says.
        kind: build of the repository's own engine environment, empty if there is none.
        variables: environment variables, taken to be those of a job.
        login_node: whether this machine submits jobs and runs none.
    """
    # How many the largest engine takes here; without a study a CUDA build takes one.
    needed = max((engine.gpus for engine in engines), default=1 if kind == "cuda" else 0)
    pool, wrong = Pool((), (), ""), ""
    try:
        pool = device_pool(variables, seen, OLDEST_CAPABILITY[LOCKED_CUDA] if kind == "cuda" else 0.0)
    except UserError as error:
        wrong = str(error)
    if not needed:
        yield "GPUs", not_applicable("no engine here needs one")
    elif login_node and not seen.gpus:
        yield "GPUs", not_applicable("none on this login node; run `refusal-eval check` in a job on a GPU node too")
    else:
        yield "GPUs", count(seen, pool, wrong, engines, needed)
    # What matters is what jobs may lease.
    seen = replace(seen, gpus=tuple(device.gpu for device in pool.devices if device.gpu) or seen.gpus)
    applies, nothing = kind == "cuda" and bool(seen.gpus), not_applicable("no CUDA build, or no GPU")
    yield "driver", driver(seen.gpus[0].driver) if applies else nothing
    yield "compute capability", capability(seen, engines, needed) if applies else nothing
    for engine in engines:
        if engine.gpus:
            yield f"GPU memory for {engine.name}", gpu_memory(seen, engine) if seen.gpus else not_applicable("no GPU")


def count(seen: Seen, pool: Pool, wrong: str, engines: Sequence[EngineHere], needed: int) -> CheckOutcome:
    """Return whether a job may lease as many GPUs as are needed; `wrong` is why it may lease none."""
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
        todo = "lower its `tensor_parallel`, `pipeline_parallel` or `data_parallel`, or take a smaller model"
        return fail("; ".join([what, *seen.warnings, f"engine {largest.name} needs {needed}"]), todo)
    if wrong:
        return fail(f"{what}; {wrong}", f"unset {VISIBLE}, or name whole GPUs that are there, each once")
    if len(pool.devices) < needed:
        text = f"of {what} a job may lease {pool.summary}; {needed} needed"
        return fail(text, f"unset {VISIBLE}, or name as many devices as are needed; in a Slurm job ask for them")
    if seen.error:
        text = f"{what}; nvidia-smi does not list who is on them: {seen.error}"
        return warn(text, "a job leases none until it does")
    busy = [
        f"GPU {device.gpu.index}: {device.gpu.foreign}" for device in pool.devices if device.gpu and device.gpu.foreign
    ]
    if len(pool.devices) - len(busy) < needed:
        todo = f"a job waits until others are gone; {SHARED_VARIABLE}=1 leases all the same"
        return warn("; ".join([what, *busy]), todo)
    text = "; ".join([what, *pool.left_out, f"{needed} needed at a time"])
    return warn(text, "; ".join(seen.warnings)) if seen.warnings else ok(text)


def driver(version: str) -> CheckOutcome:
    """Return whether the driver is new enough for the CUDA build."""
    oldest = OLDEST_DRIVERS[LOCKED_CUDA]
    if [int(part) for part in re.findall(r"\d+", version)] < [int(part) for part in oldest.split(".")]:
        todo = (
            f"update it to {oldest} or newer, or name your own environment with an older CUDA as the engine's `python`"
        )
        return fail(f"{version} is too old for CUDA {LOCKED_CUDA}", todo)
    return ok(f"{version} (CUDA {LOCKED_CUDA} needs {oldest})")


def capability(seen: Seen, engines: Sequence[EngineHere], needed: int) -> CheckOutcome:
    """Return whether the GPUs are new enough for the CUDA build, and for the engines' number formats."""
    # The lease leaves worse ones out, or gives them last.
    lowest = sorted((gpu.capability for gpu in seen.gpus), reverse=True)[: needed or 1][-1]
    oldest = OLDEST_CAPABILITY[LOCKED_CUDA]
    if not lowest:
        return warn("the driver does not tell", f"the build needs {oldest}, bfloat16 {BFLOAT16_CAPABILITY}")
    if lowest < oldest:
        return fail(f"{lowest}; the build needs {oldest}", "these GPUs are too old for this vLLM: use others")
    wide = [one.name for one in engines if one.device == "cuda" and one.engine.dtype == "bfloat16"]
    if lowest < BFLOAT16_CAPABILITY and wide:
        todo = "set `dtype: float16` (other request keys: nothing stored is used again)"
        return fail(f"{lowest} has no bfloat16, which {', '.join(wide)} use", todo)
    return ok(f"{lowest}")


def gpu_memory(seen: Seen, engine: EngineHere) -> CheckOutcome:
    """Return whether an engine's weights fit its GPUs, and whether others use them."""
    best = best_first(seen.gpus)[: engine.gpus]
    if unknown := [str(gpu.index) for gpu in best if gpu.memory is None]:
        text = f"nvidia-smi does not tell the memory of GPU {', '.join(unknown)}"
        return warn(text, "compare it with the weights yourself, or try `refusal-eval check --model`")
    room = min(gpu.memory or 0 for gpu in best) * engine.engine.memory_share
    text = "weights are not here yet: their size is not known"
    if engine.weights is not None:
        alone = engine.weights / 2**20 / engine.sharing
        need = alone + min(ROOM_SHARE * alone, MOST_ROOM)
        text = f"weights and some room take {need / 1024:.1f} GiB{engine.about} of {room / 1024:.1f} GiB per GPU"
        todo = "raise `tensor_parallel`, or take a smaller or quantized model"
        # An estimate fails only where the weights alone are too large, and files of weights to be quantized never do.
        quantized = getattr(engine.engine, "quantization", None)
        if need > room and (quantized or (engine.estimated and alone <= room)):
            known = "the engine quantizes them" if quantized else "it is known when they are fetched"
            return warn(text, f"{todo}, if that is so; {known}")
        if need > room:
            return fail(text, todo)
    busy = [str(gpu.index) for gpu in seen.gpus if (gpu.used or 0) > MOST_FOREIGN_MEMORY]
    free = [gpu for gpu in seen.gpus if (gpu.memory or 0) - (gpu.used or 0) >= room]
    if busy and len(free) < engine.gpus:
        text += f"; GPUs {', '.join(busy)} are in use by others"
        return warn(text, f"wait for them, or name other GPUs in {VISIBLE}")
    return ok(text)
