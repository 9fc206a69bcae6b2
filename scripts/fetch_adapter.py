"""Fetch a LoRA adapter from the hub."""

from typing import Any

from refusal_eval.core.logs import start_log
from refusal_eval.data.hub import locked_files
from refusal_eval.features.lora.adapter import fetch_adapter
from refusal_eval.weights.weight_fetching import Fetching


def main(snakemake: Any) -> None:
    """Fill the cache and write the manifest."""
    log, config, source = start_log(snakemake), snakemake.config, snakemake.params.source
    locked = locked_files(config, "model", source)
    fetch_adapter(source, Fetching(snakemake.output.manifest, config["cache_dir"], log, locked))


if snakemake := globals().get("snakemake"):
    main(snakemake)
