"""Downloads that were left unfinished in the cache. They take disk, and nobody may ever continue them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_eval.core.files import size_text
from refusal_eval.data.resume import PARTIAL, being_written
from refusal_eval.tools.check.check import Check, ok, warn

STALE_DAYS = 7  # a download that lives writes every few seconds
DAY = 24 * 60 * 60
ENDINGS = (PARTIAL, ".incomplete")  # ours, and those of the hub's library, which a kill leaves behind
KINDS = {"models": "model", "datasets": "data set"}
SHOWN = 3  # repositories that a message names


@dataclass(frozen=True)
class Leftover:
    """A file of an unfinished download: its repository, its size in bytes, and the days since it was written."""

    repository: str
    size: int
    days: float


def leftovers_check(cache: str, found: Sequence[Leftover]) -> Check:
    """Return whether unfinished downloads lie about that nobody has written to for a week."""
    name = "unfinished downloads"
    if not found:
        return ok(name, f"none in {cache} that is older than {STALE_DAYS} days")
    repositories = sorted({one.repository for one in found})
    shown = ", ".join(repositories[:SHOWN])
    shown += f" and {len(repositories) - SHOWN} more" if len(repositories) > SHOWN else ""
    size, newest = size_text(sum(one.size for one in found)), min(one.days for one in found)
    files = "1 file" if len(found) == 1 else f"{len(found)} files"
    seen = f"{files}, {size}, of {shown}; not written to for {newest:.0f} days"
    todo = f"`make fetch` goes on with those that a study still takes; this removes them: `{removal(cache)}`"
    return warn(name, seen, todo)


def removal(cache: str) -> str:
    """Return a command that removes them; it looks at their times again, and so spares what was continued since."""
    endings = " -o ".join(f"-name '*{ending}'" for ending in ENDINGS)
    return rf"find {shlex.quote(f'{cache}/hub')} -type f \( {endings} \) -mmin +{STALE_DAYS * DAY // 60} -delete"


def read_leftovers(cache: str, now: float | None = None) -> list[Leftover]:
    """Return the unfinished downloads in the cache that are older than a week and that no job writes."""
    now = time.time() if now is None else now
    found = []
    for path in sorted(Path(cache, "hub").glob("*/blobs/*")):
        if not path.name.endswith(ENDINGS):
            continue
        try:
            status = os.stat(path)
            if now - status.st_mtime > STALE_DAYS * DAY and not being_written(path):
                repository = path.parent.parent.name
                found.append(Leftover(_shown(repository), status.st_size, (now - status.st_mtime) / DAY))
        except OSError:  # it was just finished or removed
            continue
    return found


def _shown(folder: str) -> str:
    """Return `model owner/name` for the folder `models--owner--name`."""
    kind, _, name = folder.partition("--")
    return f"{KINDS.get(kind, kind)} {name.replace('--', '/', 1)}"
