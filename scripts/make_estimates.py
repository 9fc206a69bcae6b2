"""Estimate everything that one judge says of one model: of each split, and pooled over splits of one expectation."""

import dataclasses
import gc
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.stats.estimates.cell_estimates import cell_estimates, model_alone_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.model_alone import cells_of_model_alone, named_model_alone
from refusal_eval.stats.estimates.near_duplicates import PromptPlace
from refusal_eval.stats.estimates.pooled_estimates import pooled_rates
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.stats.estimates.variance import variance_estimates


def main(paths: Sequence[str], duplicates_path: str, study: Mapping[str, Any], output: str) -> None:
    """Write the estimates of one (judge, model): {"estimates": [...]}.

    Args:
        paths: the scored cell of each split, in the order of the study's `splits`.
        duplicates_path: estimates/duplicates.json.
        study: `judge`, `model`, `splits`, `sources` (of each split, see `cluster_names.names_apart`), whether there
            is a `tau_sweep`, and whether an engine of the study `may_block`.
    """
    found: list[Estimate] = []
    cells = [read_units(path) for path in paths]
    for units in cells:
        found += cell_estimates(units, study["tau_sweep"])
        assert units.labels is not None
        facts, clusters = units.facts, units["cluster"].tolist()
        labels = {facts["judge"]: units.labels}
        found += variance_estimates(labels, clusters, facts["model"], facts["split"], facts["level"], [units.flags])
    left_out = {PromptPlace(row["split"], row["prompt_id"]) for row in read_json(duplicates_path)["left_out"]}
    named = {"judge": study["judge"], "model": study["model"]}
    found += [dataclasses.replace(e, **named) for e in pooled_rates(cells, left_out, study["sources"])]
    by_cell = {(u.facts["judge"], u.facts["model"], u.facts["split"]): u for u in cells}
    if alone := cells_of_model_alone(by_cell, study.get("may_block", False)):
        found += [row for units in cells for row in model_alone_estimates(units)]
        pooled = pooled_rates(list(alone.values()), left_out, study["sources"])
        found += named_model_alone(dataclasses.replace(e, **named) for e in pooled)
    write_json(output, {"estimates": [estimate.row() for estimate in found]})
    LOG.info("%d estimates of %d splits", len(found), len(cells))


if snakemake := globals().get("snakemake"):
    gc.disable()  # the rows hold no cycles, and looking for some among them takes a fifth of the time
    start_log(snakemake)
    main(snakemake.input.cells, snakemake.input.duplicates, snakemake.params.study, snakemake.output[0])
