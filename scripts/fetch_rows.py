"""Fetch the rows of a hub or wheel source into the cache."""

from typing import Any

from refusal_eval.core.logs import start_log
from refusal_eval.data.hub import locked_files
from refusal_eval.study.row_sources import row_source


def main(snakemake: Any) -> None:
    """Write the rows to the rule's output."""
    log = start_log(snakemake)
    source = snakemake.params.source
    locked = locked_files(snakemake.config, "dataset", source)
    row_source(source).fetch(snakemake.output[0], snakemake.config["cache_dir"], log, locked)


if snakemake := globals().get("snakemake"):
    main(snakemake)
