"""What the answers of hosted models and the verdicts of hosted judges cost."""

import itertools
from typing import Any

from refusal_eval.features.hosted.hosted_entry import Hosted
from refusal_eval.features.hosted.measure_spending import measure
from refusal_eval.workflow.analysis import Analysis


class SpendingAnalysis(Analysis):
    """The price of 1,000 judged answers of each model on each split, and of 1,000 verdicts on them."""

    name = "spending"
    measure = staticmethod(measure)

    def _prices(self) -> dict[str, Any]:
        return self._priced({model: self.study.models[model].engine_name for model in self.study.asked_models})

    def _judge_prices(self) -> dict[str, Any]:
        return self._priced({name: judge.engine for name, judge in self.study.engine_judges.items()})

    def _priced(self, engines: dict[str, str]) -> dict[str, Any]:
        """Return the price of each whose engine has one, by name."""
        found = {}
        for name, engine_name in engines.items():
            engine = self.study.engines[engine_name]
            if isinstance(engine, Hosted) and engine.price is not None:
                found[name] = engine.price.model_dump(mode="json")
        return found

    def wanted(self) -> bool:
        return bool(self._prices() or self._judge_prices())

    def inputs(self) -> dict[str, list[str]]:
        of, asked = self.study.paths.of, self.params()
        judged = itertools.product(asked["judge_prices"], asked["models"], asked["splits"])
        return {
            "answers": [
                of("answers", model=model, split=split) for model in asked["prices"] for split in asked["splits"]
            ],
            "verdicts": [of("verdicts", judge=judge, model=model, split=split) for judge, model, split in judged],
        }

    def params(self) -> dict[str, Any]:
        return {
            "prices": self._prices(),
            "judge_prices": self._judge_prices(),
            "models": sorted(self.study.models),
            "splits": sorted(self.study.splits),
            "samples": self.study.settings.samples,
        }
