"""What the rules in workflow/rules/weights.smk ask of a study: where weights come from, what they are."""

from typing import Any

from refusal_eval.config.source_entries import WeightSource
from refusal_eval.study.study import Study
from refusal_eval.weights.fingerprint import file_states, model_files


def engine_weights(study: Study, engine: str) -> WeightSource | None:
    """Return the source of an engine's weights; None for an engine without."""
    return getattr(study.engines[engine], "weights", None)


def manifests(study: Study) -> dict[str, list[str]]:
    """Return the manifests of all that is fetched: of each `tokenizer` before its weights, and of the `weights`."""
    weights = study.fetched("engines").values()
    return {
        "tokenizer": [manifest for source in weights for manifest in tokenizer_before(study, source)],
        "weights": [source.copy_file(study.paths.cache) for source in weights],
    }


def tokenizer_before(study: Study, weights: WeightSource) -> list[str]:
    """Return the tokenizer that hub weights come after, so that a repository is fetched by one job at a time."""
    return [study.paths.of("tokenizers", weights=weights.copy_id)] if weights.tokenizer_apart else []


def weights_files(study: Study, engine: str) -> list[str]:
    """Return what must be there before an engine can start: a manifest, or the files of a local folder."""
    weights = engine_weights(study, engine)
    if weights is None:
        return []
    if not weights.fetched:
        folder = weights.model_dump()["path"]
        return [f"{folder}/{name}" for name in model_files(folder)]
    return [weights.copy_file(study.paths.cache)]


def identifying_files(study: Study, engine: str) -> list[str]:
    """Return what must be there before an engine can be identified: of hub weights the tokenizer is enough."""
    weights = engine_weights(study, engine)
    return tokenizer_before(study, weights) if weights and weights.tokenizer_apart else weights_files(study, engine)


def identified_entry(study: Study, engine: str) -> dict[str, Any]:
    """Return the settings that identify an engine; tensor parallelism, memory share and the like do not."""
    entry, weights = study.engines[engine], engine_weights(study, engine)
    # Files that were replaced by older ones, or removed: Snakemake looks for newer inputs only.
    files = file_states(weights.model_dump()["path"]) if weights is not None and not weights.fetched else []
    # Not what identifies it: a study that becomes strict has to ask whether its engines can be (see the script).
    strict = {"strict": True} if study.settings.determinism == "strict" and entry.strict_by_kernels() else {}
    if weights is None:
        return {**entry.identity({}), "weights": None, "files": files, **strict}
    # Nor is this all: whether the length identifies it (`identity_by_length`) only the model's config.json tells, and
    # a cache that moves keeps the ages of its files.
    also = {"max_model_len": entry.max_model_len} | ({"cache": study.paths.cache} if weights.fetched else {})
    return {**entry.identity({}), "weights": weights.model_dump(mode="json"), "files": files, **also, **strict}
