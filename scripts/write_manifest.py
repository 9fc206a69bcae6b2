"""Trace every number of a study: revisions, hashes, engines, what served, versions."""

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refusal_eval.ask.store import StoreReader
from refusal_eval.ask.store_index import key_numbers
from refusal_eval.core.files import read_json, read_jsonl, sha256_of_file, write_json
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


def main(inputs: Any, config: Mapping[str, Any], results: str, output: str) -> None:
    """Write the manifest: the whole study, the hashes of the files behind its numbers, and what served the responses.

    Args:
        inputs: the files of `engines`, `adapters` and `interventions`, and of the study's `answers`, `verdicts`, other
            `data` and `tables`; the user's own files behind them, the `sources`.
        config: the study.
        results: its folder of results.
        output: the file to write.
    """
    engines = {engine["engine"]: engine for engine in map(read_json, inputs.engines)}
    answered = _all("serving", inputs.answers)
    # Of several votes on an answer a verdict has the first one's key: what served later votes alone is not listed.
    judged = key_numbers(sorted(_all("key", inputs.verdicts)))
    serving: dict[str, Any] = {}
    judge_serving: dict[str, Any] = {}
    for engine in engines.values():
        store = StoreReader(config["store_dir"], engine["engine_id"])
        serving |= {name: record for name, record in store.serving().items() if name in answered}
        judge_serving |= store.serving(judged)
    paths = sorted({*inputs.answers, *inputs.verdicts, *inputs.data, *inputs.tables})
    files = {str(Path(path).relative_to(results)): sha256_of_file(path) for path in paths}
    manifest = {
        "refusal_eval": VERSION,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "study": dict(config),
        "engines": {name: {key: engine[key] for key in ("engine_id", "identity")} for name, engine in engines.items()},
        "adapters": {adapter["model"]: adapter["identity"] for adapter in map(read_json, inputs.adapters)},
        "serving": serving,
        "judge_serving": judge_serving,
        "files": files,
        "sources": {str(path): sha256_of_file(path) for path in inputs.sources},
    }
    if interventions := list(map(read_json, inputs.interventions)):
        manifest["interventions"] = {card["model"]: card for card in interventions}
    if lock := config.get("lock"):
        manifest["lock_sha256"] = sha256_of_file(lock)
    write_json(output, manifest)
    LOG.info("%d files, %d engines", len(files), len(engines))


def _all(name: str, paths: Iterable[str]) -> set[str]:
    """Return all values of a field of these files' rows; None is none."""
    return {row[name] for path in paths for row in read_jsonl(path)} - {None}


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(snakemake.input, snakemake.config, snakemake.params.manifest["results"], snakemake.output[0])
