"""What the rules in workflow/rules/adapters.smk ask of a study: where adapters come from, and what identifies them."""

from typing import Any

from refusal_eval.features.lora.adapter import FILES
from refusal_eval.features.lora.lora_keys import LoraKeys
from refusal_eval.study.study import Study
from refusal_eval.weights.fingerprint import states_of


def adapter_files(study: Study, model: str) -> list[str]:
    """Return what must be there before a model's adapter can be identified: a manifest, or its two files."""
    source = LoraKeys.of(study.every_model[model]).lora
    assert source is not None
    if not source.fetched:
        return [f"{source.model_dump()['path']}/{name}" for name in FILES]
    return [source.copy_file(study.paths.cache)]


def identified_adapter(study: Study, model: str) -> dict[str, Any]:
    """Return what identifies a model's adapter; of a folder also the state of its files.

    Snakemake looks for newer inputs only, and not for files that were replaced by older ones.
    """
    source = LoraKeys.of(study.every_model[model]).lora
    assert source is not None
    written = source.model_dump(mode="json")
    if source.fetched:
        return {"source": written, "files": [], "cache": study.paths.cache}
    return {"source": written, "files": states_of(written["path"], FILES)}
