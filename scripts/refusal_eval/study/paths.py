"""Where the files of a study lie."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.source_entries import Source
from refusal_eval.study.batches import load_names


class Paths:
    """Folders of a study, and the files that more than one stage names."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._shards = int(config["shards"])
        self.results = f"{config['results_dir']}/{config['study']}"
        self.logs = f"{self.results}/logs"
        self.store = str(config["store_dir"])
        self.cache = str(config["cache_dir"])

    def engine(self, name: str) -> str:
        """Return the identity file of an engine."""
        return f"{self.results}/engines/{name}.json"

    def tokenizer_manifest(self, weights: Source) -> str:
        """Return the manifest of a hub model's tokenizer."""
        return f"{self.cache}/weights/{weights.copy_id}/tokenizer_manifest.json"

    def weights_manifest(self, weights: Source) -> str:
        """Return the manifest of fetched weights."""
        return f"{self.cache}/weights/{weights.copy_id}/weights.json"

    def adapter_manifest(self, source: Source) -> str:
        """Return the manifest of a LoRA adapter from the hub."""
        return f"{self.cache}/adapters/{source.copy_id}/adapter.json"

    def adapter(self, model: str) -> str:
        """Return the identity file of a model's LoRA adapter."""
        return f"{self.results}/adapters/{model}.json"

    def checked_adapter(self, model: str) -> str:
        """Return the same after the adapter was compared with the engine's weights."""
        return f"{self.results}/adapters/checked/{model}.json"

    def direction(self, name: str) -> str:
        """Return the file of a direction."""
        return f"{self.results}/directions/{name}.safetensors"

    def direction_card(self, name: str) -> str:
        """Return the card of a direction."""
        return f"{self.results}/directions/{name}.json"

    def intervention(self, model: str) -> str:
        """Return the card of a model's compiled intervention."""
        return f"{self.results}/interventions/{model}.json"

    def receipts(self, stage: str, batch: str) -> list[str]:
        """Return the receipts of all engine loads of a batch, a load for each shard.

        Args:
            stage: `generate` or `judge`.
        """
        return [f"{self.results}/receipts/{stage}/{batch}/{name}.json" for name in load_names(self._shards)]
