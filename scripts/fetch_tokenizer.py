"""Fetch a hub model's tokenizer, configuration and chat template."""

from typing import Any

from refusal_eval.logs import start_log
from refusal_eval.weights.fetch import fetch_tokenizer


def main(snakemake: Any) -> None:
    """Fill the cache and write the manifest."""
    log = start_log(snakemake)
    fetch_tokenizer(snakemake.params.source, snakemake.output.manifest, snakemake.config["cache_dir"], log)


if "snakemake" in globals():
    main(globals()["snakemake"])
