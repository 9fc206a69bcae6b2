"""Correct refusal rates for the judge's errors: by gold of other models, and by labels on this study's own answers."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.compat.labels import labelled
from refusal_eval.corrected.gold_rows import judged_gold
from refusal_eval.corrected.labels import judge_labels, read_labels
from refusal_eval.corrected.study import Labelled, study_corrected
from refusal_eval.corrected.tables import corrected_frame, corrected_tables
from refusal_eval.estimates.near_duplicates import Place, left_out
from refusal_eval.estimates.units import read_units
from refusal_eval.files import read_json, read_jsonl, write_json, written_whole
from refusal_eval.latex import latex
from refusal_eval.logs import start_log
from refusal_eval.markup import csv_text, markdown

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any], output: str, tables: Sequence[str]) -> None:
    """Write the corrected rates of a study and their tables.

    Args:
        paths: `rows` (a file for each of the study's `cells`), `gold` and `gold_verdicts` (one for each of its
            `measured`), `calibrations` (for each of them whose calibration is another gold set's), `cards`,
            `duplicates`; with labels of people `labels`, and `verdicts` (one for each cell).
        study: see `study.study_corrected` and `tables.corrected_tables`; `cells` are [judge, model, split], `measured`
            {judge, gold, calibrate}.
        output: the JSON.
        tables: the CSV, the Markdown and the LaTeX.
    """
    cells = [(judge, model, split) for judge, model, split in study["cells"]]
    units = {
        cell: read_units(Path(path).read_text(encoding="utf-8"))
        for cell, path in zip(cells, paths["rows"], strict=True)
    }
    calibrations = iter(paths["calibrations"])
    gold = {}
    for entry, people, verdicts in zip(study["measured"], paths["gold"], paths["gold_verdicts"], strict=True):
        calibrate = read_json(next(calibrations)) if entry["calibrate"] == "foreign" else entry["calibrate"]
        rows = judged_gold(list(read_jsonl(people)), list(read_jsonl(verdicts)), entry["gold"], calibrate)
        gold[entry["judge"], entry["gold"]] = rows
    labels = {}
    for path in paths["labels"]:
        people_of = read_labels(read_jsonl(path), path, {(model, split) for _, model, split in cells})
        for cell, file in zip(cells, paths["verdicts"], strict=True):
            if cell[1:] in people_of:
                own = people_of[cell[1:]]
                labels[cell] = Labelled(own, judge_labels(read_jsonl(file), own))
    groups = [group for path in paths["duplicates"] for group in read_json(path)["groups"]]
    away = left_out([[Place(m["split"], m["prompt_id"]) for m in group] for group in groups])
    result = study_corrected(units, study, gold, labels, away)
    write_json(output, result)
    frame, protocol = corrected_frame(result), study.get("protocol", "default")
    cards = [read_json(path) for path in paths["cards"]]
    made = [labelled(frame, table, protocol)[1] for table in corrected_tables(result, cards, study)]
    if protocol != "default":
        frame.insert(0, "protocol", protocol)
    texts = (csv_text(frame), "\n".join(map(markdown, made)), "\n".join(map(latex, made)))
    for path, text in zip(tables, texts, strict=True):
        with written_whole(path) as handle:
            handle.write(text)
    LOG.info("%d rates by gold of other models, %d by labels", len(result["transfer"]), len(result["ppi"]))


if "snakemake" in globals():
    start_log(snakemake)
    lists = ("rows", "gold", "gold_verdicts", "calibrations", "cards", "labels", "verdicts")
    main(
        paths={"duplicates": [str(snakemake.input.duplicates)]}
        | {name: [str(path) for path in snakemake.input.get(name, [])] for name in lists},
        study=snakemake.params.study,
        output=str(snakemake.output.json),
        tables=[str(snakemake.output[0]), str(snakemake.output.md), str(snakemake.output.tex)],
    )
