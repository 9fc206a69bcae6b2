"""What the rule in workflow/rules/tradeoff.smk asks: all scores of a study, and which splits belong together."""

from __future__ import annotations

from typing import Any

from refusal_eval.workflow.whole_study import WholeStudy, sources_of

_TWO_KINDS = ("comply", "refuse")


class TradeOff(WholeStudy):
    """Over-refusal against safety."""

    def prompts(self, wildcards: Any) -> list[str]:
        """Return the prompts of all splits, in the study's order."""
        return [f"{self._results}/prompts/{split}.jsonl" for split in self._config["splits"]]

    def study(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides files, decides the trade-off."""
        sources, entries = sources_of(self._config), self._config["split_entries"]
        alike: dict[tuple[str, str], list[str]] = {}
        for split in self._config["splits"]:
            alike.setdefault((sources[split], entries[split]["expectation"]), []).append(split)
        # Clusters of a comply and a refuse split of one source may be contrast pairs.
        safe, unsafe = ([s for s in self._config["splits"] if entries[s]["expectation"] == e] for e in _TWO_KINDS)
        twins = [[a, b] for a in safe for b in unsafe if sources[a] == sources[b]]
        return self._computed() | {"twins": twins, "related": sorted(alike.values())}

    def targets(self, wildcards: Any) -> list[str]:
        """Return what a run makes: estimates, and the tables of a study that has any."""
        kinds = {entry["expectation"] for entry in self._config["split_entries"].values()}
        return self._made("tradeoff") if kinds.issuperset(_TWO_KINDS) or "varies" in kinds else []
