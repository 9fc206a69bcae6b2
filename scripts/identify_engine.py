"""Write down what identifies an engine, and where its files lie; refuse what a strict study cannot have."""

from pathlib import Path
from typing import Any

from refusal_eval.core.files import write_json
from refusal_eval.core.logs import start_log
from refusal_eval.study.engine_environment import engine_device
from refusal_eval.weights.batch_invariance import refuse_strict
from refusal_eval.weights.engine_file import describe_engine


def main(snakemake: Any) -> None:
    """Write the engine's description to the rule's output."""
    log = start_log(snakemake)
    entry = snakemake.params.engine
    manifest = None if entry["weights"]["kind"] == "folder" else snakemake.input[0]
    name = snakemake.wildcards.engine
    described = describe_engine(name, entry, manifest, snakemake.config["cache_dir"])
    root = Path(snakemake.scriptdir).parent
    if entry.get("strict") and engine_device(snakemake.config["engine_entries"][name], root) == "cuda":
        refuse_strict(name, described["folder"])
    log.info("engine %s: %s, identity %s", described["engine"], described["engine_id"], described["identity"])
    write_json(snakemake.output[0], described)


if "snakemake" in globals():
    main(globals()["snakemake"])
