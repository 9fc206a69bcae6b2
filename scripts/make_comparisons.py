"""Compare the models of a study, or its judges, on the same prompts: differences and tests."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.stats.comparisons.study_comparisons import compared, estimates
from refusal_eval.stats.estimates.units import dialogue_splits, read_units
from refusal_eval.study.comparison_families import family_of


def main(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any], output: str) -> None:
    """Write {"estimates": [...], "comparisons": [...], "level", "dialogues"}: the comparisons of a study.

    Args:
        paths: `scores` (a file for each of the study's `cells`); where something is pooled, `duplicates`.
        study: `cells` ([judge, model, split]), `families`, and what `study_comparisons.compared` needs.
    """
    cells = [(judge, model, split) for judge, model, split in study["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, paths["scores"], strict=True)}
    duplicates = [pair for path in paths["duplicates"] for pair in read_json(path)["pairs"]]
    families = [family_of(family) for family in study["families"]]
    rows = compared(families, units, study, duplicates)
    found: dict[str, Any] = {"estimates": [estimate.row() for estimate in estimates(rows, study)], "comparisons": rows}
    write_json(output, found | {"level": study["level"], "dialogues": dialogue_splits(units)})
    LOG.info("%d comparisons in %d families", len(rows), len(families))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        {name: snakemake.input[name] for name in ("scores", "duplicates")}, snakemake.params.study, snakemake.output[0]
    )
