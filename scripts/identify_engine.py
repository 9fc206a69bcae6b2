"""Write down what identifies an engine, and where its files lie; refuse what a strict study cannot have."""

from pathlib import Path
from typing import Any

from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.kinds import ENGINES
from refusal_eval.core.files import write_json
from refusal_eval.core.logs import start_log
from refusal_eval.weights.engine_file import describe_engine, refuse_strict, weight_source


def main(snakemake: Any) -> None:
    """Write the engine's description to the rule's output."""
    log = start_log(snakemake)
    name, params = snakemake.wildcards.engine, snakemake.params.engine
    engine: Engine = ENGINES.entry(snakemake.config["engine_entries"][name])
    weights = params["weights"]
    manifest = None if weights is None or not weight_source(weights).fetched else snakemake.input[0]
    described = describe_engine(name, engine, weights, manifest, snakemake.config["cache_dir"])
    if params.get("strict") and engine.device_here(Path(snakemake.scriptdir).parent) == "cuda":
        refuse_strict(name, described["folder"], getattr(engine, "quantization", None))
    log.info("engine %s: %s, identity %s", described["engine"], described["engine_id"], described["identity"])
    write_json(snakemake.output[0], described)


if snakemake := globals().get("snakemake"):
    main(snakemake)
