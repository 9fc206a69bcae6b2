"""Estimate everything that one judge says of one model: of each split, and pooled over splits of one expectation."""

import dataclasses
import gc
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refusal_eval.core.files import read_json, write_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.stats.estimates.cell_estimates import cell_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.pooled_estimates import pooled_rates
from refusal_eval.stats.estimates.samples import read_samples
from refusal_eval.stats.estimates.units import Units, read_units
from refusal_eval.stats.estimates.variance import variance_estimates

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)

LABEL_COUNTS = ("n_refusal", "n_partial", "n_compliance", "n_blocked")  # in the order of the labels' numbers


def main(
    paths: Mapping[str, Sequence[str]], duplicates_path: str, study: Mapping[str, Any], json_path: str, labels_path: str
) -> None:
    """Write the estimates of one (judge, model), and its labels as arrays.

    Args:
        paths: `rows`, `scores` and `samples`: a file for each split, in the order of the study's `splits`.
        duplicates_path: estimates/duplicates.json.
        study: `judge`, `model`, `splits`, `sources` (of each split, see `units.names_apart`), `samples`, `tau`,
            `band`, `level` and whether there is a `tau_sweep`.
        json_path: {"estimates": [...]}.
        labels_path: for each split the arrays `{split}/labels` (`samples.Samples`), `{split}/clusters` (names) and
            `{split}/flags` of the cell.
    """
    found: list[Estimate] = []
    cells: list[tuple[Mapping[str, Any], Units]] = []
    arrays: dict[str, Any] = {}
    sweep = study["tau_sweep"] and study["samples"] > 1
    for i, split in enumerate(study["splits"]):
        files = {name: of_splits[i] for name, of_splits in paths.items()}
        score = read_json(files["scores"])
        units = read_units(files["rows"], score)
        labels, logprobs = read_samples(files["samples"], [units[name] for name in LABEL_COUNTS])
        cells.append((score, units))
        arrays |= {f"{split}/labels": labels, f"{split}/clusters": units["cluster"].astype(str)}
        arrays[f"{split}/flags"] = np.array(units.flags, dtype=str)
        found += cell_estimates(score, units, labels, logprobs if sweep else None, study["tau"], study["band"])
        of_judge = {study["judge"]: labels}
        found += variance_estimates(
            of_judge, units["cluster"].tolist(), study["model"], split, study["level"], [units.flags]
        )
    left_out = {Place(row["split"], row["prompt_id"]) for row in read_json(duplicates_path)["left_out"]}
    named = {"judge": study["judge"], "model": study["model"]}
    found += [dataclasses.replace(e, **named) for e in pooled_rates(cells, left_out, study["level"], study["sources"])]
    write_json(json_path, {"estimates": [estimate.row() for estimate in found]})
    with written_whole(labels_path, "wb") as handle:
        np.savez_compressed(handle, **arrays)
    LOG.info("%d estimates of %d splits", len(found), len(cells))


if "snakemake" in globals():
    gc.disable()  # the rows hold no cycles, and looking for some among them takes a fifth of the time
    start_log(snakemake)
    main(
        paths={n: [str(path) for path in snakemake.input[n]] for n in ("rows", "scores", "samples")},
        duplicates_path=str(snakemake.input.duplicates),
        study=snakemake.params.study,
        json_path=str(snakemake.output.json),
        labels_path=str(snakemake.output.labels),
    )
