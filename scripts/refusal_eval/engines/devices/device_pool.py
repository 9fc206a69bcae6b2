"""The devices that a job may lease from: those that the user, Slurm or the machine leaves it."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from refusal_eval.core.errors import UserError
from refusal_eval.engines.devices.nvidia_smi import Gpu, Seen

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
# Slurm sets the number on this node with every allocation of GPUs, and which ones they are, of a step or of a job.
OF_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
COUNT_OF_SLURM = "SLURM_GPUS_ON_NODE"
JOB = "SLURM_JOB_ID"
OLDEST_CAPABILITY: Mapping[int, float] = {11: 5.0, 12: 7.0, 13: 7.5}  # of vLLM's wheels for a CUDA version
LOCKED_CUDA = 13  # of the CUDA build in envs/engine-cuda.txt
BFLOAT16_CAPABILITY = 8.0


@dataclass(frozen=True)
class Device:
    """A GPU."""

    name: str  # its number, as nvidia-smi or the user counts
    key: str  # its name among the locks: the same however a run spells it
    gpu: Gpu | None = None  # what nvidia-smi says of it; None where there is no nvidia-smi

    @property
    def visible(self) -> str:
        # vLLM does not take shortened UUIDs.
        return self.gpu.uuid if self.gpu else self.name


@dataclass(frozen=True)
class Pool:
    """The devices that a job may lease from."""

    devices: tuple[Device, ...]  # where the user names none, the best come first
    left_out: tuple[str, ...]  # GPUs that no engine can use, each with the reason
    summary: str  # how many devices there are, and what makes them so few, in words


def device_pool(environment: Mapping[str, str], seen: Seen, capability: float = 0.0) -> Pool:
    """Return the devices that a job may lease from.

    The pool is a preset CUDA_VISIBLE_DEVICES (Slurm sets it, too), else in a Slurm job its allocation, which may be
    empty, else all GPUs. GPUs below `capability`, which the engine's build does not support, are left out.

    Raises:
        UserError: for a name that occurs twice, is unknown or is part of a GPU (MIG), for numbers in another order than
            nvidia-smi's, and in a Slurm job with GPUs that nothing identifies.
    """
    variable, names = _preset_names(environment, seen.gpus)
    if environment.get(ORDER, "PCI_BUS_ID") != "PCI_BUS_ID" and variable and any(name.isdigit() for name in names):
        raise UserError(f"{ORDER}={environment[ORDER]} numbers GPUs unlike nvidia-smi: name them by UUID in {VISIBLE}")
    devices = [_device(name, variable, environment, seen) for name in names]
    keys = [device.key for device in devices]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise UserError(f"{variable}={','.join(names)} names a device twice ({twice[0]})")
    reasons = [_unusable(device.gpu, capability) for device in devices]
    left_out = tuple(reason for reason in reasons if reason)
    kept = tuple(device for device, reason in zip(devices, reasons, strict=True) if not reason)
    return Pool(kept, left_out, "; ".join([_in_words(len(kept), environment, seen), *left_out, *seen.warnings]))


def best_first(gpus: Iterable[Gpu]) -> list[Gpu]:
    """Sort GPUs so that a small or old one (driving a monitor, say) comes last."""
    return sorted(gpus, key=lambda gpu: (gpu.capability < BFLOAT16_CAPABILITY, -(gpu.memory or 0), -gpu.capability))


def gpu_names(devices: Iterable[Device]) -> list[str]:
    """Return name and driver of each GPU that nvidia-smi knows."""
    return [f"{device.gpu.name}, {device.gpu.driver}" for device in devices if device.gpu]


def _unusable(gpu: Gpu | None, capability: float) -> str:
    """Return why an engine cannot use a GPU; empty if it can."""
    if gpu is not None and gpu.mig:
        return f"GPU {gpu.index} ({gpu.name}) is left out: it is in MIG mode, which is not supported"
    if gpu is not None and 0 < gpu.capability < capability:
        what = f"its compute capability is {gpu.capability}, and the engine's build needs {capability}"
        return f"GPU {gpu.index} ({gpu.name}) is left out: {what}"
    return ""


def _in_words(count: int, environment: Mapping[str, str], seen: Seen) -> str:
    """Return how many devices a pool has, and what makes it so small: `1 (CUDA_VISIBLE_DEVICES=0)`."""
    variables = [VISIBLE, *(OF_SLURM if JOB in environment else ())]
    if variable := next((name for name in variables if name in environment), None):
        return f"{count} ({variable}={environment[variable]})"
    if JOB in environment and not _count_of_slurm(environment):
        return (
            "none: Slurm gave it no GPU. Run snakemake with `--profile profiles/slurm`, or ask for them yourself "
            "(`sbatch --gpus=N`; `salloc --gpus=N`, and then `srun`). "
            f"Where Slurm does not hand out GPUs, set {VISIBLE}"
        )
    if not seen.gpus and not count:
        why = "nvidia-smi finds no GPU" if seen.installed else "there is no nvidia-smi"
        return f"none: {why}, and {VISIBLE} is not set"
    return str(count)


def _preset_names(environment: Mapping[str, str], gpus: Sequence[Gpu]) -> tuple[str, list[str]]:
    """Return the names of the devices, and the variable that they are from; an empty one if all of them are meant."""
    if (visible := environment.get(VISIBLE)) is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        # As CUDA reads it: the first entry that is no device ends the list.
        return VISIBLE, list(itertools.takewhile(re.compile(r"[0-9]+$|GPU-|MIG-").match, names))
    every = [str(gpu.index) for gpu in best_first(gpus)]
    if JOB not in environment:
        return "", every
    for variable in OF_SLURM:
        if given := environment.get(variable):
            names = [name.strip() for name in given.split(",")]
            # Slurm numbers the GPUs of the node; where the job sees its own only, nvidia-smi numbers these from 0.
            return ("", every) if len(names) == len(every) else (variable, names)
    if not (count := _count_of_slurm(environment)):
        return "", []
    if gpus and count != len(every):
        # Slurm does not hide the others, and says only how many are this job's.
        raise UserError(
            f"Slurm gave this job {count} GPUs ({COUNT_OF_SLURM}), nvidia-smi sees {len(every)}, and nothing tells "
            f"which are the job's: set {VISIBLE} to them"
        )
    return "", every


def _count_of_slurm(environment: Mapping[str, str]) -> int:
    """Return how many GPUs of this node Slurm gave to the job; 0 if it says none."""
    count = environment.get(COUNT_OF_SLURM, "")
    return int(count) if count.isdigit() else 0


def _device(name: str, variable: str, environment: Mapping[str, str], seen: Seen) -> Device:
    if name.startswith("MIG-"):
        raise UserError(
            f"{variable} names {name}, a part of a GPU (MIG), which is not supported: vLLM does not start on one, or "
            "takes it for the whole GPU. Name whole GPUs that are not in MIG mode"
        )
    if not seen.installed:
        if not name.isdigit():
            raise UserError(f"{variable} names {name}, and there is no nvidia-smi that knows it: name GPUs by number")
        # Only the number is known. Slurm may number the devices of each job from 0, so there it counts within the job.
        job, number = environment.get(JOB), str(int(name))
        return Device(number, f"slurm-{job}-{number}" if job else number)
    meant = [
        gpu for gpu in seen.gpus if name == str(gpu.index) or (name.startswith("GPU-") and gpu.uuid.startswith(name))
    ]
    if len(meant) == 1:
        return Device(str(meant[0].index), meant[0].uuid, meant[0])
    there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in seen.gpus) or "none"
    raise UserError("; ".join([f"{variable} names the device {name}, and nvidia-smi sees {there}", *seen.warnings]))
