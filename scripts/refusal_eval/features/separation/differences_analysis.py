"""By how much two groups of prompts lie further apart in one model than in another."""

from typing import Any

from refusal_eval.features.separation.measure_differences import measure
from refusal_eval.features.separation.separation_entry import Separation
from refusal_eval.features.separation.separation_jobs import files_read, separation_files, separation_params
from refusal_eval.features.separation.separation_keys import SeparationKeys
from refusal_eval.workflow.activations_stage import megabytes
from refusal_eval.workflow.analysis import Analysis


class SeparationDifferencesAnalysis(Analysis):
    """The separations of a study that name a `reference`."""

    name = "separation_differences"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return bool(self._entries())

    def megabytes(self) -> int:
        # Two models are held at a time.
        return 2 * max(megabytes(*separation_files(self.study, entry.name).values()) for entry in self._entries())

    def inputs(self) -> dict[str, list[str]]:
        of, names = self.study.paths.of, [entry.name for entry in self._entries()]
        return {
            "states": sorted({path for name in names for path in files_read(self.study, name)}),
            "aqi": [of("aqi", separation=name) for name in self._with_aqi()],
        }

    def params(self) -> dict[str, Any]:
        study = self.study
        separations = [
            separation_params(study, entry.name)
            | {"reference": entry.reference, "files": separation_files(study, entry.name)}
            for entry in self._entries()
        ]
        return {"separations": separations, "with_aqi": self._with_aqi()}

    def table_params(self) -> dict[str, Any]:
        compared = [
            {"name": entry.name, "models": entry.models, "reference": entry.reference} for entry in self._entries()
        ]
        return {"separations": compared}

    def _entries(self) -> list[Separation]:
        return [entry for entry in SeparationKeys.of(self.study.settings).separation if entry.reference is not None]

    def _with_aqi(self) -> list[str]:
        return [entry.name for entry in self._entries() if entry.aqi is not None]
