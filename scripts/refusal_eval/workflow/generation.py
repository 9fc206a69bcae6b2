"""What the rules in workflow/rules/generate.smk ask of a study: what decides its requests, and what is the answer."""

from typing import Any

from refusal_eval.ask.requests import CHANGES
from refusal_eval.study.study import Study
from refusal_eval.workflow.rendering import protocol_params, rendering_params


def request_params(study: Study, model: str, split: str) -> dict[str, Any]:
    """Return what of model and study enters the requests of a cell."""
    entry = study.config["model_entries"][model]
    params = rendering_params(study.config, entry) | {
        "sampling": entry["sampling"],
        "samples": study.config["samples"],
        "seed": study.config["seed"],
    }
    params |= protocol_params(study.config, entry["sampling"])
    params |= {name: entry[name] for name in CHANGES if entry.get(name)}
    if entry.get("lora"):
        # What the adapter is comes from its file; that one was taken away is seen nowhere else.
        params["lora"] = True
    if study.config["split_entries"][split].get("dialogue"):
        # Only the answer to a turn, without its reasoning, stands in the history of the next one.
        params["dialogue"] = {"reasoning": entry["reasoning"]}
    return params


def segments(study: Study, model: str) -> dict[str, Any]:
    """Return what decides which part of a model's response is the answer."""
    entry = study.config["model_entries"][model]
    trust = study.config["engine_entries"][entry["engine"]].get("trust_remote_code", False)
    return {"reasoning": entry["reasoning"], "trust_remote_code": trust}


def checked_adapters(study: Study, batch: str) -> list[str]:
    """Return the checked LoRA adapters of a batch's models."""
    models = sorted({cell.model for cell in study.generation_batches[batch]})
    return [study.paths.checked_adapter(model) for model in models if study.models[model].lora]
