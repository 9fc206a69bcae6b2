"""Put every number of a study into one table, with a dictionary of what they mean."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.files import read_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.report.results.collected import Result, collected, estimates_in
from refusal_eval.report.results.dictionary import dictionary, undescribed
from refusal_eval.report.results.from_agreement import agreement_estimates
from refusal_eval.report.results.from_scores import card_estimates, score_estimates
from refusal_eval.report.results.results_files import results_csv, results_parquet, table_rows

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)
PEOPLE_SOURCE = "audit/agreement.json"


@dataclasses.dataclass(frozen=True)
class Files:
    """Where the numbers of a study stand.

    Attributes:
        scores: summaries of cells.
        cards: cards of judges.
        estimates: files with a list of estimates.
        agreement: judge_agreement.json, none or one.
        people: agreement.json of an audit, none or one.
    """

    scores: Sequence[str]
    cards: Sequence[str]
    estimates: Sequence[str]
    agreement: Sequence[str] = ()
    people: Sequence[str] = ()


def study_results(files: Files, study: Mapping[str, Any]) -> list[Result]:
    """Return all estimates of a study, each once; the sources are named as in the study's folder."""
    results = study["results"]

    def source(path: str) -> str:
        return Path(path).relative_to(results).as_posix()

    found = [Result(e, source(path)) for path in files.scores for e in score_estimates(read_json(path), study["tau"])]
    found += [Result(e, source(path)) for path in files.cards for e in card_estimates(read_json(path))]
    found += [Result(e, source(path)) for path in files.estimates for e in estimates_in(read_json(path))]
    found += [Result(e, source(path)) for path in files.agreement for e in agreement_estimates(read_json(path))]
    # An audit may lie anywhere; no path of this machine belongs into the table.
    found += [Result(e, PEOPLE_SOURCE) for path in files.people for e in estimates_in(read_json(path))]
    return collected(found)


def main(files: Files, study: Mapping[str, Any], folder: str) -> None:
    """Write the results table as CSV and Parquet, and its dictionary, into a folder."""
    results = study_results(files, study)
    estimates = [result.estimate for result in results]
    rows = table_rows(results)
    with written_whole(Path(folder, "results.csv")) as handle:
        handle.write(results_csv(rows))
    with written_whole(Path(folder, "results.parquet"), "wb") as handle:
        handle.write(results_parquet(rows))
    with written_whole(Path(folder, "dictionary.md")) as handle:
        handle.write(dictionary(estimates, study["study"]))
    if unknown := undescribed(estimates):
        LOG.warning("estimands or flags without a description in the dictionary: %s", ", ".join(unknown))
    LOG.info("%d estimates", len(rows))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        files=Files(
            scores=[str(path) for path in snakemake.input.scores],
            cards=[str(path) for path in snakemake.input.cards],
            estimates=[str(path) for path in snakemake.input.estimates],
            agreement=[str(path) for path in snakemake.input.agreement],
            people=[str(path) for path in snakemake.input.people],
        ),
        study=snakemake.params.study,
        folder=str(Path(snakemake.output[0]).parent),
    )
