"""What a study needs of a machine, by its validated config and what is here already."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from refusal_eval.config.lock_file import Lock, read_lock
from refusal_eval.config.source_entries import OnHub
from refusal_eval.config.source_entries import Source as Pinned
from refusal_eval.core.files import size_text
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.program.study_file import ROOT
from refusal_eval.study.study import Study
from refusal_eval.tools.pin.locking import not_taken, repo_size
from refusal_eval.tools.pin.pin_needs import needs_of
from refusal_eval.tools.plan.disk_use import NEED, disk_needs
from refusal_eval.tools.plan.study_costs import plan_study
from refusal_eval.weights.engine_size import ASSUMED_SIZE, engine_billions, files_size, weights_bytes
from refusal_eval.workflow.weights_stage import weights_files

IN_FLIGHT = 1024  # where no study is named
NOTHING = ("results", "results", "results_dir", 0, 0, "")  # a row of `disk_use.NEED`
ROWS = ("splits", "gold")


@dataclass(frozen=True)
class EngineHere:
    """One load of an engine on this machine."""

    name: str
    engine: LocalEngine
    device: str  # cpu or cuda
    weights: int | None = None  # size of its weights in bytes, estimated if they are not here; None if unknown
    estimated: bool = False  # whether that is an estimate

    @property
    def gpus(self) -> int:
        """The number of GPUs it takes on each machine."""
        return self.engine.gpus(self.device) // self.engine.nodes_used()

    @property
    def sharing(self) -> int:
        """The number of GPUs that share one copy of the weights."""
        return int(getattr(self.engine, "tensor_parallel", 1) * getattr(self.engine, "pipeline_parallel", 1))

    @property
    def about(self) -> str:
        """A note behind sizes that depend on the weights' size."""
        return " (estimated)" if self.estimated else ""


@dataclass(frozen=True)
class NeededSource:
    """Something that is fetched."""

    what: str  # what it is, such as `weights org/name`, or an address
    taken_from: str  # hub, url or wheel
    here: bool = True  # whether all files are there that are taken from it
    size: int | None = None  # bytes still to be downloaded; None if unknown
    estimated: bool = True  # whether the size is an estimate; else it is the sum of the files that the lock file lists
    gated: bool | None = False  # whether access must be requested first; None if unknown
    terms: str | None = None  # where to ask
    used_by: tuple[str, ...] = ()  # the entries that take it

    @property
    def size_text(self) -> str:
        """The size in words."""
        if self.size is None:
            return "size not known"
        return size_text(self.size) + (", estimated" if self.estimated else "")


@dataclass(frozen=True)
class Needs:
    """What a study needs."""

    engines: tuple[EngineHere, ...] = ()
    sources: tuple[NeededSource, ...] = ()  # what it takes from the hub, from addresses and from wheels
    results: str = "results"
    cache: str = ".cache"
    # what takes disk and is not there yet (`disk_use.NEED`); without a study only where its results would lie
    disk: pd.DataFrame = field(default_factory=lambda: pd.DataFrame([NOTHING], columns=NEED), compare=False)
    in_flight: int = IN_FLIGHT  # requests at the engine at one time
    open_pins: tuple[str, ...] = ()  # what has no commit yet, neither by the catalogue nor by a lock file
    lock: str = ""  # its lock file; empty if there is none
    locked_unused: tuple[str, ...] = ()  # what the lock file has and the study does not take
    # the environment variables without which an engine cannot start, each with the names of these engines
    variables: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def takes(self, *places: str) -> list[NeededSource]:
        return [source for source in self.sources if source.taken_from in places]

    @property
    def weights(self) -> list[NeededSource]:
        """The weights that are still missing."""
        return [source for source in self.missing("hub", "wheel") if source.what.startswith("weights")]

    @property
    def weights_size(self) -> int:
        """Their known bytes."""
        return sum(source.size or 0 for source in self.weights)

    def missing(self, *places: str) -> list[NeededSource]:
        """Return the sources that are still missing."""
        return [source for source in self.takes(*places) if not source.here]


def study_needs(config: dict[str, Any], study_file: Path) -> Needs:
    """Return what the validated study of a file needs, with what is here already."""
    plan, pins = plan_study(config, study_file, ROOT, None), needs_of(config)
    study = plan.study
    lock = read_lock(config["lock"], []) if "lock" in config else None
    engines = {name: _here(study, name) for name, one in study.engines.items() if isinstance(one, LocalEngine)}
    most = [engine.most_at_once(engine.device_here(ROOT)) for engine in study.engines.values()]
    needs = Needs(
        engines=tuple(engines.values()),
        sources=tuple(sorted(_sources(study, lock, engines), key=lambda source: (source.taken_from, source.what))),
        results=str(config["results_dir"]),
        cache=study.paths.cache,
        disk=disk_needs(plan),
        in_flight=config["requests_in_flight"] or max(most, default=IN_FLIGHT),
        open_pins=tuple(str(need) for need in pins if need.pin is None),
        lock=lock.path if lock is not None else "",
        locked_unused=tuple(not_taken(lock.content, pins)) if lock is not None else (),
        variables=_variables(study),
    )
    # The lock file knows their sizes, and the cache what was downloaded so far.
    needs.disk.loc[needs.disk["what"] == "weights", ["expected", "most"]] = float(needs.weights_size)
    return needs


def _variables(study: Study) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, engine in study.engines.items():
        for variable in engine.variables():
            found.setdefault(variable, []).append(name)
    return found


def _here(study: Study, name: str) -> EngineHere:
    """Return an engine with the size of its weights: where they are not here the one that the plan assumes too."""
    engine, entry = study.engines[name], study.config["engine_entries"][name]
    assert isinstance(engine, LocalEngine)
    device = str(engine.device_here(ROOT))
    if size := files_size(weights_files(study, name)):
        return EngineHere(name, engine, device, size)
    (billions, _active), known_by = engine_billions(entry, (), device, engine.gpus(device) or 1)
    if known_by == ASSUMED_SIZE and not entry["weights_gb"]:
        return EngineHere(name, engine, device)
    return EngineHere(name, engine, device, int(weights_bytes(entry, billions)), estimated=True)


def _sources(study: Study, lock: Lock | None, engines: Mapping[str, EngineHere]) -> list[NeededSource]:
    found: dict[str, NeededSource] = {}
    for section, name, entry, source in study.sources():
        if source.taken_from is None:
            continue
        what = source.known_as if source.taken_from == "url" else f"{source.wants or 'data set'} {source.known_as}"
        before, here = (
            found.get(what, NeededSource(what, source.taken_from)),
            os.path.isfile(source.copy_file(study.paths.cache)),
        )
        more = {"gated": True, "terms": entry.terms} if section in ROWS and entry.gated else {}
        if section == "engines" and not here:
            more = {"gated": entry.gated, "terms": entry.terms}
            if name in engines:  # another party's server may have a tokenizer here
                more |= _to_download(engines[name], source, lock, study.paths.cache)
        users = (*before.used_by, f"{section.removesuffix('s')} {name}")
        found[what] = replace(before, here=before.here and here, used_by=users, **more)
    return list(found.values())


def _to_download(engine: EngineHere, weights: Pinned, lock: Lock | None, cache: str) -> dict[str, Any]:
    """Return the size of weights to fetch, and whether they are gated, from the lock file if it has them."""
    if not isinstance(weights, OnHub):
        return {"size": engine.weights}
    locked = [one for one in lock.content.models if one.repo == weights.repo] if lock is not None else []
    exact = [repo_size(one) for one in locked if one.commit == weights.revision]
    size = exact[0] if exact else engine.weights
    # What was downloaded so far, files that are not whole too.
    blobs = Path(cache, "hub", f"models--{weights.repo.replace('/', '--')}", "blobs").glob("*")
    here = sum(path.stat().st_blocks * 512 for path in blobs if path.is_file())
    gated = {"gated": any(one.gated for one in locked)} if locked else {}
    return {"size": None if size is None else max(0, size - here), "estimated": not exact, **gated}
