"""All checks of a machine, with what they read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.engine_entry import engine_of_entry
from refusal_eval.config.lock_file import read_lock
from refusal_eval.core.errors import UserError
from refusal_eval.engines.devices.lease import lock_folder, may_share
from refusal_eval.engines.devices.nvidia_smi import read_gpus
from refusal_eval.study.engine_environment import ENGINE_FOLDER, engine_device
from refusal_eval.study.paths import Paths
from refusal_eval.tools.check import (
    address_checks,
    environment_checks,
    gpu_checks,
    leftovers,
    machine_checks,
    place_checks,
)
from refusal_eval.tools.check.check import Check
from refusal_eval.tools.check.missing_files import estimated_bytes, missing_parts
from refusal_eval.tools.check.study_facts import (
    EngineNeeds,
    Needs,
    address_sources,
    engine_needs,
    hub_sources,
    response_bytes,
    split_rows,
)
from refusal_eval.tools.pin.locking import not_taken
from refusal_eval.tools.pin.pin_needs import needs_of
from refusal_eval.weights.weights_manifest import manifest_folder

# Where no study is named.
RESULTS, CACHE, IN_FLIGHT = "results", ".cache", 1024


def check_machine(needs: Needs | None, root: Path, variables: Mapping[str, str]) -> Iterator[Check]:
    """Yield the checks of this machine, each when it is done.

    Args:
        needs: what a study needs; None checks what every run needs.
        root: the repository.
        variables: environment variables.
    """
    engines = needs.engines if needs else ()
    slurm = place_checks.read_slurm(variables)
    kind = _engine_kind(root)
    yield from _environments(engines, needs is None, kind, root)
    yield from compiler_checks(needs.engines if needs else None, kind, root, variables)
    yield from _gpus(engines, kind, slurm.on_login_node, root, variables)
    yield from _machine(engines, kind, needs.in_flight if needs else IN_FLIGHT)
    yield lease_locks_check(variables)
    results, cache = (needs.results, needs.cache) if needs else (RESULTS, CACHE)
    yield place_checks.results_disk_check(place_checks.working_folder(results), place_checks.read_free(results), needs)
    yield place_checks.cache_disk_check(place_checks.working_folder(cache), place_checks.read_free(cache), needs)
    yield leftovers.leftovers_check(place_checks.working_folder(cache), leftovers.read_leftovers(cache))
    yield machine_checks.clock_check(place_checks.working_folder(results), machine_checks.read_skew(Path(results)))
    yield place_checks.pins_check(needs)
    offline = place_checks.is_offline(variables)
    ask = not offline and (needs is None or bool(needs.from_hub))
    yield place_checks.hub_check(needs, place_checks.read_hub(variables, ask), offline)
    answers = address_checks.read_answers(needs.at_addresses) if needs and not offline else {}
    yield from address_checks.address_checks(needs, answers, offline)
    yield place_checks.token_check(needs, place_checks.has_token(variables))
    yield place_checks.slurm_check(slurm)


def study_needs(config: Mapping[str, Any], root: Path) -> Needs:
    """Return what a validated study needs, with what of it is here already."""
    sources, urls = hub_sources(config), address_sources(config)
    pins = needs_of(config)
    lock = read_lock(config["lock"], []) if "lock" in config else None
    engines = [
        engine_needs(
            name, entry, engine_device(entry, root), _weights_bytes(config, entry), estimated_bytes(entry, root)
        )
        for name, entry in config["engine_entries"].items()
    ]
    rows = split_rows(config, str(root / "config" / "prompts"))
    return Needs(
        engines=tuple(engines),
        from_hub=tuple(sorted(what for what, files in sources.items() if not _all_here(files))),
        in_hub=len(sources),
        results=str(config["results_dir"]),
        cache=str(config["cache_dir"]),
        response_bytes=response_bytes(config, rows),
        in_flight=max(
            (
                config["requests_in_flight"] or engine.most_at_once(engine.device_here(root))
                for engine in map(engine_of_entry, config["engine_entries"].values())
            ),
            default=IN_FLIGHT,
        ),
        open_pins=tuple(str(need) for need in pins if need.pin is None),
        at_addresses=tuple(address for address, files in urls.items() if not _all_here(files)),
        in_addresses=len(urls),
        lock=lock.path if lock is not None else "",
        locked_unused=tuple(not_taken(lock.content, pins)) if lock is not None else (),
        missing=tuple(missing_parts(config, lock, root)),
    )


def _all_here(files: Sequence[str]) -> bool:
    return all(os.path.isfile(file) for file in files)


def _environments(engines: Sequence[EngineNeeds], always: bool, kind: str, root: Path) -> Iterator[Check]:
    needed = always or any(engine.own_python is None for engine in engines)
    for environment in environment_checks.read_environments(root, needed):
        yield environment_checks.environment_check(environment, kind if environment.name == "engine" else "")
    for engine in engines:
        if engine.own_python:
            installed = environment_checks.installed_packages(engine.own_python)
            yield environment_checks.own_python_check(engine.name, engine.own_python, installed)


def compiler_checks(
    engines: Sequence[EngineNeeds] | None, kind: str, root: Path, variables: Mapping[str, str]
) -> Iterator[Check]:
    """Yield the check of the compiler for each engine environment that computes on GPUs.

    Args:
        engines: those of the study; None without a study.
        kind: build of the repository's own engine environment, empty if there is none.
        root: the repository.
        variables: environment variables.
    """
    on_gpus = [engine.own_python for engine in engines if engine.device == "cuda"] if engines is not None else [None]
    for own in dict.fromkeys(on_gpus):
        if own or kind == "cuda":
            python = own or str(root / ENGINE_FOLDER / "bin" / "python")
            yield environment_checks.compiler_check(
                own or "the engine", environment_checks.compile_header(python, variables)
            )


def _gpus(
    engines: Sequence[EngineNeeds], kind: str, login_node: bool, root: Path, variables: Mapping[str, str]
) -> Iterator[Check]:
    seen = read_gpus(strangers=not may_share(variables))
    cuda = gpu_checks.cuda_version((root / "envs" / "engine-cuda.txt").read_text(encoding="utf-8"))
    allowed = gpu_checks.leasable(variables, seen, cuda if kind == "cuda" else None)
    yield gpu_checks.count_check(seen, engines, kind, login_node, allowed)
    yield gpu_checks.driver_check(seen, kind, cuda)
    seen = gpu_checks.of_jobs(seen, allowed)
    yield gpu_checks.capability_check(seen, kind, cuda, engines)
    for engine in engines:
        if engine.gpus:
            yield gpu_checks.memory_check(seen, engine)


def lease_locks_check(variables: Mapping[str, str]) -> Check:
    """Return whether leases of GPUs can be noted where jobs will; the folder is made if need be."""
    try:
        folder = str(lock_folder(variables))
    except UserError as error:
        return machine_checks.locks_check("", str(error))
    return machine_checks.locks_check(folder, machine_checks.read_locks(folder))


def _machine(engines: Sequence[EngineNeeds], kind: str, in_flight: int) -> Iterator[Check]:
    total, available = machine_checks.read_memory()
    for engine in engines:
        yield machine_checks.memory_check(total, available, engine)
    yield machine_checks.shared_memory_check(machine_checks.read_shared_memory(), engines)
    yield machine_checks.processor_check(*machine_checks.read_processor(), kind)
    yield machine_checks.open_files_check(machine_checks.read_open_files(), in_flight)
    yield machine_checks.sockets_check(machine_checks.read_sockets())


def _engine_kind(root: Path) -> str:
    """Return the build of the engine environment, cpu or cuda; empty if there is none."""
    file = root / ENGINE_FOLDER / "engine-kind"
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def _weights_bytes(config: Mapping[str, Any], entry: Mapping[str, Any]) -> int | None:
    """Return the size of an engine's weights, None if they are not here."""
    weights = entry["weights"]
    try:
        manifest = Paths(config).weights_manifest(weights) if weights["kind"] != "folder" else None
        folder = Path(weights["path"]) if manifest is None else manifest_folder(manifest)
    except UserError:
        return None
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))
