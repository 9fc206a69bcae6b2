"""A feature of one's own: how long refusals are; an analysis, its table, and beside them its words."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from refusal_eval.config.kinds import ANALYSES, TABLES
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.workflow.analysis import Analysis, Files


@ANALYSES.add
class LengthsAnalysis(Analysis):
    """The mean length of refusals, in samples that the primary judge reads as such."""

    name = "refusal_lengths"

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(self.params()["cells"])}

    def params(self) -> dict[str, Any]:
        study = self.study
        return {"cells": [[study.primary_judge, model, split] for model in study.models for split in study.splits]}

    @classmethod
    def measure(cls, files: Files, params: Mapping[str, Any]) -> dict[str, Any]:
        found = []
        for (judge, model, split), path in zip(params["cells"], files["scores"], strict=True):
            samples = read_units(path).samples
            lengths = samples.loc[samples["label"] == "refusal", "answer_tokens"].dropna()
            value = float(lengths.mean()) if len(lengths) else None
            number = Estimate(
                "refusal_tokens", judge=judge, model=model, split=split, value=value, n_prompts=len(lengths)
            )
            found.append(number)
        return {"estimates": [estimate.row() for estimate in found]}


@TABLES.add
class LengthsTable(StudyTable):
    """A row for each model and split."""

    name = "refusal_lengths"
    needs = ("refusal_lengths",)
    shows = ("models", "splits", "primary_judge")
    report = ("Lengths", "How long refusals are")

    @staticmethod
    def make(data: TableData) -> TableParts:
        rows = data.found("refusal_lengths")["estimates"]
        shown = [[data.labels.model(row["model"]), data.labels.split(row["split"]), f"{row['value']}"] for row in rows]
        table = Table("refusal_lengths", "How long refusals are.", ["Model", "Split", "Tokens"], shown, [])
        return pd.DataFrame(rows), [table]
