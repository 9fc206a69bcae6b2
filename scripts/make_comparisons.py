"""Compare the models of a study, or its judges, on the same prompts: differences, tests, and their tables."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.files import read_json, write_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.comparison_tables import comparisons_frame, comparisons_table
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import csv_text, markdown
from refusal_eval.report.paper.protocol_labels import labelled
from refusal_eval.report.paper.repeated_headers import told_once
from refusal_eval.stats.comparisons.study_comparisons import Scored, compared, estimates
from refusal_eval.stats.estimates.scores import HEADLINE_READING, score_flags
from refusal_eval.stats.estimates.units import read_scores
from refusal_eval.study.comparison_families import Cell, family_of

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(
    cells: Sequence[Cell],
    score_paths: Sequence[str],
    summary_paths: Sequence[str],
    card_paths: Sequence[str],
    duplicate_paths: Sequence[str],
    study: Mapping[str, Any],
    results: str,
) -> None:
    """Write tables/comparisons.{csv,md,tex} and estimates/comparisons.json.

    Args:
        cells: (judge, model, split) of each score CSV.
        score_paths: score CSVs.
        summary_paths: the summaries of the same cells.
        card_paths: cards of the judges.
        duplicate_paths: the list of near-duplicate prompts, where something is pooled.
        study: `families`, `samples`, `level`, `labels`, `protocol`, and by split `expectations`, `sources` and
            `headlines` (the reading, None for that of the expectation).
        results: the study's folder.
    """
    frames = {cell: read_scores(path) for cell, path in zip(cells, score_paths, strict=True)}
    duplicates = [pair for path in duplicate_paths for pair in read_json(path)["pairs"]]
    families = [family_of(family) for family in study["families"]]
    readings = {s: study["headlines"][s] or HEADLINE_READING[study["expectations"][s]] for s in study["headlines"]}
    flags = {cell: score_flags(read_json(path)) for cell, path in zip(cells, summary_paths, strict=True)}
    scored = Scored(frames, flags, readings, study["sources"], duplicates, study["samples"], study["level"])
    rows = compared(families, scored)
    frame = comparisons_frame(rows, families, study["level"])
    # A prompt that has several rows is a dialogue with several scored turns.
    dialogues = {split for (_, _, split), cell in frames.items() if cell.index.get_level_values(0).has_duplicates}
    told = {**study, "readings": readings, "dialogues": sorted(dialogues)}
    table = told_once(comparisons_table(rows, families, told, [read_json(path) for path in card_paths]))
    frame, table = labelled(frame, table, study.get("protocol", "default"))
    for ending, text in (("csv", csv_text(frame)), ("md", markdown(table)), ("tex", latex(table))):
        with written_whole(Path(results, "tables", f"comparisons.{ending}")) as handle:
            handle.write(text)
    pools: dict[str, list[str]] = {}
    for split, expectation in study["expectations"].items():
        pools.setdefault(expectation, []).append(split)
    found = [estimate.row() for estimate in estimates(rows, pools, study["samples"], study["level"])]
    write_json(Path(results, "estimates", "comparisons.json"), {"estimates": found, "comparisons": rows})
    LOG.info("%d comparisons in %d families", len(rows), len(families))


if "snakemake" in globals():
    start_log(snakemake)
    params = snakemake.params.comparisons
    main(
        cells=[tuple(cell) for cell in params["cells"]],
        score_paths=[str(path) for path in snakemake.input.scores],
        summary_paths=[str(path) for path in snakemake.input.summaries],
        card_paths=[str(path) for path in snakemake.input.cards],
        duplicate_paths=[str(path) for path in snakemake.input.duplicates],
        study=params,
        results=str(Path(snakemake.output.json).parent.parent),
    )
