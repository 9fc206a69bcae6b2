"""What is known of the run that wrote a sample file of lm-evaluation-harness: the results file next to it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.core.files import read_json

NAMED = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)")


class Run(NamedTuple):
    """What is known of the run that wrote a sample file."""

    model: str | None
    task: str
    results: Mapping[str, Any]  # its results file; empty if there is none

    @property
    def rendered(self) -> bool:
        """Whether `arguments` holds what a chat template made of the question."""
        return bool(self.results.get("chat_template"))

    @property
    def config(self) -> Mapping[str, Any]:
        """Of the task."""
        configs = self.results.get("configs")
        found = configs.get(self.task) if isinstance(configs, Mapping) else None
        return found if isinstance(found, Mapping) else {}


def run_of(path: Path) -> Run:
    """Return what is known of the run behind a sample file.

    Raises:
        UserError: if the results file next to it is not valid JSON.
    """
    named = NAMED.fullmatch(path.stem)
    results = [path.with_name(f"results_{named['time']}.json")] if named else sorted(path.parent.glob("results_*.json"))
    found = read_json(results[0]) if len(results) == 1 and results[0].is_file() else {}
    found = found if isinstance(found, dict) else {}
    folder = path.absolute().parent.name
    model = found.get("model_name") or (folder.replace("__", "/", 1) if "__" in folder else None)
    return Run(str(model) if model else None, named["task"] if named else path.stem, found)
