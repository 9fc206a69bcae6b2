"""Differences between the ways of asking that a study names."""

from typing import Any

from refusal_eval.features.ways_of_asking.measure_ways import measure
from refusal_eval.features.ways_of_asking.ways_keys import WaysKeys
from refusal_eval.workflow.analysis import Analysis


class WaysAnalysis(Analysis):
    """All cells of splits that ask the same turns."""

    name = "ways_of_asking"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return bool(self._ways())

    def inputs(self) -> dict[str, list[str]]:
        params = self.params()
        return {"scores": self.score_files(params["cells"]), "prompts": self.prompt_files(params["splits"])}

    def params(self) -> dict[str, Any]:
        asked = {split for names in self._ways() for split in names}
        every = self.all_cells()
        return {
            "ways": self._ways(),
            "cells": sorted(cell for cell in every["cells"] if cell[2] in asked),
            "splits": sorted(asked),
            "readings": {split["name"]: split["reading"] for split in every["splits"] if split["name"] in asked},
            "samples": every["samples"],
            "level": every["level"],
        }

    def table_params(self) -> dict[str, Any]:
        return {"ways": self._ways(), "level": self.study.settings.scoring.level}

    def _ways(self) -> list[list[str]]:
        return WaysKeys.of(self.study.settings).ways_of_asking
