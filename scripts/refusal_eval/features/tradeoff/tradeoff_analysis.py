"""Over-refusal against safety: models, contrast pairs, topics and languages."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.features.tradeoff.contrasts import GAP_METHOD
from refusal_eval.features.tradeoff.study_tradeoff import study_trade_off
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.languages import languages_of
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.workflow.analysis import Analysis, Files
from refusal_eval.workflow.whole_study import sources_of

TWO_EXPECTATIONS = ("comply", "refuse")


class TradeOffAnalysis(Analysis):
    """The trade-off of a study with splits of both expectations, or one that may vary."""

    name = "tradeoff"

    def wanted(self) -> bool:
        found = {split.expectation for split in self.study.splits.values()}
        return found.issuperset(TWO_EXPECTATIONS) or "varies" in found

    def inputs(self) -> dict[str, list[str]]:
        params = self.params()
        return {
            "scores": self.score_files(params["cells"]),
            "prompts": self.prompt_files(split["name"] for split in params["splits"]),
            "duplicates": self.duplicate_files(),
        }

    def params(self) -> dict[str, Any]:
        splits, sources = self.study.splits, sources_of(self.study)
        alike: dict[tuple[str, str], list[str]] = {}
        for name, split in splits.items():
            alike.setdefault((sources[name], split.expectation), []).append(name)
        # Clusters of a comply and a refuse split of one source may be contrast pairs.
        safe, unsafe = ([name for name, split in splits.items() if split.expectation == e] for e in TWO_EXPECTATIONS)
        twins = [[a, b] for a in safe for b in unsafe if sources[a] == sources[b]]
        return self.all_cells() | {"twins": twins, "related": sorted(alike.values())}

    @classmethod
    def methods_words(cls, results: Sequence[Estimate]) -> dict[str, Any]:
        gaps = [e for e in results if e.estimand == "language_difference" and e.value is not None]
        return {"twins": any(gap.method != GAP_METHOD for gap in gaps)}

    @classmethod
    def measure(cls, files: Files, params: Mapping[str, Any]) -> dict[str, Any]:
        cells = [(judge, model, split) for judge, model, split in params["cells"]]
        units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, files["scores"], strict=True)}
        names = [split["name"] for split in params["splits"]]
        languages = {name: languages_of(read_jsonl(path)) for name, path in zip(names, files["prompts"], strict=True)}
        away = {Place(**place) for path in files["duplicates"] for place in read_json(path)["left_out"]}
        return study_trade_off(units, params, languages, away)
