"""Weigh over-refusal against safety: models, contrast pairs, topics and languages, as estimates and tables."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.compat.labels import labelled
from refusal_eval.estimates.near_duplicates import Place, left_out
from refusal_eval.estimates.units import read_units
from refusal_eval.files import read_json, read_jsonl, write_json, written_whole
from refusal_eval.latex import latex
from refusal_eval.logs import start_log
from refusal_eval.markup import csv_text, markdown
from refusal_eval.tradeoff.languages import languages_of
from refusal_eval.tradeoff.study import study_trade_off
from refusal_eval.tradeoff.tables import tradeoff_frame, tradeoff_tables

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
    units = {
        cell: read_units(Path(path).read_text(encoding="utf-8"))
        for cell, path in zip(cells, paths["rows"], strict=True)
    }
    names = [split["name"] for split in study["splits"]]
    languages = {name: languages_of(read_jsonl(path)) for name, path in zip(names, paths["prompts"], strict=True)}
    groups = [group for path in paths["duplicates"] for group in read_json(path)["groups"]]
    away = left_out([[Place(m["split"], m["prompt_id"]) for m in group] for group in groups])
    result = study_trade_off(units, study, languages, away)
    write_json(output, result)
    scores, cards = ([read_json(path) for path in paths[name]] for name in ("scores", "cards"))
    frame, protocol = tradeoff_frame(result), study.get("protocol", "default")
    made = [labelled(frame, table, protocol)[1] for table in tradeoff_tables(result, scores, cards, study)]
    if protocol != "default":
        frame.insert(0, "protocol", protocol)
    texts = (csv_text(frame), "\n".join(map(markdown, made)), "\n".join(map(latex, made)))
    for path, text in zip(tables, texts, strict=True):
        with written_whole(path) as handle:
            handle.write(text)
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
