"""The devices that a job may lease from: those that the user, Slurm or the machine leaves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refusal_eval.devices.smi import Gpu
from refusal_eval.errors import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
# Slurm sets the number on this node with every allocation of GPUs, and which ones they are, of a step or of a job.
OF_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
COUNT_OF_SLURM = "SLURM_GPUS_ON_NODE"
JOB = "SLURM_JOB_ID"


@dataclass(frozen=True)
class Device:
    """A GPU or a part of one (MIG).

    Attributes:
        name: what CUDA_VISIBLE_DEVICES is to call it.
        key: its name among the locks: the same however a run spells it.
        gpu: UUID of the whole GPU, if nobody else may be on it; None for parts, and where UUIDs are not known.
    """

    name: str
    key: str
    gpu: str | None = None


def device_pool(environment: Mapping[str, str], gpus: Sequence[Gpu]) -> list[Device]:
    """Return the devices that a job may lease from.

    A preset CUDA_VISIBLE_DEVICES is the pool (as Slurm sets it, too), else in a Slurm job its allocation, which may be
    none, else all GPUs. Of a GPU that is divided (MIG) each part is a device.

    Args:
        environment: of the job.
        gpus: what nvidia-smi sees; may be empty.

    Raises:
        UserError: for names of which one comes twice or is not there, for another order of numbers than nvidia-smi's,
            and in a Slurm job that has GPUs where nothing tells which.
    """
    variable, names = _named(environment, gpus)
    if environment.get(ORDER, "PCI_BUS_ID") != "PCI_BUS_ID" and variable and any(name.isdigit() for name in names):
        raise UserError(f"{ORDER}={environment[ORDER]} numbers GPUs unlike nvidia-smi: name them by UUID in {VISIBLE}")
    devices = [_device(name, variable, environment, gpus) for name in names]
    keys = [device.key for device in devices]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise UserError(f"{variable}={','.join(names)} names a device twice ({twice[0]})")
    return devices


def pool_in_words(pool: Sequence[Device], environment: Mapping[str, str], gpus: Sequence[Gpu]) -> str:
    """Return how many devices a pool has, and what makes it so small: `1 (CUDA_VISIBLE_DEVICES=0)`."""
    told = [VISIBLE, *(OF_SLURM if JOB in environment else ())]
    if variable := next((name for name in told if name in environment), None):
        return f"{len(pool)} ({variable}={environment[variable]})"
    if JOB in environment and not _count_of_slurm(environment):
        return (
            "none: Slurm gave it no GPU. Run snakemake with `--profile profiles/slurm`, or ask for them yourself "
            "(`sbatch --gpus=N`; `salloc --gpus=N`, and then `srun`). "
            f"Where Slurm does not hand out GPUs, set {VISIBLE}"
        )
    if not gpus and not pool:
        return f"none: nvidia-smi finds no GPU, and {VISIBLE} is not set"
    return str(len(pool))


def _named(environment: Mapping[str, str], gpus: Sequence[Gpu]) -> tuple[str, list[str]]:
    """Return the names of the devices, and the variable that they are from; an empty one if all of them are meant."""
    if (visible := environment.get(VISIBLE)) is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        # As CUDA reads it: the first entry that is no device ends the list.
        return VISIBLE, names[: next((at for at, name in enumerate(names) if not _may_be_device(name)), len(names))]
    every = [part for gpu in gpus for part in (gpu.instances or (str(gpu.index),))]
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


def _may_be_device(name: str) -> bool:
    return name.isdigit() or name.startswith(("GPU-", "MIG-"))


def _device(name: str, variable: str, environment: Mapping[str, str], gpus: Sequence[Gpu]) -> Device:
    if not gpus:
        # Only the name is known. Slurm may number the devices of each job from 0, so there it counts within the job.
        job = environment.get(JOB)
        return Device(name, f"slurm-{job}-{name}" if job else name)
    for gpu in gpus:
        if name == str(gpu.index) or (name.startswith("GPU-") and gpu.uuid.startswith(name)):
            return Device(name, gpu.uuid, gpu=gpu.uuid)
        for instance in gpu.instances:
            if name.startswith("MIG-") and instance.startswith(name):
                return Device(name, instance)
    seen = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus)
    raise UserError(f"{variable} names the device {name}, and nvidia-smi sees {seen}")
