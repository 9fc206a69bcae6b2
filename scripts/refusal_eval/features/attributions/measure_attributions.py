"""The numbers of attributions, from the values of words and, where these choose prompts, from verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.features.attributions.attribution_estimates import attribution_estimates, ranked
from refusal_eval.features.attributions.attribution_methods import IntegratedGradient
from refusal_eval.features.attributions.attribution_values import incomplete
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import Units, read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`).

    `refused` says of each prompt of each attribution whether the model refuses it (None: no verdict, or as many for as
    against), `counts` how many prompts there are of which kind.
    """
    scores = {(model, split): path for (model, split), path in zip(params["scored"], files["scores"], strict=True)}
    found: list[Estimate] = []
    refused: dict[str, dict[str, bool | None]] = {}
    counts: dict[str, dict[str, int]] = {}
    for name, one in params["attributions"].items():
        place = params["names"].index(name)
        rows = list(read_jsonl(files["attribution_values"][place]))
        prompts = {row["id"]: row for row in read_jsonl(files["prompts"][place])}
        path = scores.get((one["model"], one["split"]))
        units = read_units(path, keep_samples=False) if path is not None else None
        refused[name] = refused_prompts(units) if units is not None else {}
        own = ranked(rows, prompts)
        counts[name] = {
            "prompts": len(rows),
            "valued": sum(_has_values(row) for row in rows),
            "with_focus": sum(row["focus"] is not None for row in rows),
            "ranked": len(own.prompts),
        }
        if one["method"] == IntegratedGradient.name:
            counts[name]["incomplete"] = sum(incomplete(row) for row in rows if row["units"])
        about: dict[str, Any] = {"model": one["model"], "split": one["split"]}
        flags: tuple[str, ...] = ()
        if one["refused"] and units is not None:
            own = own.of([place for place, prompt in enumerate(own.prompts) if refused[name].get(prompt)])
            counts[name] |= {"refused": len(own.prompts), "refused_of_all": sum(map(bool, refused[name].values()))}
            about |= {"judge": params["judge"], "reading": units.facts["headline"], "samples": units.facts["samples"]}
            flags = units.flags
        found += attribution_estimates(own, name, params["level"], about, flags)
    return {"estimates": [estimate.row() for estimate in found], "refused": refused, "counts": counts} | {
        "attributions": params["attributions"]
    }


def refused_prompts(units: Units) -> dict[str, bool | None]:
    """Return whether more than half of the answers to each prompt refuse, in the headline reading of its split.

    None where no answer counts, or half of them refuse.
    """
    majority = units[f"majority_{units.facts['headline']}"].tolist()
    prompts = units["prompt_id"].tolist()
    return {
        prompt: None if refuses != refuses else bool(refuses) for prompt, refuses in zip(prompts, majority, strict=True)
    }


def _has_values(row: Mapping[str, Any]) -> bool:
    return bool(row["units"]) and all(one["value"] is not None for one in row["units"])
