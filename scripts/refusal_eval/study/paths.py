"""Where the files of a study lie."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.study.batches import load_names
from refusal_eval.study.files import file_of


class Paths:
    """Folders of a study, and its files by noun (study/files.py)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._shards = int(config["shards"])
        self.results = f"{config['results_dir']}/{config['study']}"
        self.logs = f"{self.results}/logs"
        self.store = str(config["store_dir"])
        self.cache = str(config["cache_dir"])

    def of(self, noun: str, **names: str) -> str:
        """Return the file of a noun, of several that one job makes the first: `of("answers", model="m", split="s")`.

        Raises:
            UserError: if there is no such noun, with the nearest one.
        """
        return self._filled(file_of(noun).patterns[0], names)

    def all_of(self, noun: str, **names: str) -> list[str]:
        """Return all files of a noun that one job makes."""
        return [self._filled(pattern, names) for pattern in file_of(noun).patterns]

    def _filled(self, pattern: str, names: Mapping[str, str]) -> str:
        filled = pattern.format(cache=self.cache, **names)
        return filled if pattern.startswith("{cache}/") else f"{self.results}/{filled}"

    def receipts(self, stage: str, batch: str) -> list[str]:
        """Return the receipts of all engine loads of a batch, a load for each shard.

        Args:
            stage: `generate` or `judge`.
        """
        return [self.of(f"{stage}_receipts", batch=batch, load=load) for load in load_names(self._shards)]
