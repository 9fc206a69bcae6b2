"""Which files of earlier runs still hold for a study: everything that decides them is as it was when they were made.

Snakemake keeps a record of every file that it made (.snakemake/metadata): the params of its rule, in which this
workflow puts all of the config and of the user's files that decides the file; its inputs; and the checksums of small
ones. A file holds if its params are those that the study has now, if it was made from the files that it would be made
from now, if those hold, and if none of them has changed since. Without a record nothing is known, and a file does not
hold. The version of the code is not looked at.
"""

from __future__ import annotations

import ast
import base64
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, sha256_of_file
from refusal_eval.study.batches import GOLD
from refusal_eval.study.paths import Paths
from refusal_eval.workflow.data_stage import Data
from refusal_eval.workflow.generation import Generation
from refusal_eval.workflow.judging import Judging
from refusal_eval.workflow.recorded_stage import Recordings
from refusal_eval.workflow.weights_stage import Weights

RECORDS = Path(".snakemake", "metadata")  # in the folder where snakemake runs
LONGEST_NAME = 255  # of a file, where the system does not say
Params = Callable[[Any], Any]


class LastRun:
    """What of the files in a study's folder still holds.

    Args:
        config: the validated study, as it is now.
        root: the repository's folder.
    """

    def __init__(self, config: Mapping[str, Any], root: Path) -> None:
        self._config = config
        self._paths = Paths(config)
        self._data, self._weights = Data(config, root), Weights(config)
        self._generation, self._judging = Generation(config), Judging(config)
        self._recordings = Recordings(config)

    def prompts(self, split: str) -> bool:
        """Return whether the prompts of a split hold."""
        return _holds(self._prompts(split), self._data.split_reading, SimpleNamespace(split=split))

    def gold(self, name: str) -> bool:
        """Return whether the rows of a gold entry hold."""
        return _holds(self._file("gold", name), self._data.gold_reading, SimpleNamespace(gold=name))

    def requests(self, model: str, split: str, any_samples: bool = True) -> bool:
        """Return whether the request file of a cell holds; `any_samples`: also one that was made for another K."""
        entry, cell = self._config["model_entries"][model], SimpleNamespace(model=model, split=split)
        inputs = [self._prompts(split), self._paths.engine(entry["engine"])]
        if entry.get("lora"):
            inputs.append(self._paths.adapter(model))
            if not _holds(self._paths.adapter(model), self._weights.identified_adapter, cell):
                return False
        aside = ("samples",) if any_samples else ()
        return (
            self.prompts(split)
            and self._engine(entry["engine"])
            and _holds(self._file("requests", model, split), self._generation.request_params, cell, inputs, aside)
        )

    def judge_requests(self, judge: str, model: str, split: str) -> bool:
        """Return whether what a judge is asked about a cell's answers, or about gold, holds."""
        engine = self._config["judge_entries"][judge]["engine"]
        inputs = [self._file("answers", model, split), self._paths.engine(engine)]
        answered = self.gold(split) if model == GOLD else self._answers(model, split)
        file, asked = self._file("judge_requests", judge, model, split), SimpleNamespace(judge=judge)
        return answered and self._engine(engine) and _holds(file, self._judging.reading, asked, inputs)

    def _answers(self, model: str, split: str) -> bool:
        file, cell = self._file("answers", model, split), SimpleNamespace(model=model, split=split)
        if self._config["model_entries"][model].get("recorded"):
            return self.prompts(split) and _holds(file, self._recordings.reading, cell, [self._prompts(split)])
        asked = self.requests(model, split, any_samples=False)
        return asked and _holds(file, self._generation.segments, cell, [self._file("requests", model, split)])

    def _engine(self, name: str) -> bool:
        return _holds(self._paths.engine(name), self._weights.identified_entry, SimpleNamespace(engine=name))

    def _prompts(self, split: str) -> str:
        return self._file("prompts", split)

    def _file(self, *parts: str) -> str:
        return f"{self._paths.results}/{'/'.join(parts)}.jsonl"


def record_path(file: str) -> Path:
    """Return where Snakemake keeps its record of a file that a rule made (as its `persistence.file` names it)."""
    try:
        longest = os.pathconf(RECORDS, "PC_NAME_MAX") - 1
    except OSError:
        longest = LONGEST_NAME - 1
    name = base64.urlsafe_b64encode(file.encode()).decode()
    *folders, last = (name[start : start + longest] for start in range(0, len(name), longest))
    return Path(RECORDS, *(f"@{folder}" for folder in folders), last)


def _holds(file: str, params: Params, wildcards: Any, inputs: Sequence[str] = (), aside: Sequence[str] = ()) -> bool:
    """Return whether a file was made with these params, and from inputs that have not changed since.

    Args:
        file: as the rule names it.
        params: what the rule asks for its params.
        wildcards: with which it asks.
        inputs: files that it was made from.
        aside: keys of the params that are not compared.
    """
    record = _record(file)
    if record is None:
        return False
    wanted = _without(params(wildcards), aside)
    made = (_without(_value(text), aside) for text in record.get("params") or ())
    same = wanted in made and set(inputs) <= set(record.get("input") or ())
    return same and not any(_changed(path, file, record) for path in inputs)


def _record(file: str) -> Mapping[str, Any] | None:
    try:
        record = read_json(record_path(file))
    except (OSError, UserError):
        return None
    return record if isinstance(record, dict) and not record.get("incomplete") else None


def _value(text: Any) -> Any:
    # Snakemake keeps the `repr` of each param.
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def _without(params: Any, keys: Sequence[str]) -> Any:
    return {key: value for key, value in params.items() if key not in keys} if isinstance(params, Mapping) else params


def _changed(path: str, file: str, record: Mapping[str, Any]) -> bool:
    """Return whether a file is newer than what was made of it, and not the same as then; as Snakemake sees it.

    A file that is gone has not changed: it will be made again of what holds.
    """
    try:
        if os.path.getmtime(path) <= os.path.getmtime(file):
            return False
        return (record.get("input_checksums") or {}).get(path) != f"sha256:{sha256_of_file(path)}"
    except FileNotFoundError:
        return False
