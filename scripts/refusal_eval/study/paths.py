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

    def direction(self, name: str) -> str:
        """Return the file of a direction."""
        return f"{self.results}/directions/{name}.safetensors"

    def direction_card(self, name: str) -> str:
        """Return the card of a direction."""
        return f"{self.results}/directions/{name}.json"

    def receipts(self, stage: str, batch: str) -> list[str]:
        """Return the receipts of all engine loads of a batch, a load for each shard.

        Args:
            stage: `generate` or `judge`.
        """
        return [f"{self.results}/receipts/{stage}/{batch}/{name}.json" for name in load_names(self._shards)]
