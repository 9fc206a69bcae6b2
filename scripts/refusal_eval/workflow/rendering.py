"""What decides how messages become token ids: the same for the prompts of a model and of a judge."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.study_entry import PUBLISHED_SAMPLING
from refusal_eval.workflow.content import content_hash

FURTHER = ("prefill", "frame")  # of judges: see `Renderer`


def rendering_params(config: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a model's or judge's entry, of its engine and of the study a rendered prompt depends on."""
    engine = config["engine_entries"][entry["engine"]]
    names = ("system_prompt", "template", "template_options", "date")
    return (
        {name: entry[name] for name in names}
        | {name: entry[name] for name in FURTHER if name in entry}
        | {
            "trust_remote_code": engine.get("trust_remote_code", False),
            "max_model_len": engine.get("max_model_len"),
            "determinism": config["determinism"],
            "template_sha256": [content_hash(path) for path in template_file(entry)],
        }
    )


def protocol_params(config: Mapping[str, Any], sampling: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `protocol: compat` changes in what a model is asked; nothing for the default protocol."""
    if config["protocol"] == "default":
        return {}
    return {"protocol": config["protocol"], "sampling": {**sampling, **PUBLISHED_SAMPLING}}


def template_file(entry: Mapping[str, Any]) -> list[str]:
    """Return a model's or judge's own template file, as a list for `input`: empty when it has none."""
    return [] if entry["template"] in ("default", "none") else [entry["template"]]
