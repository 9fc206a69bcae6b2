"""Compare the models of a study, or its judges, on the same prompts: differences and tests."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.stats.comparisons.study_comparisons import Scored, compared, estimates
from refusal_eval.stats.estimates.units import dialogue_splits, read_units
from refusal_eval.study.comparison_families import family_of


def main(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any], output: str) -> None:
    """Write {"estimates": [...], "comparisons": [...], "level", "dialogues"}: the comparisons of a study.

    Args:
        paths: `scores` (a file for each of the study's `cells`); where something is pooled, `duplicates`.
        study: `cells` ([judge, model, split]), `families`, `samples`, `level`, `margin`, `p_values`, `correction`, and
            of `splits` the `name`, `expectation`, `reading` and `source`.
        output: the JSON.
    """
    cells = [(judge, model, split) for judge, model, split in study["cells"]]
    units = {cell: read_units(path) for cell, path in zip(cells, paths["scores"], strict=True)}
    duplicates = [pair for path in paths["duplicates"] for pair in read_json(path)["pairs"]]
    families, samples, level = [family_of(family) for family in study["families"]], study["samples"], study["level"]
    readings, sources, expectations = (
        {split["name"]: split[key] for split in study["splits"]} for key in ("reading", "source", "expectation")
    )
    margin, chosen = study["margin"], (study["p_values"] == "mid", study["correction"])
    scored = Scored(units, readings, sources, duplicates, samples, level, expectations, margin, *chosen)
    rows = compared(families, scored)
    pools: dict[str, list[str]] = {}
    for split in study["splits"]:
        pools.setdefault(split["expectation"], []).append(split["name"])
    found = [estimate.row() for estimate in estimates(rows, pools, samples, level, margin)]
    write_json(output, {"estimates": found, "comparisons": rows, "level": level, "dialogues": dialogue_splits(units)})
    LOG.info("%d comparisons in %d families", len(rows), len(families))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        {name: snakemake.input[name] for name in ("scores", "duplicates")}, snakemake.params.study, snakemake.output[0]
    )
