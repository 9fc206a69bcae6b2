"""Score one cell as the published code does, and tell what each of its choices does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.files import as_planned, read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.published.published_cell import cell_units, published_cell
from refusal_eval.recorded.recorded_folder import recorded_votes


def main(paths: Mapping[str, str], cell: Mapping[str, Any], output: str, recorded: Sequence[str] = ()) -> None:
    """Write the published scores of one (judge, model, split).

    Args:
        paths: `prompts`, `answers`, `verdicts`, and `published`, what the published code makes of the responses.
        cell: what else decides its numbers (`workflow.scoring.published_cell`).
        recorded: answers.json and judge_scores.json of the folder that both answers and verdicts came in, if they did.
    """
    rows = {name: list(read_jsonl(path)) for name, path in paths.items()}
    _, *published = rows["published"]
    votes = recorded_votes(rows["prompts"], *map(Path, recorded)) if recorded else None
    units = cell_units(
        rows["prompts"], rows["answers"], rows["verdicts"], published, cell["samples"], cell["scored"], votes
    )
    result = published_cell(units, cell["tau"], cell["band"])
    names = {name: cell[name] for name in ("judge", "model", "split", "samples", "tau", "band")}
    write_json(output, {**names, **result})
    LOG.info("%d of %d prompts have a score", len(result["scores"]), len(units))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    paths = {name: snakemake.input[name] for name in ("prompts", "answers", "verdicts", "published")}
    with as_planned(snakemake.input.recorded, snakemake.params.recorded):
        main(paths, snakemake.params.cell, snakemake.output[0], snakemake.input.recorded)
