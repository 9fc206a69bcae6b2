"""Other runs that execute some of the same requests at the same time, such as two studies that share a store.

Both take requests in the same order, so that without more they would ask the same ones side by side to the end. The
store tells: a file that is still written, and holds a key that nobody had when this run began, belongs to such a run.
Nothing is locked, and nobody waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from refusal_eval.ask.store_index import FileIndex, key_numbers, load_index, matches


class OtherRuns:
    """Counts the runs that began before this one and answer some of its requests.

    Args:
        own: the store file that this run writes; it was just made.
        keys: the keys that this run is to execute; the store had none of them.
    """

    def __init__(self, own: Path, keys: Iterable[str]) -> None:
        self._own = own
        self._began = own.stat().st_mtime  # by the file system's clock, as the times that it is compared with
        self._numbers = key_numbers(sorted(set(keys)))
        self._files: dict[Path, FileIndex] = {}

    def earlier(self) -> int:
        """Return the number of these runs. Names of store files begin with a time: every run sees the same order."""
        return sum(self._shares(path) for path in self._own.parent.glob("*.jsonl") if path.name < self._own.name)

    def _shares(self, path: Path) -> bool:
        try:
            if path.stat().st_mtime < self._began:
                return False  # not written since: of an earlier time
            known = self._files.get(path)
            index = load_index(path, save=False) if known is None else known.brought_up_to_date()
        except OSError:  # removed, as by a writer without responses, or not readable now: no reason to stop working
            return False
        self._files[path] = index
        return bool(len(matches(self._numbers, index.entries)[0]))
