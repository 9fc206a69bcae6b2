"""Check that a LoRA adapter was made for the weights it is to change, before a GPU is asked for."""

from typing import Any

from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.logs import start_log
from refusal_eval.features.lora.adapter import check_fits, warn_of_another_base
from refusal_eval.weights.engine_file import weight_source
from refusal_eval.weights.weights_manifest import manifest_folder


def main(snakemake: Any) -> None:
    """Write the adapter's description again, now as that of a fitting one."""
    log = start_log(snakemake)
    described = read_json(snakemake.input.adapter)
    source = snakemake.params.weights
    fetched = weight_source(source).fetched
    warn_of_another_base(described["folder"], source.get("repo", ""), log)
    weights = manifest_folder(snakemake.input.weights[0]) if fetched else source["path"]
    check_fits(described["folder"], weights, log)
    write_json(snakemake.output[0], described)


if snakemake := globals().get("snakemake"):
    main(snakemake)
