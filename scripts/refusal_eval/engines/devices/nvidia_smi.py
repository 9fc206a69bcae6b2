"""Facts about this machine's GPUs from nvidia-smi."""

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

MOST_FOREIGN_MEMORY = 1024  # MiB that a desktop may hold on a GPU that is free otherwise
ASK_SECONDS = 60
MOST_WORDS = 200
FIELDS = ("index", "name", "uuid", "memory.total", "memory.used", "driver_version", "mig.mode.current", "compute_cap")
LATER_FIELDS = ("mig.mode.current", "compute_cap")  # left out for drivers that do not know them
APPS = ("gpu_uuid", "pid", "used_memory", "process_name")  # the name comes last because it may have commas
MPS = "nvidia-cuda-mps-server"
_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')
_BROKEN = re.compile(r"\[GPU (is lost|requires reset)\]")


@dataclass(frozen=True)
class Gpu:
    """A GPU that works."""

    index: int
    name: str
    uuid: str
    memory: int | None = None  # in MiB; None if nvidia-smi does not report it (so for `used`)
    used: int | None = None
    driver: str = ""
    capability: float = 0.0  # 0 if the driver does not report it
    mig: bool = False  # whether it is in MIG mode, so that CUDA sees its parts at most
    foreign: str = ""  # other users of it, in words; empty if none was seen, or none was looked for


@dataclass(frozen=True)
class Seen:
    """What nvidia-smi said."""

    installed: bool = True  # whether the program is there
    gpus: tuple[Gpu, ...] = ()  # the GPUs that work
    error: str = ""  # why the answer is none, in its words; empty where it answered
    warnings: tuple[str, ...] = ()  # what is wrong although it answered


def read_gpus(strangers: bool = True) -> Seen:
    """Return what nvidia-smi says of the GPUs, and who is on them if `strangers` matter.

    It does not follow CUDA_VISIBLE_DEVICES. In a job whose devices Slurm confines it sees those of the job. Whoever is
    on a GPU is a stranger only if its lease is held by who asks.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return Seen(installed=False)
    try:
        code, seen = _read_list(program)
        return _with_strangers(program, seen, code) if strangers and seen.gpus else seen
    except subprocess.TimeoutExpired:
        return Seen(error=f"no answer within {ASK_SECONDS} seconds")
    except OSError as error:
        return Seen(error=str(error)[:MOST_WORDS])


def parse_gpus(text: str) -> tuple[tuple[Gpu, ...], list[str]]:
    """Return the GPUs of `nvidia-smi --query-gpu=... --format=csv`, with its heading line, and all other lines."""
    heading: list[str] = []
    gpus: list[Gpu] = []
    others: list[str] = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if not heading and fields[0] == "index":
            heading = [field.split(" [")[0] for field in fields]
            continue
        row = dict(zip(heading, fields, strict=False))
        # A GPU that fell off the bus has words in place of its UUID, or a line of words in place of its row.
        if row.get("uuid", "").startswith("GPU-") and row["index"].isdigit() and not _BROKEN.search(line):
            gpus.append(_gpu(row))
        elif line.strip():
            others.append(line.strip())
    return tuple(gpus), others


def parse_apps(text: str) -> tuple[dict[str, str], set[str]]:
    """Return who computes on each GPU, in words, by its UUID; and the GPUs on which an MPS server is."""
    users: dict[str, str] = {}
    served: set[str] = set()
    for uuid, pid, used, name in _apps(text):
        if PurePath(name).name == MPS:
            served.add(uuid)  # it computes nothing itself; its clients are in the list too
        else:
            users[uuid] = f"process {pid} computes on it"
            users[uuid] += f" and holds {found} MiB" if (found := _whole(used)) is not None else ""
    return users, served


def computing(pids: Collection[int]) -> set[str]:
    """Return the UUIDs of the GPUs on which nvidia-smi sees these processes compute."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return set()
    _, text = _ask(program, f"--query-compute-apps={','.join(APPS)}", ",nounits")
    return {uuid for uuid, pid, *_ in _apps(text) if pid.isdigit() and int(pid) in pids}


def _apps(text: str) -> Iterator[list[str]]:
    """Yield the rows of `nvidia-smi --query-compute-apps`, without its heading and other lines."""
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",", len(APPS) - 1)]
        if len(fields) == len(APPS) and fields[0].startswith("GPU-"):
            yield fields


def _read_list(program: str) -> tuple[int, Seen]:
    """Return nvidia-smi's exit code, and its list of GPUs."""
    fields = list(FIELDS)
    while True:
        code, text = _ask(program, f"--query-gpu={','.join(fields)}")
        unknown = _UNKNOWN_FIELD.search(text)
        if unknown is None or unknown[1] not in LATER_FIELDS or unknown[1] not in fields:
            break
        fields.remove(unknown[1])
    gpus, others = parse_gpus(text)
    words = others[0][:MOST_WORDS] if others else f"exit code {code}" if code else ""
    if gpus:
        # Exit codes other than 0 speak of one GPU (off the bus) or of nothing that matters here (infoROM corrupted).
        return code, Seen(gpus=gpus, warnings=(f"nvidia-smi says: {words}",) if words else ())
    return code, Seen(error=words if code or not words else f"not a list of GPUs: {words}")


def _with_strangers(program: str, seen: Seen, usual: int) -> Seen:
    """Return the same with who is on the GPUs; `usual` is the exit code that came with their list."""
    code, text = _ask(program, f"--query-compute-apps={','.join(APPS)}", ",nounits")
    if code not in (0, usual) and not text.startswith(APPS[0]):
        return replace(seen, error=text.strip().partition("\n")[0][:MOST_WORDS] or f"exit code {code}")
    users, served = parse_apps(text)
    # In a container the processes of others are not to be seen, and their memory is.
    memory = {gpu.uuid: gpu.used for gpu in seen.gpus if (gpu.used or 0) > MOST_FOREIGN_MEMORY}
    users = {uuid: f"{used} MiB of its memory are in use" for uuid, used in memory.items()} | users
    gpus = tuple(replace(gpu, foreign=users.get(gpu.uuid, "")) for gpu in seen.gpus)
    if not (under := [str(gpu.index) for gpu in gpus if gpu.uuid in served]):
        return replace(seen, gpus=gpus)
    warning = f"an MPS server runs on GPU {', '.join(under)}; engines were never tried under MPS"
    return replace(seen, gpus=gpus, warnings=(*seen.warnings, warning))


def _gpu(row: dict[str, str]) -> Gpu:
    capability = re.fullmatch(r"\d+(\.\d+)?", row.get("compute_cap", ""))
    return Gpu(
        index=int(row["index"]),
        name=row.get("name", ""),
        uuid=row["uuid"],
        memory=_whole(row.get("memory.total", "")),
        used=_whole(row.get("memory.used", "")),
        driver=row.get("driver_version", ""),
        capability=float(capability[0]) if capability else 0.0,
        mig=row.get("mig.mode.current") == "Enabled",
    )


def _whole(text: str) -> int | None:
    found = re.match(r"\d{1,15}", text)
    return int(found[0]) if found else None


def _ask(program: str, query: str, form: str = "") -> tuple[int, str]:
    """Return nvidia-smi's exit code, and all that it prints.

    Raises:
        OSError: if it cannot be run.
        subprocess.TimeoutExpired: if it does not answer.
    """
    command: Sequence[str] = (program, query, f"--format=csv{form}")
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        text, errors = process.communicate(timeout=ASK_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # and not waited for: one that hangs in a broken driver does not even die
        raise
    return process.returncode, f"{text.rstrip()}\n{errors}" if errors.strip() else text
