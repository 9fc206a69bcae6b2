"""The numbers of refusal tokens, from scores and the tokens' log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.features.refusal_tokens.token_cells import TokenCell, token_cell
from refusal_eval.features.refusal_tokens.token_choice import choices
from refusal_eval.features.refusal_tokens.token_estimates import (
    auroc_estimates,
    curve,
    marked_points,
    rate_estimates,
    separation_estimates,
    token_estimates,
)
from refusal_eval.stats.estimates.units import clusters_apart, read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`): `curves` and `points` too."""
    names = [tuple(cell) for cell in params["cells"]]
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(names, files["scores"], strict=True)}
    units = clusters_apart(units, {split["name"]: split["source"] for split in params["splits"]})
    logprobs = {
        (family, split): {row["prompt_id"]: row["logprobs"] for row in read_jsonl(path)}
        for (family, split), path in zip(map(tuple, params["tokens"]), files["token_probabilities"], strict=True)
    }
    level, found, curves, points = params["level"], [], [], []
    for family, branches in params["families"].items():
        refusing = list(branches)[:-1]
        asked = choices(params["thresholds"], params["temperatures"], refusing)
        known: dict[str, Any] = {"model": family, "samples": params["samples"]}
        first = True
        for judge in params["judges"]:
            cells: list[TokenCell] = []
            for split in (split["name"] for split in params["splits"]):
                own = {
                    name: units[judge, model, split]
                    for name, model in branches.items()
                    if (judge, model, split) in units
                }
                if len(own) == len(branches):
                    clusters = next(iter(own.values()))["cluster"].tolist()
                    cells.append(token_cell(own, logprobs[family, split], clusters))
            if not cells:
                continue
            if first:  # the tokens are the same under every judge
                found += [*token_estimates(cells, asked, level, known), *auroc_estimates(cells, level, known)]
                found += separation_estimates(cells, asked, level, known, by_token=True)
                first = False
            about = {**known, "judge": judge}
            found += [*rate_estimates(cells, asked, level, about)]
            found += separation_estimates(cells, asked, level, about, by_token=False)
            mine = {"judge": judge, "model": family}
            curves += curve(cells, level, mine)
            points += marked_points(cells, asked, level, mine)
    return {"estimates": [estimate.row() for estimate in found], "curves": curves, "points": points}
