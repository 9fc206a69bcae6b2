"""Fetch a LoRA adapter from the hub."""

from typing import Any

from refusal_eval.core.logs import start_log
from refusal_eval.data.locked import locked_files
from refusal_eval.weights.adapter import fetch_adapter


def main(snakemake: Any) -> None:
    """Fill the cache and write the manifest."""
    log = start_log(snakemake)
    source = snakemake.params.source
    locked = locked_files(snakemake.config, "model", source)
    fetch_adapter(source, snakemake.output.manifest, snakemake.config["cache_dir"], log, locked=locked)


if "snakemake" in globals():
    main(globals()["snakemake"])
