"""Correct refusal rates for the judge's errors: by gold of other models, and by labels on this study's own answers."""

import itertools
from collections.abc import Mapping, Sequence, Set
from typing import Any

from refusal_eval.core.files import as_planned, read_json, read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.stats.corrected.corrected_study import study_corrected
from refusal_eval.stats.corrected.peoples_labels import (
    Labelled,
    judge_labels,
    read_labels,
    readable_answers,
    texts_of,
    unread_answers,
)
from refusal_eval.stats.corrected.transfer import judged_gold
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.units import Units, read_units

Cell = tuple[str, str, str]  # judge, model, split


def main(paths: Mapping[str, Sequence[str]], study: Mapping[str, Any], output: str) -> None:
    """Write the corrected rates of a study.

    Args:
        paths: `scores` (a file for each of the study's `cells`), `gold` and `gold_verdicts` (one for each of its
            `measured`), `calibrations` (for each of them whose calibration is another gold set's), `duplicates`; with
            labels of people `labels` and `answers` (one for each model and split).
        study: see `corrected_study.study_corrected`; `cells` are [judge, model, split], `measured`
            {judge, gold, calibrate, learned}.
    """
    cells = [(judge, model, split) for judge, model, split in study["cells"]]
    units = {cell: read_units(path) for cell, path in zip(cells, paths["scores"], strict=True)}
    calibrations = iter(paths["calibrations"])
    gold, learned = {}, dict.fromkeys(study["judges"], frozenset[str]())
    for entry, people, verdicts in zip(study["measured"], paths["gold"], paths["gold_verdicts"], strict=True):
        calibrate = read_json(next(calibrations)) if entry["calibrate"] == "foreign" else entry["calibrate"]
        rows = list(read_jsonl(people))
        gold[entry["judge"], entry["gold"]] = judged_gold(rows, list(read_jsonl(verdicts)), entry["gold"], calibrate)
        if entry["learned"]:
            learned[entry["judge"]] |= texts_of(rows)
    away = {Place(**place) for path in paths["duplicates"] for place in read_json(path)["left_out"]}
    labels, elsewhere = _labels(paths, study, units, learned)
    result = study_corrected(units, study, gold, labels, away, elsewhere)
    write_json(output, result)
    LOG.info("%d rates by gold of other models, %d by labels", len(result["transfer"]), len(result["ppi"]))


def _labels(
    paths: Mapping[str, Sequence[str]],
    study: Mapping[str, Any],
    units: Mapping[Cell, Units],
    learned: Mapping[str, Set[str]],
) -> tuple[dict[Cell, Labelled], dict[tuple[str, str], int]]:
    """Labels of people and of the judge by cell, and how many are of which (model, split) that the study lacks.

    Nothing of both for a study that names no labels. `learned` are the texts that each judge was fitted on.
    """
    found: dict[Cell, Labelled] = {}
    elsewhere: dict[tuple[str, str], int] = {}
    for path in paths["labels"]:
        by_cell = list(itertools.product(study["models"], [split["name"] for split in study["splits"]]))
        people, frame, elsewhere = read_labels(read_jsonl(path), path, by_cell)
        if elsewhere:
            counts_text = ", ".join(f"{model} on {split}: {n}" for (model, split), n in elsewhere.items())
            LOG.warning("labels of models or splits that this study does not have, left out: %s", counts_text)
        models = {model for model, _ in people}
        for (model, split), file in zip(by_cell, paths["answers"], strict=True):
            # Also of splits that people labelled nothing of, as these may be in a pool with others.
            if model not in models:
                continue
            number, labelled, changed = readable_answers(read_jsonl(file), people.get((model, split), {}))
            if lost := len(people.get((model, split), {})) - len(labelled):
                LOG.warning("labels of no answer that has a text here, left out: %s on %s: %d", model, split, lost)
            frame_of_model = (frame or {}).get(model, {})
            # Labels without what they were drawn from may stand in one file with those of an audit that has it.
            unknown = frame is None or (split not in frame_of_model and (model, split) in people)
            drawn_from = None if unknown else frame_of_model.get(split, {})
            for judge in study["judges"]:
                cell = (judge, model, split)
                unread = unread_answers(units[cell], number)
                said = judge_labels(units[cell], labelled) if labelled else {}
                known = sum(label.read in learned[judge] for label in labelled.values())
                found[cell] = Labelled(labelled, said, drawn_from, changed, unread, known)
    return found, elsewhere


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    lists = ("scores", "gold", "gold_verdicts", "calibrations", "labels", "answers")
    paths = {name: snakemake.input[name] for name in lists} | {"duplicates": [snakemake.input.duplicates]}
    with as_planned(paths["labels"], snakemake.params.study["labels_sha256"]):
        main(paths, snakemake.params.study, snakemake.output[0])
