"""Refusal rates corrected for the judge's errors: by gold of other models, and by labels on the study's own answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import as_planned, read_json, read_jsonl
from refusal_eval.core.logs import LOG
from refusal_eval.features.corrected.cell_labels import labels_of_cells
from refusal_eval.features.corrected.corrected_study import study_corrected
from refusal_eval.features.corrected.peoples_labels import texts_of
from refusal_eval.features.corrected.transfer import judged_gold
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.workflow.analyses_stage import FOREIGN, foreign_calibrations, measured, peoples_labels
from refusal_eval.workflow.analysis import Analysis, Files
from refusal_eval.workflow.rule_files import content_hash


class CorrectedAnalysis(Analysis):
    """The corrected rates of a study with gold, or with labels of people."""

    name = "corrected"

    def wanted(self) -> bool:
        return bool(self.study.gold or peoples_labels(self.study))

    def inputs(self) -> dict[str, list[str]]:
        study, results, labels = self.study, self.study.paths.results, peoples_labels(self.study)
        pairs = [(on["judge"], on["gold"]) for on in measured(study)]
        cells = [(model, split) for model in study.models for split in study.splits] if labels else []
        return {
            "scores": self.score_files(self.params()["cells"]),
            "gold": [f"{results}/gold/{gold}.jsonl" for _, gold in pairs],
            "gold_verdicts": [f"{results}/verdicts/{judge}/gold/{gold}.jsonl" for judge, gold in pairs],
            # One for each pair of a judge and a gold set on which its calibration is another gold set's.
            "calibrations": [f"{results}/calibration/{fit}.json" for fit in foreign_calibrations(study)],
            "labels": labels,
            "answers": [f"{results}/answers/{model}/{split}.jsonl" for model, split in cells],
            "duplicates": self.duplicate_files(),
        }

    def params(self) -> dict[str, Any]:
        # Labels can be replaced by an older file.
        labels = [content_hash(path) for path in peoples_labels(self.study)]
        return self.all_cells() | {"measured": measured(self.study), "labels_sha256": labels}

    @classmethod
    def methods_words(cls, results: Sequence[Estimate]) -> dict[str, Any]:
        methods = [e.method or "" for e in results if e.estimand == "refusal_rate_rg_transfer"]
        return {"over_models": any("answering models" in method for method in methods)}

    @classmethod
    def measure(cls, files: Files, params: Mapping[str, Any]) -> dict[str, Any]:
        with as_planned(files["labels"], params["labels_sha256"]):
            cells = [(judge, model, split) for judge, model, split in params["cells"]]
            units = {cell: read_units(path) for cell, path in zip(cells, files["scores"], strict=True)}
            calibrations = iter(files["calibrations"])
            gold, learned = {}, dict.fromkeys(params["judges"], frozenset[str]())
            for entry, people, verdicts in zip(params["measured"], files["gold"], files["gold_verdicts"], strict=True):
                calibrate = read_json(next(calibrations)) if entry["calibrate"] == FOREIGN else entry["calibrate"]
                rows, on = list(read_jsonl(people)), (entry["judge"], entry["gold"])
                gold[on] = judged_gold(rows, list(read_jsonl(verdicts)), entry["gold"], calibrate)
                if entry["learned"]:
                    learned[entry["judge"]] |= texts_of(rows)
            away = {Place(**place) for path in files["duplicates"] for place in read_json(path)["left_out"]}
            labels, elsewhere = labels_of_cells(files, params, units, learned)
            found = study_corrected(units, params, gold, labels, away, elsewhere)
        LOG.info("%d rates by gold of other models, %d by labels", len(found["transfer"]), len(found["ppi"]))
        return found
