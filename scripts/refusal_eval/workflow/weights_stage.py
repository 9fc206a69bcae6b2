"""What the rules in workflow/rules/weights.smk ask: where weights and adapters come from, and what identifies them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.engine_entry import engine_of_entry
from refusal_eval.study.paths import Paths
from refusal_eval.study.weight_sources import weights_id
from refusal_eval.weights.adapter import FILES
from refusal_eval.weights.engine_file import weight_source
from refusal_eval.weights.fingerprint import file_states, model_files, states_of


class Weights:
    """Tokenizers and weights of the engines, and LoRA adapters of the models.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._engines, self._strict = config["engine_entries"], config["determinism"] == "strict"
        self._paths = Paths(config)
        every = [entry["weights"] for entry in self._engines.values() if "weights" in entry]
        self._fetched = {weights_id(weights): weights for weights in every if weight_source(weights).fetched}
        self._models = config["model_entries"]
        adapters = [entry["lora"] for entry in self._models.values() if entry.get("lora")]
        self._adapters = {weights_id(source): source for source in adapters if source["kind"] == "hub"}

    def tokenizer_manifests(self) -> list[str]:
        """Return the manifests of the tokenizers that are fetched."""
        apart = [source for source in self._fetched.values() if weight_source(source).tokenizer_apart]
        return [self._paths.tokenizer_manifest(source) for source in apart]

    def weights_manifests(self) -> list[str]:
        """Return the manifests of the weights that are fetched."""
        return [self._paths.weights_manifest(source) for source in self._fetched.values()]

    def adapter_manifests(self) -> list[str]:
        """Return the manifests of the adapters that are fetched."""
        return [self._paths.adapter_manifest(source) for source in self._adapters.values()]

    def source(self, wildcards: Any) -> Mapping[str, Any]:
        """Return the weights source behind a folder of the cache."""
        source: Mapping[str, Any] = self._fetched[wildcards.weights]
        return source

    def tokenizer_before(self, wildcards: Any) -> list[str]:
        """Return the tokenizer that hub weights come after, so that a repository is fetched by one job at a time."""
        weights = self.source(wildcards)
        return [self._paths.tokenizer_manifest(weights)] if weight_source(weights).tokenizer_apart else []

    def files(self, engine: str) -> list[str]:
        """Return what must be there before an engine can start: a manifest, or the files of a local folder."""
        weights = self._engines[engine].get("weights")
        if weights is None:
            return []
        if not weight_source(weights).fetched:
            return [f"{weights['path']}/{name}" for name in model_files(weights["path"])]
        return [self._paths.weights_manifest(weights)]

    def identifying_files(self, wildcards: Any) -> list[str]:
        """Return what must be there before an engine can be identified: of hub weights the tokenizer is enough."""
        weights = self._engines[wildcards.engine].get("weights")
        if weights is not None and weight_source(weights).tokenizer_apart:
            return [self._paths.tokenizer_manifest(weights)]
        return self.files(wildcards.engine)

    def identified_entry(self, wildcards: Any) -> dict[str, Any]:
        """Return what of an engine identifies it: tensor parallelism, memory share and the like do not."""
        entry = self._engines[wildcards.engine]
        engine, weights = engine_of_entry(entry), entry.get("weights")
        # Files that were replaced by older ones, or removed: Snakemake looks for newer inputs only.
        files = file_states(weights["path"]) if weights is not None and not weight_source(weights).fetched else []
        # Not what identifies it: a study that becomes strict has to ask whether its engines can be (see the script).
        strict = {"strict": True} if self._strict and engine.strict_by_kernels() else {}
        return {**engine.identity({}), "weights": weights, "files": files, **strict}

    def adapter_source(self, wildcards: Any) -> Mapping[str, Any]:
        """Return the adapter behind a folder of the cache."""
        source: Mapping[str, Any] = self._adapters[wildcards.adapter]
        return source

    def adapter_files(self, wildcards: Any) -> list[str]:
        """Return what must be there before a model's adapter can be identified: a manifest, or its two files."""
        source = self._models[wildcards.model]["lora"]
        if source["kind"] == "folder":
            return [f"{source['path']}/{name}" for name in FILES]
        return [self._paths.adapter_manifest(source)]

    def identified_adapter(self, wildcards: Any) -> dict[str, Any]:
        """Return what identifies a model's adapter; of a folder also the state of its files (see above)."""
        source = self._models[wildcards.model]["lora"]
        return {"source": source, "files": states_of(source["path"], FILES) if source["kind"] == "folder" else []}

    def adapted(self, wildcards: Any) -> Mapping[str, Any]:
        """Return the source of the weights that a model's adapter changes."""
        source: Mapping[str, Any] = self._engines[self._models[wildcards.model]["engine"]]["weights"]
        return source

    def adapted_files(self, wildcards: Any) -> list[str]:
        """Return what must be there before a model's adapter can be compared with these weights."""
        return self.files(self._models[wildcards.model]["engine"])
