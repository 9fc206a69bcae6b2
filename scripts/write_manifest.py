"""Trace every number of a study: revisions, hashes, engines, what served, versions."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import read_json, sha256_of_file, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.version import VERSION

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


def main(
    engine_paths: list[str],
    adapter_paths: list[str],
    intervention_paths: list[str],
    data_paths: list[str],
    table_paths: list[str],
    config: Mapping[str, Any],
    results: str,
    output: str,
) -> None:
    """Write the manifest: the whole study, the hash of each file behind its numbers, and what served the responses."""
    engines = {engine["engine"]: engine for engine in map(read_json, engine_paths)}
    serving: dict[str, Any] = {}
    for engine in engines.values():
        serving |= StoreReader(config["store_dir"], engine["engine_id"]).serving()
    files = {str(Path(path).relative_to(results)): sha256_of_file(path) for path in sorted({*data_paths, *table_paths})}
    manifest = {
        "refusal_eval": VERSION,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "study": dict(config),
        "engines": {name: {key: engine[key] for key in ("engine_id", "identity")} for name, engine in engines.items()},
        "adapters": {adapter["model"]: adapter["identity"] for adapter in map(read_json, adapter_paths)},
        "serving": serving,
        "files": files,
    }
    if interventions := list(map(read_json, intervention_paths)):
        manifest["interventions"] = {card["model"]: card for card in interventions}
    if lock := config.get("lock"):
        manifest["lock_sha256"] = sha256_of_file(lock)
    write_json(output, manifest)
    LOG.info("%d files, %d engines", len(files), len(engines))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, results = snakemake.input, snakemake.params.manifest["results"]
    main(
        files.engines,
        files.adapters,
        files.interventions,
        files.data,
        files.tables,
        snakemake.config,
        results,
        snakemake.output[0],
    )
