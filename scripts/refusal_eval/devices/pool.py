"""The devices that a job may lease from: those that the user, Slurm or the machine leaves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refusal_eval.devices.smi import Gpu
from refusal_eval.errors import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
OF_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


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

    A preset CUDA_VISIBLE_DEVICES is the pool (as Slurm sets it, too), else Slurm's allocation, else all GPUs. Of a GPU
    that is divided (MIG) each part is a device.

    Args:
        environment: of the job.
        gpus: what nvidia-smi sees; may be empty.

    Raises:
        UserError: for a CUDA_VISIBLE_DEVICES that names something twice or that is not there, or in another order of
            numbers than nvidia-smi's.
    """
    names = _named(environment)
    if names is None:
        parts = [part for gpu in gpus for part in (gpu.instances or (str(gpu.index),))]
        return [_device(part, environment, gpus) for part in parts]
    if environment.get(ORDER, "PCI_BUS_ID") != "PCI_BUS_ID" and any(name.isdigit() for name in names):
        raise UserError(f"{ORDER}={environment[ORDER]} numbers GPUs unlike nvidia-smi: name them by UUID in {VISIBLE}")
    devices = [_device(name, environment, gpus) for name in names]
    keys = [device.key for device in devices]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise UserError(f"{VISIBLE}={','.join(names)} names a device twice ({twice[0]})")
    return devices


def _named(environment: Mapping[str, str]) -> list[str] | None:
    """Return the devices that somebody named; None if nobody did."""
    if (visible := environment.get(VISIBLE)) is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        # As CUDA reads it: the first entry that is no device ends the list.
        return names[: next((place for place, name in enumerate(names) if not _may_be_device(name)), len(names))]
    if "SLURM_JOB_ID" in environment:
        for variable in OF_SLURM:
            if given := environment.get(variable):
                return [name.strip() for name in given.split(",")]
    return None


def _may_be_device(name: str) -> bool:
    return name.isdigit() or name.startswith(("GPU-", "MIG-"))


def _device(name: str, environment: Mapping[str, str], gpus: Sequence[Gpu]) -> Device:
    if not gpus:
        # Only the name is known. Slurm may number the devices of each job from 0, so there it counts within the job.
        job = environment.get("SLURM_JOB_ID")
        return Device(name, f"slurm-{job}-{name}" if job else name)
    for gpu in gpus:
        if name == str(gpu.index) or (name.startswith("GPU-") and gpu.uuid.startswith(name)):
            return Device(name, gpu.uuid, gpu=gpu.uuid)
        for instance in gpu.instances:
            if name.startswith("MIG-") and instance.startswith(name):
                return Device(name, instance)
    seen = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus)
    raise UserError(f"{VISIBLE} names the device {name}, and nvidia-smi sees {seen}")
