"""Trace every number of a study: revisions, hashes, engines, what served, versions."""

import os
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import DAMAGED, StoreReader, not_in_store, when_stored
from refusal_eval.ask.store_index import key_numbers
from refusal_eval.config.activation_use import activation_uses
from refusal_eval.config.change import changes
from refusal_eval.core.files import as_planned, read_json, read_jsonl, sha256_of_file, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import LABELS
from refusal_eval.core.version import VERSION
from refusal_eval.study.files import file_of

PACKAGES = (
    "snakemake",
    "transformers",
    "tokenizers",
    "jinja2",
    "numpy",
    "pandas",
    "scipy",
    "scikit-learn",
    "matplotlib",
)


def main(inputs: Any, config: Mapping[str, Any], results: str, output: str) -> None:
    """Write the manifest: the whole study, the hashes of the files behind its numbers, and what served the responses.

    Args:
        inputs: the files of `engines`, `requests` and `judges`, of each change of models by its name, and of the
            study's `answers`, `verdicts`, other `data` and `tables`; the user's own files behind them, the `sources`.
        config: the study.
        results: its folder of results.

    Raises:
        NotInStore: if the store lacks responses, so that it cannot say what served them.
    """
    engines = {engine["engine"]: engine for engine in map(read_json, inputs.engines)}
    stores = [StoreReader(config["store_dir"], engine["engine_id"]) for engine in engines.values()]
    paths = sorted({*inputs.answers, *inputs.verdicts, *inputs.data, *inputs.tables})
    files = {str(Path(path).relative_to(results)): sha256_of_file(path) for path in paths}
    manifest = {
        "refusal_eval": VERSION,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "study": dict(config),
        "engines": {name: {key: engine[key] for key in ("engine_id", "identity")} for name, engine in engines.items()},
        "serving": answers_serving(stores, inputs.answers),
        "judge_serving": judges_serving(stores, inputs.verdicts),
        "files": files,
        "sources": {str(path): sha256_of_file(path) for path in inputs.sources},
    }
    for change in changes():
        manifest |= change.in_manifest([read_json(file) for file in inputs.get(change.name, [])])
    for use in activation_uses():
        folders = {file_of(noun).folder for noun in use.made}
        manifest |= use.in_manifest([Path(results, name) for name in files if name.split("/")[0] in folders])
    if notes := rendering_notes(inputs.requests):
        manifest["rendering_notes"] = notes
    judges = {Path(path).stem: read_json(path).get("notes") for path in filter(os.path.isfile, inputs.judges)}
    if noted := {name: notes for name, notes in sorted(judges.items()) if notes}:
        manifest["judge_rendering_notes"] = noted
    if lock := config.get("lock"):
        manifest["lock_sha256"] = sha256_of_file(lock)
    write_json(output, manifest)
    LOG.info("%d files, %d engines", len(files), len(engines))


def rendering_notes(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return what may be wrong with how a model's prompts are rendered, by model; only of those that have a note.

    A study of which answers and verdicts alone were kept has no requests.
    """
    notes: dict[str, list[str]] = {}
    for path in filter(os.path.isfile, paths):
        for note in read_requests(path).notes:
            own = notes.setdefault(Path(path).parent.name, [])
            own += [] if note in own else [note]
    return notes


def answers_serving(stores: Sequence[StoreReader], paths: Collection[str]) -> dict[str, Any]:
    """Return what served the answers of these files, by id, and which versions of a model it named, if it did.

    Raises:
        NotInStore: if answers lack it because the store lacks their responses.
    """
    # Recorded answers, and those without a response, have none.
    served = {(row["serving"], row.get("model_version")) for path in paths for row in read_jsonl(path)}
    answered = {name for name, _ in served} - {None}
    serving = {name: record for store in stores for name, record in store.serving().items() if name in answered}
    if lost := answered - serving.keys():
        keys = {row["key"] for path in paths for row in read_jsonl(path) if row["serving"] in lost}
        found = [item for store in stores for item in store.lookup(sorted(keys)).items()]
        refuse_lost(len(keys - {key for key, record in found if record["serving"] in lost}), "answers")
        LOG.warning("what served %d answers is not known: its record in the store is damaged", len(keys))
    for name, record in serving.items():
        if versions := sorted(version for one, version in served if one == name and version):
            record["model_versions"] = versions
    return serving | dict.fromkeys(lost, DAMAGED)


def judges_serving(stores: Sequence[StoreReader], paths: Iterable[str]) -> dict[str, Any]:
    """Return what served the verdicts of these files, by id.

    Of several votes on an answer a verdict has the first one's key: what served later votes alone is not listed.

    Raises:
        NotInStore: if the store lacks responses that verdicts were read from.
    """
    keys, read = set[str](), set[str]()
    for row in (row for path in paths for row in read_jsonl(path)):
        if row["key"] is not None:
            keys.add(row["key"])
            if row["raw"].get("votes", [row["label"]])[0] in LABELS:  # the first vote, whose key this is, was read
                read.add(row["key"])
    lost = key_numbers(sorted(read))
    for store in stores:
        lost = store.unknown(lost)
    refuse_lost(len(lost), "verdicts")
    numbers = key_numbers(sorted(keys))
    return {name: record for store in stores for name, record in store.serving(numbers).items()}


def refuse_lost(count: int, whose: str) -> None:
    """Raise `NotInStore` if so many responses are not in the store."""
    if count:
        raise not_in_store(f"1 response behind {whose} is" if count == 1 else f"{count} responses behind {whose} are")


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, study, how, out = snakemake.input, snakemake.config, snakemake.params, snakemake.output[0]
    own = [*files.sources, *filter(None, [study.get("lock")])]
    with as_planned(own, [*how.sources_sha256, *how.lock_sha256]):
        when_stored(lambda: main(files, study, how.manifest["results"], out))
