"""Fetch a hub model's tokenizer, configuration and chat template."""

from typing import Any

from refusal_eval.core.logs import start_log
from refusal_eval.data.locked import locked_files
from refusal_eval.weights.weight_fetching import fetch_tokenizer


def main(snakemake: Any) -> None:
    """Fill the cache and write the manifest."""
    log = start_log(snakemake)
    source = snakemake.params.source
    locked = locked_files(snakemake.config, "model", source)
    fetch_tokenizer(source, snakemake.output.manifest, snakemake.config["cache_dir"], log, locked=locked)


if "snakemake" in globals():
    main(globals()["snakemake"])
