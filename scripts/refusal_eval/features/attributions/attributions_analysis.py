"""Attributions: how well the words that contribute most to a refusal are those that mislead the model."""

from typing import Any

from refusal_eval.features.attributions.attribution_files import attributions_of
from refusal_eval.features.attributions.measure_attributions import measure
from refusal_eval.workflow.analysis import Analysis


class AttributionsAnalysis(Analysis):
    """All attributions of a study."""

    name = "attributions"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return bool(attributions_of(self.study))

    def inputs(self) -> dict[str, list[str]]:
        params, of = self.params(), attributions_of(self.study)
        return {
            "attribution_values": [self.study.paths.of("attribution_values", attribution=n) for n in params["names"]],
            "prompts": self.prompt_files(of[name].split for name in params["names"]),
            "scores": self.score_files([params["judge"], *cell] for cell in params["scored"]),
        }

    def params(self) -> dict[str, Any]:
        study, of = self.study, attributions_of(self.study)
        judge = study.primary_judge
        cells = sorted({(one.model, one.split) for one in of.values()})
        return {
            "names": sorted(of),
            "attributions": {name: of[name].in_words for name in sorted(of)},
            "judge": judge,
            "scored": [list(cell) for cell in cells if cell[0] in study.view.read_by(judge)],
            "level": study.settings.scoring.level,
        }
