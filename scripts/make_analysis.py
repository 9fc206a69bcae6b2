"""Make one analysis of a study."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.config.kinds import ANALYSES
from refusal_eval.core.files import write_json
from refusal_eval.core.logs import LOG, start_log


def main(analysis: Any, files: Mapping[str, Sequence[str]], params: Mapping[str, Any], output: str) -> None:
    """Write what an analysis (`workflow.analysis.Analysis`) found, of the files and params that it named itself."""
    found = analysis.measure(files, params)
    write_json(output, found)
    LOG.info("%d estimates", len(found["estimates"]))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        analysis=ANALYSES.get(snakemake.wildcards.analysis),
        files={noun: [str(path) for path in paths] for noun, paths in snakemake.input.items()},
        params=snakemake.params.study,
        output=snakemake.output[0],
    )
