"""What nvidia-smi tells of the GPUs of this machine."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
from dataclasses import dataclass

LOG = logging.getLogger(__name__)
MOST_FOREIGN_MEMORY = 1024  # MiB that a desktop may hold on a GPU that is free otherwise
ASK_SECONDS = 60
_GPU = re.compile(r"GPU (\d+): (.*) \(UUID: (GPU-[0-9a-zA-Z-]+)\)")
_INSTANCE = re.compile(r"\s+MIG .*\(UUID: (MIG-[^)]+)\)")


@dataclass(frozen=True)
class Gpu:
    """A GPU; `instances` are the UUIDs of its MIG instances, if it is divided into such."""

    index: int
    name: str
    uuid: str
    instances: tuple[str, ...] = ()


def list_gpus() -> list[Gpu]:
    """Return the GPUs that nvidia-smi sees; none if there is no nvidia-smi or no driver.

    It does not follow CUDA_VISIBLE_DEVICES. In a job whose devices Slurm confines it sees those of the job.
    """
    return parse_list(_ask("-L"))


def parse_list(text: str) -> list[Gpu]:
    """Return the GPUs of the output of `nvidia-smi -L`."""
    gpus: list[Gpu] = []
    for line in text.splitlines():
        if found := _GPU.match(line):
            gpus.append(Gpu(int(found[1]), found[2], found[3]))
        elif (found := _INSTANCE.match(line)) and gpus:
            last = gpus.pop()
            gpus.append(Gpu(last.index, last.name, last.uuid, (*last.instances, found[1])))
    return gpus


def foreign_use() -> dict[str, str]:
    """Return what is on each GPU that somebody computes on or holds memory of, in words, by the GPU's UUID.

    Ask only for GPUs whose lease is held: then whoever is on them is foreign.
    """
    memory = _ask("--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits")
    processes = _ask("--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
    return parse_use(memory, processes)


def parse_use(memory: str, processes: str) -> dict[str, str]:
    """Return the same from the two answers of nvidia-smi; memory is in MiB. What it does not know counts as nothing."""
    use: dict[str, str] = {}
    for uuid, used in _rows(memory, 2):
        if used.isdigit() and int(used) > MOST_FOREIGN_MEMORY:
            # In a container the processes of others are not to be seen, and their memory is.
            use[uuid] = f"{used} MiB of its memory are in use"
    for uuid, pid, used in _rows(processes, 3):
        use[uuid] = f"process {pid} computes on it" + (f" and holds {used} MiB" if used.isdigit() else "")
    return use


def _rows(text: str, columns: int) -> list[list[str]]:
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == columns]


def _ask(*arguments: str) -> str:
    """Return what nvidia-smi prints; nothing if it is not there or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        reply = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        LOG.warning("nvidia-smi does not answer: %s", error)
        return ""
    return reply.stdout if reply.returncode == 0 else ""
