"""What refusals cost in battles: win rates by class, penalties, and moderation bias."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import JUDGED
from refusal_eval.features.battles.penalties import battle_estimates
from refusal_eval.features.battles.similarity import word_cosines
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    splits = zip(params["splits"], files["prompts"], strict=True)
    prompts = {split: list(read_jsonl(path)) for split, path in splits}
    alike = {split: word_cosines(rows) for split, rows in prompts.items()}
    sensitive = {split: _said_sensitive(rows) for split, rows in prompts.items()}
    for path, (_, split) in zip(files.get("verdicts", ()), params.get("flagged", ()), strict=True):
        sensitive[split] = sensitive[split] or _flagged(read_jsonl(path), params["flag"])
    found: list[Estimate] = []
    for path, (_, _, split) in zip(files["scores"], params["cells"], strict=True):
        found += battle_estimates(read_units(path), prompts[split], alike[split], sensitive[split])
    return {"estimates": [estimate.row() for estimate in found]}


def _said_sensitive(prompts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return which questions a column calls sensitive, by prompt id; without those where it is empty."""
    said = ((prompt["id"], prompt["battle"].get("sensitive")) for prompt in prompts)
    return {name: float(answer) for name, answer in said if answer is not None}


def _flagged(verdicts: Iterable[Mapping[str, Any]], flag: str) -> dict[str, float]:
    """Return the share of the verdicts on a question's answers that raise a flag, by prompt id."""
    raised: dict[str, list[bool]] = {}
    for verdict in verdicts:
        if verdict["state"] == JUDGED:
            raised.setdefault(verdict["prompt_id"], []).append(flag in verdict["flags"])
    return {name: sum(flags) / len(flags) for name, flags in raised.items()}
