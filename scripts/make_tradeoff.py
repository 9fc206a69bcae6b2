"""Weigh over-refusal against safety: models, contrast pairs, topics and languages, as estimates and tables."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.files import read_json, read_jsonl, write_json
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.table_files import write_tables
from refusal_eval.report.paper.tradeoff_tables import tradeoff_frame, tradeoff_tables
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.stats.tradeoff.languages import languages_of
from refusal_eval.stats.tradeoff.study_tradeoff import study_trade_off

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any], output: str, tables: Sequence[str]) -> None:
    """Write the trade-off of a study and its tables.

    Args:
        paths: `rows` and `scores` (a file for each of the study's `cells`), `prompts` (one for each split), `cards` and
            `duplicates`.
        study: see `study.study_trade_off` and `tables.tradeoff_tables`; `cells` are [judge, model, split].
        output: the JSON.
        tables: the CSV, the Markdown and the LaTeX.
    """
    cells = [(judge, model, split) for judge, model, split in study["cells"]]
    scores, cards = ([read_json(path) for path in paths[name]] for name in ("scores", "cards"))
    units = {
        cell: read_units(Path(rows).read_text(encoding="utf-8"), score)
        for cell, rows, score in zip(cells, paths["rows"], scores, strict=True)
    }
    names = [split["name"] for split in study["splits"]]
    languages = {name: languages_of(read_jsonl(path)) for name, path in zip(names, paths["prompts"], strict=True)}
    away = {Place(**place) for path in paths["duplicates"] for place in read_json(path)["left_out"]}
    result = study_trade_off(units, study, languages, away)
    write_json(output, result)
    made = tradeoff_tables(result, scores, cards, study)
    write_tables(tradeoff_frame(result), made, tables, study.get("protocol", "default"))
    LOG.info("%d models on the trade-off, %d tables", len(result["models"]), len(made))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        paths={"duplicates": [str(snakemake.input.duplicates)]}
        | {
            name: [str(path) for path in getattr(snakemake.input, name)]
            for name in ("rows", "scores", "prompts", "cards")
        },
        study=snakemake.params.study,
        output=str(snakemake.output.json),
        tables=[str(snakemake.output[0]), str(snakemake.output.md), str(snakemake.output.tex)],
    )
