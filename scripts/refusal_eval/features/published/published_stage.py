"""What the rules in workflow/rules/published.smk ask of a study."""

from typing import Any

from refusal_eval.study.study import Study
from refusal_eval.workflow import scoring


def published_reading(study: Study, model: str) -> dict[str, Any]:
    """Return what decides how the published code reads a model's responses."""
    entry = study.models[model]
    trust = getattr(study.engines[entry.engine_name], "trust_remote_code", False)
    return {"end_mark": entry.reasoning.end if entry.reasoning else None, "trust_remote_code": trust}


def published_cell(study: Study, judge: str, model: str, split: str) -> dict[str, Any]:
    """Return what, besides its files, decides a cell's published scores."""
    decided = scoring.cell(study, judge, model, split)
    names = ("judge", "model", "split", "samples", "tau", "band")
    return {name: decided[name] for name in names} | {"scored": decided.get("scored")}
