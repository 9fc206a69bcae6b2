"""Put every number of a study into one table, with a dictionary of what they mean."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.files import read_json, written_whole
from refusal_eval.logs import start_log
from refusal_eval.results_table.collect import Result, collected, estimates_in
from refusal_eval.results_table.dictionary import dictionary, undescribed
from refusal_eval.results_table.files import results_csv, results_parquet, table_rows
from refusal_eval.results_table.from_scores import card_estimates, score_estimates

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def study_results(
    score_paths: list[str], card_paths: list[str], estimate_paths: list[str], study: Mapping[str, Any]
) -> list[Result]:
    """Return all estimates of a study, each once; the sources are named as in the study's folder."""
    results = study["results"]

    def source(path: str) -> str:
        return Path(path).relative_to(results).as_posix()

    found = [Result(e, source(path)) for path in score_paths for e in score_estimates(read_json(path), study["tau"])]
    found += [Result(e, source(path)) for path in card_paths for e in card_estimates(read_json(path))]
    found += [Result(e, source(path)) for path in estimate_paths for e in estimates_in(read_json(path))]
    return collected(found)


def main(
    score_paths: list[str], card_paths: list[str], estimate_paths: list[str], study: Mapping[str, Any], folder: str
) -> None:
    """Write the results table as CSV and Parquet, and its dictionary, into a folder."""
    results = study_results(score_paths, card_paths, estimate_paths, study)
    estimates = [result.estimate for result in results]
    rows = table_rows(results)
    with written_whole(Path(folder, "results.csv")) as handle:
        handle.write(results_csv(rows))
    with written_whole(Path(folder, "results.parquet"), "wb") as handle:
        handle.write(results_parquet(rows))
    with written_whole(Path(folder, "dictionary.md")) as handle:
        handle.write(dictionary(estimates, study["study"]))
    if unknown := undescribed(estimates):
        LOG.warning("estimands without a description in the dictionary: %s", ", ".join(unknown))
    LOG.info("%d estimates", len(rows))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        score_paths=[str(path) for path in snakemake.input.scores],
        card_paths=[str(path) for path in snakemake.input.cards],
        estimate_paths=[str(path) for path in snakemake.input.estimates],
        study=snakemake.params.study,
        folder=str(Path(snakemake.output[0]).parent),
    )
