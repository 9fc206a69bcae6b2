"""Measure what refusals cost in battles: win rates by class, penalties, and moderation bias."""

from collections.abc import Mapping, Sequence

from refusal_eval.core.files import read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.stats.battles.penalties import battle_estimates
from refusal_eval.stats.estimates.units import read_units


def main(scores: Sequence[str], prompts: Mapping[str, str], cells: Sequence[Sequence[str]], output: str) -> None:
    """Write the estimates of all battles of a study.

    Args:
        scores: a file for each of the cells.
        prompts: the file of each split.
        cells: [judge, model, split].
    """
    fought = {split: list(read_jsonl(path)) for split, path in prompts.items()}
    found = []
    for path, (_, _, split) in zip(scores, cells, strict=True):
        found += battle_estimates(read_units(path), fought[split])
    write_json(output, {"estimates": [estimate.row() for estimate in found]})
    LOG.info("%d estimates of battles", len(found))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    asked = snakemake.params.study
    files = dict(zip(asked["splits"], snakemake.input.prompts, strict=True))
    main(snakemake.input.scores, files, asked["cells"], snakemake.output[0])
