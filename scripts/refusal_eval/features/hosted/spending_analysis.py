"""What the answers of hosted models cost."""

from typing import Any

from refusal_eval.features.hosted.hosted_entry import Hosted
from refusal_eval.features.hosted.measure_spending import measure
from refusal_eval.workflow.analysis import Analysis


class SpendingAnalysis(Analysis):
    """The price of 1,000 judged answers of each model on each split."""

    name = "spending"
    measure = staticmethod(measure)

    def _prices(self) -> dict[str, Any]:
        found = {}
        for model in self.study.asked_models:
            engine = self.study.engines[self.study.models[model].engine_name]
            if isinstance(engine, Hosted) and engine.price is not None:
                found[model] = engine.price.model_dump(mode="json")
        return found

    def wanted(self) -> bool:
        return bool(self._prices())

    def inputs(self) -> dict[str, list[str]]:
        of = self.study.paths.of
        splits = sorted(self.study.splits)
        return {"answers": [of("answers", model=model, split=split) for model in self._prices() for split in splits]}

    def params(self) -> dict[str, Any]:
        return {"prices": self._prices(), "splits": sorted(self.study.splits), "samples": self.study.settings.samples}
