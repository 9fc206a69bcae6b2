"""Make the tables of a study as CSV, Markdown and LaTeX."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.core.files import read_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.best_values import adjusted_p
from refusal_eval.report.paper.category_tables import categories_frame, categories_table, category_rows
from refusal_eval.report.paper.display import Labels
from refusal_eval.report.paper.frames import judges_frame, main_frame, states_frame, votes_frame
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import Table, csv_text, markdown
from refusal_eval.report.paper.protocol_labels import labelled
from refusal_eval.report.paper.repeated_headers import told_once
from refusal_eval.report.paper.study_tables import judges_table, main_table, paper_table, states_table, votes_table
from refusal_eval.report.paper.table_check import check_equal
from refusal_eval.report.paper.table_notes import common_notes
from refusal_eval.report.results.results_files import read_results
from refusal_eval.stats.estimates.estimate import Estimate

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def study_tables(
    scores: list[Any], cards: list[Any], results: Iterable[Estimate], study: Mapping[str, Any]
) -> dict[str, tuple[pd.DataFrame, Table]]:
    """Return each table by file name: the frame of its CSV, sorted by name, and its text, in the study's order."""
    labels, judge, known = Labels(**study["labels"]), study["primary_judge"], list(results)
    order: dict[str, Any] = {name: study[name] for name in ("models", "splits", "judges")}
    primary = [score for score in scores if score["judge"] == judge]
    columns: dict[str, Any] = {name: order[name] for name in ("models", "splits")}
    readings = {score["split"]: score["headline"] for score in primary}
    by_category = category_rows(known, judge, readings)
    with_categories = [score for score in primary if score["split"] in {row.split for row in by_category}]
    notes = common_notes(with_categories, cards, labels) if with_categories else []
    paper = paper_table(scores, cards, judge, labels, **columns, p_values=adjusted_p(known, judge))
    return {
        "refusal": (main_frame(primary, cards), paper),
        "categories": (
            categories_frame(by_category),
            categories_table(by_category, judge, with_categories, notes, labels, **columns),
        ),
        "scores": (main_frame(scores, cards), main_table(scores, cards, labels, **order)),
        "states": (states_frame(scores), states_table(scores, labels, **order)),
        "votes": (votes_frame(scores), votes_table(scores, cards, labels, **order)),
        "judges": (judges_frame(cards), told_once(judges_table(cards, study["judges"], labels))),
    }


def main(
    score_paths: list[str], card_paths: list[str], results_path: str, study: Mapping[str, Any], folder: str
) -> None:
    """Write every table of a study in three formats, after a check that the results table has the same numbers.

    Raises:
        UserError: if it does not.
    """
    scores = [read_json(path) for path in score_paths]
    cards = [read_json(path) for path in card_paths]
    results = read_results(Path(results_path).read_text(encoding="utf-8"))
    check_equal(results, scores, cards, study["tau"])
    for name, (frame, table) in study_tables(scores, cards, results, study).items():
        frame, table = labelled(frame, table, study.get("protocol", "default"))
        for ending, text in (("csv", csv_text(frame)), ("md", markdown(table)), ("tex", latex(table))):
            with written_whole(Path(folder, f"{name}.{ending}")) as handle:
                handle.write(text)
    LOG.info("tables of %d cells", len(scores))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        score_paths=[str(path) for path in snakemake.input.scores],
        card_paths=[str(path) for path in snakemake.input.cards],
        results_path=str(snakemake.input.results),
        study=snakemake.params.study,
        folder=str(Path(snakemake.output[0]).parent),
    )
