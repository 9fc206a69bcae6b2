"""Both kinds of refusal: models, contrast pairs, topics and languages."""

from typing import Any

from refusal_eval.features.tradeoff.tradeoff_keys import AttacksKeys, WeighedKeys
from refusal_eval.features.tradeoff.weigh_tradeoff import measure, methods_words
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.whole_study import may_block, sources_of

TWO_EXPECTATIONS = ("comply", "refuse")


class TradeOffAnalysis(Analysis):
    """The trade-off of a study with splits of both expectations, or one that may vary."""

    name = "tradeoff"
    measure = staticmethod(measure)
    methods_words = staticmethod(methods_words)

    def wanted(self) -> bool:
        found = {split.expectation for split in self.study.splits.values()}
        attacked = AttacksKeys.of(self.study.settings).attacks is not None
        return found.issuperset(TWO_EXPECTATIONS) or "varies" in found or attacked

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
        known = self.all_cells() | {"twins": twins, "related": sorted(alike.values())} | may_block(self.study)
        other_axes = {name: axis for name in safe if (axis := WeighedKeys.of(splits[name]).weighed_against)}
        known |= {"weighed_against": other_axes} if unsafe and other_axes else {}
        attacks = AttacksKeys.of(self.study.settings).attacks
        return known | ({"attacks": attacks.model_dump(mode="json")} if attacks else {})
