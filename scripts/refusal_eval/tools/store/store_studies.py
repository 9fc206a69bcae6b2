"""Which studies there are, and which responses of the store they ask for: those of their cells' request files."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.ask.requests import RequestFile, read_requests
from refusal_eval.config.load_study import know_kinds_of, load_study
from refusal_eval.config.problems import ConfigError
from refusal_eval.config.study_record import RECORD, recorded_file
from refusal_eval.config.yaml_source import Source
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile, read_json
from refusal_eval.program.snakemake_summary import summary
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study
from refusal_eval.study.study_folder import study_notes
from refusal_eval.tools.status.status_jobs import requests_file

RENDERING = ("requests", "judge_requests")  # the rules that write request files


@dataclass(frozen=True)
class StoreStudy:
    """A study file, and its validated config, or what is wrong with it; and whether it has results here."""

    path: str
    config: Mapping[str, Any] | None
    mistake: str = ""
    has_run: bool = True

    @property
    def store(self) -> str:
        """Its store folder; empty if the study is not valid."""
        return str(self.config["store_dir"]) if self.config is not None else ""


@dataclass
class Asks:
    """The requests of a study, as far as its request files exist."""

    cells: int = 0  # number of its cells: (model, split), and with a language model as judge (judge, model, split)
    rendered: int = 0  # number of those whose request file is there
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # the keys by engine id
    # engines of conversations whose later turns have unknown keys
    unknown: set[str] = field(default_factory=set)
    identities: dict[str, dict[str, Any]] = field(default_factory=dict)  # what identifies the engines, by engine id


def study_files(folder: Path) -> list[str]:
    """Return the study files in a folder, sorted."""
    return [path for path in map(str, sorted(folder.glob("*.y*ml"))) if "study" in Source(path).data]


def read_study(path: str, root: Path) -> StoreStudy:
    """Return a study file with its validated config; `root` is the repository's folder."""
    shown, raw = os.path.relpath(path), Source(path).data
    results = os.path.expandvars(os.path.expanduser(str(raw.get("results_dir", "results"))))
    has_run = os.path.isdir(os.path.join(results, str(raw.get("study"))))
    try:
        return StoreStudy(shown, load_study(raw, path, str(root)), has_run=has_run)
    except (ConfigError, UserError) as error:
        return StoreStudy(shown, None, str(error), has_run)


class RecordedResults(NamedTuple):
    """Results that were made with a store, of a study that was not looked at."""

    folder: str  # the results
    file: str  # the study file; empty if no record names it
    note: str = ""  # the store's note of results that lie elsewhere; empty for those next to the studies read


def recorded_studies(studies: Iterable[StoreStudy], store: str) -> list[RecordedResults]:
    """Return the results made with this store that are of none of these studies.

    They lie beside the results of these studies, or where the store notes it.

    Raises:
        UserError: if a record is damaged.
    """
    studies = list(studies)
    beside, folders = _recorded_beside(studies, store)
    return beside + _recorded_elsewhere(studies, store, folders)


def _recorded_elsewhere(studies: Iterable[StoreStudy], store: str, beside: Collection[str]) -> list[RecordedResults]:
    """Return the results that the store notes; `beside` are the real paths of results that need no note.

    A study already read counts if its results lie there: seen from here, `results` may be another folder. A study that
    seems never to have run does not count: this machine cannot see its results.
    """
    known = {os.path.realpath(study.path): study.config for study in studies if study.has_run}
    found = []
    for note in study_notes(store):
        folder, file = os.path.realpath(note.folder), os.path.realpath(note.file)
        config = known.get(file)
        seen = config is not None and same_folder(str(config["results_dir"]), os.path.dirname(folder))
        if folder not in beside and not seen:
            found.append(RecordedResults(str(note.folder), note.file, str(note.path)))
    return found


def _recorded_beside(studies: Sequence[StoreStudy], store: str) -> tuple[list[RecordedResults], set[str]]:
    """Return the results next to these studies' own, and the real paths of all results there."""
    known = {os.path.realpath(study.path) for study in studies}
    configs = [study.config for study in studies if study.config is not None]
    theirs = {os.path.realpath(Paths(config).results) for config in configs}
    results = [Path(folder) for folder in {str(config["results_dir"]) for config in configs}]
    found = []
    folders = {path.parent for one in results for name in (RECORD, "requests") for path in one.glob(f"*/{name}")}
    for folder in sorted(folders):
        recorded = (folder / RECORD).is_file()
        file = str(recorded_file(folder / RECORD)) if recorded else ""
        seen = os.path.realpath(file) in known if recorded else os.path.realpath(folder) in theirs
        if not seen and same_folder(Source(str(folder / "config.yaml")).data.get("store_dir", store), store):
            found.append(RecordedResults(str(folder), file))
    return found, set(map(os.path.realpath, folders))


def request_files(study: Study) -> list[str]:
    """Return the request file of every cell, existing or not."""
    return [requests_file(study.paths, cell) for cell in study.batch_of]


def read_asks(config: Mapping[str, Any]) -> Asks:
    """Return what a study asks for."""
    know_kinds_of(config)
    asks, study = Asks(), Study(config)
    for path in request_files(study):
        asks.cells += 1
        try:
            file = read_requests(path)
            keys = set(file.keys())
        except (OSError, BadFile):
            continue
        engine_id = str(file.header["engine_id"])
        asks.rendered += 1
        asks.keys[engine_id] |= keys
        asks.identities[engine_id] = dict(file.header["identity"])
        if file.can_go_on:
            try:
                asks.keys[engine_id] |= later_keys(config, file, engine_id)
            except (OSError, UserError, ValueError, StopIteration):
                asks.unknown.add(engine_id)
    return asks


def later_keys(config: Mapping[str, Any], file: RequestFile, engine_id: str) -> set[str]:
    """Return the keys of all turns of a cell's prompts, or tries of its votes, that follow from what is stored.

    Raises:
        StopIteration: if the study's results do not hold the engine.
        OSError: if its tokenizer is not there.
        ValueError: if it cannot be read.
        UserError: if the chat template refuses a conversation.
    """
    # Here, because rendering is heavy and most studies need none of it.
    from refusal_eval.ask.store import StoreReader
    from refusal_eval.ask.turns import walk
    from refusal_eval.judges.follow_ups import following

    described = map(read_json, sorted(Path(Paths(config).results, "engines").glob("*.json")))
    tokenizer = next(engine["tokenizer_folder"] for engine in described if engine["engine_id"] == engine_id)
    chains = walk(following(file, tokenizer), StoreReader(config["store_dir"], engine_id))
    asked = ([*(request for request, _ in chain.answered), chain.next] for chain in chains)
    return {request.key for requests in asked for request in requests if request and request.key}


def described_engines(studies: Iterable[StoreStudy], asks: Iterable[Asks]) -> dict[str, str]:
    """Return a line on every engine by its id, such as `smollm2-135m: gguf_sha256 b179c952, dtype bfloat16`."""
    names: dict[str, set[str]] = defaultdict(set)
    identities = {engine_id: identity for one in asks for engine_id, identity in one.identities.items()}
    for folder in {str(study.config["results_dir"]) for study in studies if study.config is not None}:
        for engine in map(read_json, sorted(Path(folder).glob("*/engines/*.json"))):
            names[engine["engine_id"]].add(engine["engine"])
            identities[engine["engine_id"]] = engine["identity"]
    lines = {}
    for engine_id, identity in identities.items():
        parts = identity.get("weights", {}) | {key: value for key, value in identity.items() if key != "weights"}
        short = (
            f"{key} {str(value)[:8] if key.endswith(('sha256', 'commit')) else value}" for key, value in parts.items()
        )
        lines[engine_id] = f"{', '.join(sorted(names[engine_id])) or 'without a name'}: {', '.join(short)}"
    return lines


def planned_rendering(study_file: str, root: Path) -> int:
    """Return how many request files Snakemake would write again: those that the study asks by now are then not known.

    Raises:
        UserError: if Snakemake cannot plan the study.
    """
    try:
        return sum(made.rule in RENDERING and not made.current for made in summary(Path(study_file), root))
    except UserError as error:
        raise UserError(f"{study_file}: {error}") from error


def same_folder(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
