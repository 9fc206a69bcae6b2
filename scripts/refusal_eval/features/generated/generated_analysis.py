"""What comes of the prompts that a study makes step by step."""

from typing import Any

from refusal_eval.features.generated.generated_chains import steps_between
from refusal_eval.features.generated.generated_keys import GeneratedKeys
from refusal_eval.features.generated.measure_generated import measure
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.data_stage import answer_files


class GeneratedAnalysis(Analysis):
    """All splits under `generated`, with the steps from their seeds to them."""

    name = "generated"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return bool(self._chains())

    def own_files(self) -> list[str]:
        entries = self.study.entries("split")
        return sorted({file for _, steps in self._chains() for step in steps for file in entries[step].source.files()})

    def inputs(self) -> dict[str, list[str]]:
        return {
            "prompts": [file for seeds, steps in self._chains() for file in self.prompt_files([seeds, *steps])],
            "read": [file for _, steps in self._chains() for step in steps for file in self._read(step)],
            "scores": self.score_files(self.params()["cells"]),
        }

    def params(self) -> dict[str, Any]:
        every, chains = self.all_cells(), self._chains()
        readings = {split["name"]: split["reading"] for split in every["splits"]}
        shown = {name for seeds, steps in chains for name in (seeds, steps[-1])}
        return {
            "chains": [
                {"split": steps[-1], "seeds": seeds, "reading": readings[seeds], "steps": [*map(self._step, steps)]}
                for seeds, steps in chains
            ],
            "cells": sorted(cell for cell in every["cells"] if cell[2] in shown),
            "samples": every["samples"],
            "level": every["level"],
        }

    def table_params(self) -> dict[str, Any]:
        chains = [{"seeds": seeds, "steps": steps} for seeds, steps in self._chains()]
        return {"chains": chains, "level": self.study.settings.scoring.level}

    def _chains(self) -> list[tuple[str, list[str]]]:
        entries = self.study.entries("split")
        found = [(one.seeds, one.split) for one in GeneratedKeys.of(self.study.settings).generated]
        return [(seeds, steps_between(entries, seeds, split) or [split]) for seeds, split in found]

    def _step(self, split: str) -> dict[str, Any]:
        source = self.study.entries("split")[split].source
        asked = [*source.loads(), *(read.model for read in source.reads(split) if read.model is not None)]
        about = {"split": split, "source": source.param(), "files": len(self._read(split))}
        return about | {"model": asked[0] if asked else None}

    def _read(self, split: str) -> list[str]:
        """Return the files that say what became of the rows of a step: first what rules of its source made, if any."""
        made_in = self.study.entries("split")[split].source.made_in
        made = [] if made_in is None else [self.study.paths.of(made_in, split=split)]
        return [*made, *answer_files(self.study, split)]
