"""Put every number of a study into one table, with a dictionary of what they mean."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.files import as_planned, read_json, write_text, written_whole
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.report.results.dictionary import dictionary, missing_definitions
from refusal_eval.report.results.results_files import (
    Result,
    collect_results,
    estimates_in,
    results_csv,
    results_parquet,
    table_rows,
)
from refusal_eval.stats.estimates.model_alone import unblocked

PEOPLE_SOURCE = "audit/agreement.json"


def study_results(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any]) -> list[Result]:
    """Return all estimates of a study, each once; the sources are named as in the study's folder.

    Args:
        paths: `cards`, `estimates`, and of `people` (agreement.json of an audit), each with its `estimates`.
        study: `results`, its folder.
    """

    def source(noun: str, path: str) -> str:
        # An audit may lie anywhere; no path of this machine belongs into the table.
        return PEOPLE_SOURCE if noun == "people" else Path(path).relative_to(study["results"]).as_posix()

    found = [
        Result(estimate, source(noun, path))
        for noun, of_noun in paths.items()
        for path in of_noun
        for estimate in estimates_in(read_json(path))
    ]
    of_models = [result for result in found if result.source.startswith("estimates/cells/")]
    sources = {(result.estimate.judge, result.estimate.model): result.source for result in of_models}
    more = unblocked(result.estimate for result in of_models)
    return collect_results([*found, *(Result(e, sources[e.judge, e.model]) for e in more)])


def main(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any], folder: str) -> None:
    """Write the results table as CSV and Parquet, and its dictionary, into a folder."""
    results = study_results(paths, study)
    estimates = [result.estimate for result in results]
    rows = table_rows(results)
    write_text(Path(folder, "results.csv"), results_csv(rows))
    with written_whole(Path(folder, "results.parquet"), "wb") as handle:
        handle.write(results_parquet(rows))
    write_text(Path(folder, "dictionary.md"), dictionary(estimates, study["study"]))
    if unknown := missing_definitions(estimates):
        LOG.warning("estimands or flags without a description in the dictionary: %s", ", ".join(unknown))
    LOG.info("%d estimates", len(rows))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, study = snakemake.input, snakemake.params.study
    with as_planned(files.people, study["people_sha256"]):
        main(
            paths={noun: [str(path) for path in paths] for noun, paths in files.items() if noun != "dictionary"},
            study=study,
            folder=str(Path(snakemake.output[0]).parent),
        )
