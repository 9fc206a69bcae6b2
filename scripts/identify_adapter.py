"""Write down what identifies a model's LoRA adapter, and where its files lie."""

import dataclasses
from typing import Any

from refusal_eval.config.kinds import ADAPTER_SOURCES
from refusal_eval.core.files import write_json
from refusal_eval.core.logs import start_log
from refusal_eval.features.lora.adapter import describe_adapter


def main(snakemake: Any) -> None:
    """Write the adapter's description to the rule's output."""
    log = start_log(snakemake)
    source = snakemake.params.adapter["source"]
    manifest = snakemake.input[0] if ADAPTER_SOURCES.entry(source).fetched else None
    described = describe_adapter(snakemake.wildcards.model, source, manifest, snakemake.config["cache_dir"], log)
    log.info("adapter of %s: rank %d, identity %s", described.model, described.rank, described.identity)
    write_json(snakemake.output[0], dataclasses.asdict(described))


if snakemake := globals().get("snakemake"):
    main(snakemake)
