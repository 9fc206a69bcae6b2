"""What refusals cost in battles: win rates by class, penalties, and moderation bias."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.features.battles.penalties import battle_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    splits = zip(params["splits"], files["prompts"], strict=True)
    prompts = {split: list(read_jsonl(path)) for split, path in splits}
    found: list[Estimate] = []
    for path, (_, _, split) in zip(files["scores"], params["cells"], strict=True):
        found += battle_estimates(read_units(path), prompts[split])
    return {"estimates": [estimate.row() for estimate in found]}
