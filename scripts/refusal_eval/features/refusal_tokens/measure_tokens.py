"""The numbers of refusal tokens, from scores and the tokens' log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.features.refusal_tokens.token_cells import token_cell
from refusal_eval.features.refusal_tokens.token_choice import choices
from refusal_eval.features.refusal_tokens.token_estimates import (
    CurveRow,
    auroc_estimates,
    curve,
    marked_points,
    rate_estimates,
    separation_estimates,
    token_estimates,
)
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import JudgedCell, clusters_apart, read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`): `curves` and `points` too."""
    names: list[JudgedCell] = [(judge, model, split) for judge, model, split in params["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(names, files["scores"], strict=True)}
    units = clusters_apart(units, params["sources"])
    logprobs = {
        (family, split): {row["prompt_id"]: row["logprobs"] for row in read_jsonl(path)}
        for (family, split), path in zip(params["tokens"], files["token_probabilities"], strict=True)
    }
    found: list[Estimate] = []
    curves: list[CurveRow] = []
    points: list[CurveRow] = []
    for family, branches in params["families"].items():
        asked = choices(params["thresholds"], params["temperatures"], list(branches)[:-1])
        first = True
        for judge in params["judges"]:
            every = {
                split: {name: (judge, model, split) for name, model in branches.items()} for split in params["sources"]
            }
            there = {split: own for split, own in every.items() if all(cell in units for cell in own.values())}
            if not there:
                continue
            cells = [
                token_cell({name: units[cell] for name, cell in own.items()}, logprobs[family, split])
                for split, own in there.items()
            ]
            facts = next(iter(units.values())).facts
            level, known = facts["level"], {"model": family, "samples": facts["samples"]}
            if first:  # the tokens are the same under every judge
                found += [*token_estimates(cells, asked, level, known), *auroc_estimates(cells, level, known)]
                found += separation_estimates(cells, asked, level, known, by_token=True)
                first = False
            found += rate_estimates(cells, asked, level, {**known, "judge": judge})
            found += separation_estimates(cells, asked, level, {**known, "judge": judge}, by_token=False)
            curves += curve(cells, level, {"judge": judge, "model": family})
            points += marked_points(cells, asked, level, {"judge": judge, "model": family})
    return {"estimates": [estimate.row() for estimate in found], "curves": curves, "points": points}
