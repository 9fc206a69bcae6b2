"""Main memory: what the machine has, and how much of it this process may still take."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")


def main_memory(
    meminfo: Path = Path("/proc/meminfo"), groups: Path = Path("/proc/self/cgroup"), root: Path = CONTROL_GROUPS
) -> tuple[int, int]:
    """Return the machine's memory and what this process may still take of it, in bytes.

    A Slurm job or a container often has less than the machine: what goes beyond the limit of its control group is
    killed. The limits of all groups above its own count too.

    Args:
        meminfo: the kernel's table of memory.
        groups: the kernel's list of this process's control groups.
        root: where control groups are shown.
    """
    fields = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in meminfo.read_text("ascii").splitlines()}
    left = [fields["MemAvailable"]]
    for folder, limit_name, used_name, cache_name in _folders(groups, root):
        if (limit := _number(folder / limit_name)) is not None:
            # Cached files count as used, and are given back when memory is short.
            cached = _field(folder / "memory.stat", cache_name) or 0
            left.append(limit - max(0, (_number(folder / used_name) or 0) - cached))
    return fields["MemTotal"], max(0, min(left))


def count_memory_kills(groups: Path = Path("/proc/self/cgroup"), root: Path = CONTROL_GROUPS) -> int:
    """Return how many processes of its own control group the kernel has killed for lack of memory so far."""
    places = [
        folder / name for folder, *_ in _folders(groups, root) for name in ("memory.events", "memory.oom_control")
    ]
    return next((kills for place in places if (kills := _field(place, "oom_kill")) is not None), 0)


def lack_of_memory(killed_before: int) -> str:
    """Return that the kernel has killed processes since it had killed so many, with a blank behind it; else nothing."""
    if count_memory_kills() <= killed_before:
        return ""
    return "The kernel killed a process here for lack of main memory: ask for more (`mem_mb` on a cluster). "


def _folders(groups: Path, root: Path) -> Iterator[tuple[Path, str, str, str]]:
    lines = groups.read_text("utf-8").splitlines() if groups.is_file() else []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            top, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            top, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        own = top / path.lstrip("/")
        # In a container the path may be that of the host: its limit is then the one that the top shows.
        for folder in (own, *own.parents):
            if folder.is_relative_to(top):
                yield folder, *names


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # `max`: there is no limit
        return int(path.read_text("ascii"))
    return None


def _field(path: Path, name: str) -> int | None:
    with contextlib.suppress(OSError):
        for line in path.read_text("ascii").splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return None
