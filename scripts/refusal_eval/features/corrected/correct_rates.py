"""Refusal rates corrected for the judge's errors: by gold of other models, and by labels on the study's own answers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG
from refusal_eval.features.corrected.cell_labels import labels_of_cells
from refusal_eval.features.corrected.corrected_study import PPI, TRANSFER, study_corrected
from refusal_eval.features.corrected.peoples_labels import texts_of
from refusal_eval.features.corrected.transfer import judged_gold
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.near_duplicates import PromptPlace
from refusal_eval.stats.estimates.units import read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    with as_planned(files["labels"], params["labels_sha256"]):
        cells = [(judge, model, split) for judge, model, split in params["cells"]]
        units = {cell: read_units(path) for cell, path in zip(cells, files["scores"], strict=True)}
        calibrations = iter(files["calibrations"])
        gold, learned = {}, dict.fromkeys(params["judges"], frozenset[str]())
        for entry, people, verdicts in zip(params["measured"], files["gold"], files["gold_verdicts"], strict=True):
            calibrate = read_json(next(calibrations)) if entry["calibrate"] == "foreign" else entry["calibrate"]
            rows, on = list(read_jsonl(people)), (entry["judge"], entry["gold"])
            gold[on] = judged_gold(rows, list(read_jsonl(verdicts)), entry["gold"], calibrate)
            if entry["learned"]:
                learned[entry["judge"]] |= texts_of(rows)
        away = {PromptPlace(**place) for path in files["duplicates"] for place in read_json(path)["left_out"]}
        labels, elsewhere = labels_of_cells(files, params, units, learned)
        found = study_corrected(units, params, gold, labels, away, elsewhere)
    counts = Counter(row["estimand"] for row in found["estimates"])
    LOG.info("%d rates by gold of other models, %d by labels", counts[TRANSFER], counts[PPI])
    return found


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    """Return what the methods section says of its numbers (`workflow.analysis.Analysis.methods_words`)."""
    methods = [e.method or "" for e in results if e.estimand == TRANSFER]
    return {"over_models": any("answering models" in method for method in methods)}
