"""What a study needs of a machine. Pure functions of its validated config."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from refusal_eval.study.engine_environment import gpus_needed
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import fetched_path
from refusal_eval.tools.check.missing_files import Missing

BYTES_PER_TOKEN = 20  # of a stored response: its token id, its packed log-probability, and its text


@dataclass(frozen=True)
class EngineNeeds:
    """What one load of an engine takes.

    Attributes:
        name: its name in the catalogue.
        device: cpu or cuda.
        gpus: how many GPUs (tensor x pipeline x data parallel).
        sharing: GPUs that share one copy of the weights (tensor x pipeline parallel).
        dtype: number format.
        memory_share: share of a GPU's memory, or of main memory on a CPU engine.
        weights_bytes: size of its weights, estimated if they are not here; None if nothing tells.
        own_python: Python of the user's own engine environment, if it has one.
        nodes: machines that share the load, each with an equal part of its GPUs.
        estimated: whether the size of the weights is an estimate.
        quantized: whether weights may take less memory than their files take disk.
    """

    name: str
    device: str
    gpus: int
    sharing: int
    dtype: str
    memory_share: float
    weights_bytes: int | None
    own_python: str | None
    nodes: int = 1
    estimated: bool = False
    quantized: bool = False

    @property
    def gpus_here(self) -> int:
        """How many GPUs it takes on each machine."""
        return self.gpus // self.nodes


@dataclass(frozen=True)
class Address:
    """A file at an address, or several under one (`{a,b}` in it), and the entries that take their rows from it."""

    url: str
    used_by: tuple[str, ...]


@dataclass(frozen=True)
class Needs:
    """What a study needs.

    Attributes:
        engines: its engines.
        from_hub: what comes from the hub, and is not here yet.
        in_hub: how many of its sources are on the hub at all.
        results: folder of its results.
        cache: folder of its cache.
        response_bytes: the most that its responses can take in the store; None where a split's size is not known.
        in_flight: requests at the engine at one time.
        open_pins: what has no commit yet, neither by the catalogue nor by a lock file.
        at_addresses: files at addresses that are not here yet.
        in_addresses: how many of its sources are files at addresses.
        lock: its lock file; empty if there is none.
        locked_unused: what the lock file has and the study does not take.
        missing: weights and gated rows that are still to be fetched.
    """

    engines: tuple[EngineNeeds, ...]
    from_hub: tuple[str, ...]
    in_hub: int
    results: str
    cache: str
    response_bytes: int | None
    in_flight: int
    open_pins: tuple[str, ...] = ()
    at_addresses: tuple[Address, ...] = ()
    in_addresses: int = 0
    lock: str = ""
    locked_unused: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()


def engine_needs(
    name: str, entry: Mapping[str, Any], device: str, weights_bytes: int | None, estimate: int | None = None
) -> EngineNeeds:
    """Return what one load of an engine takes.

    Args:
        name: its name in the catalogue.
        entry: its entry.
        device: cpu or cuda.
        weights_bytes: size of its weights; None if they are not here.
        estimate: the size that they are estimated to have, for these; None if nothing tells.
    """
    return EngineNeeds(
        name=name,
        device=device,
        gpus=gpus_needed(entry, device),
        sharing=int(entry["tensor_parallel"]) * int(entry["pipeline_parallel"]),
        dtype=str(entry["dtype"]),
        memory_share=float(entry["memory_share"]),
        weights_bytes=estimate if weights_bytes is None else weights_bytes,
        own_python=entry.get("python"),
        nodes=int(entry["nodes"]),
        estimated=weights_bytes is None and estimate is not None,
        quantized=bool(entry["quantization"]),
    )


def hub_sources(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what of a study comes from the hub, and the files that are there when all of it was fetched."""
    paths, cache = Paths(config), str(config["cache_dir"])
    found: dict[str, list[str]] = {}

    def note(what: str, source: Mapping[str, Any] | None, file: Callable[[Mapping[str, Any]], str]) -> None:
        if source and source["kind"] == "hub":
            found.setdefault(f"{what} {source['repo']}", []).append(file(source))

    for entry in config["engine_entries"].values():
        note("weights", entry["weights"], paths.weights_manifest)
    for entry in config["model_entries"].values():
        note("adapter", entry["lora"], paths.adapter_manifest)
    for section in ("split_entries", "gold_entries"):
        for entry in config[section].values():
            note("data set", entry["source"], lambda source: fetched_path(source, cache))
    return found


def address_sources(config: Mapping[str, Any]) -> dict[Address, list[str]]:
    """Return the files at addresses that a study takes, and those that are there when they were fetched."""
    files: dict[str, list[str]] = {}
    users: dict[str, list[str]] = {}
    for section in ("split", "gold"):
        for name, entry in config[f"{section}_entries"].items():
            source = entry["source"]
            if source["kind"] == "url":
                files.setdefault(source["url"], []).append(fetched_path(source, str(config["cache_dir"])))
                users.setdefault(source["url"], []).append(f"{section} {name}")
    return {Address(url, tuple(users[url])): files[url] for url in sorted(files)}


def response_bytes(config: Mapping[str, Any], rows: Mapping[str, int | None]) -> int | None:
    """Return the most bytes that a study's answers can take in the store; None if a split's size is not known.

    Args:
        config: the validated config.
        rows: the prompts of each split, None where it is not known.
    """
    if any(rows.get(split) is None for split in config["splits"]):
        return None
    prompts = sum(int(rows[split] or 0) for split in config["splits"])
    longest = sum(int(config["model_entries"][model]["sampling"]["max_tokens"]) for model in config["models"])
    return prompts * int(config["samples"]) * longest * BYTES_PER_TOKEN


def split_rows(config: Mapping[str, Any], bundled: str) -> dict[str, int | None]:
    """Return the prompts of each split as far as the config and small local files tell."""
    return {name: min(_limits(config, entry, bundled), default=None) for name, entry in config["split_entries"].items()}


def _limits(config: Mapping[str, Any], entry: Mapping[str, Any], bundled: str) -> Iterator[int]:
    for sample in (entry["sample"], config["prompts_per_split"]):
        if sample:
            yield int(sample["size"])
    if entry["expected_rows"]:
        yield int(entry["expected_rows"])
    source = entry["source"]
    if source["kind"] in ("bundled", "file"):
        path = os.path.join(bundled, source["file"]) if source["kind"] == "bundled" else str(source["path"])
        if path.endswith((".jsonl", ".csv")) and os.path.isfile(path):
            with open(path, "rb") as handle:
                yield sum(1 for line in handle if line.strip())
