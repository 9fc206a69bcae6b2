"""Splits of a study that names none: made from the prompts in its files of recorded answers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from refusal_eval.config.catalogue import Catalogue
from refusal_eval.config.entries import RecordedFile
from refusal_eval.config.log_dialogues import dialogue_of
from refusal_eval.config.log_reader import LogRow, read_files, split_name
from refusal_eval.config.problems import Problem
from refusal_eval.config.yaml_source import Layer, Written
from refusal_eval.core.errors import UserError

KIND = "recorded"  # of the source of such a split
MIXED = "varies"  # the expectation of prompts of which nobody says it, or of which it differs


def with_splits_of_files(written: Written, catalogue: Catalogue, problems: list[Problem]) -> Written:
    """Return a study with the splits of its files of answers, which are entries of the catalogue then.

    A study that names splits, or whose models have no such file, stays as it is. Of several files with a split of one
    name the first gives its prompts.

    Args:
        problems: takes what is wrong with these files.
    """
    models = written.get("models")
    named = [name for name in models if isinstance(name, str)] if isinstance(models, list) else []
    entries = {name: catalogue.valid["models"][name] for name in named if name in catalogue.valid["models"]}
    files = {name: entry.recorded_file for name, entry in entries.items() if entry.recorded_file is not None}
    if written.get("splits") is not None or not files:
        return written
    source, found = written.layers[-1].source, dict[str, dict[str, Any]]()
    for name, file in files.items():
        try:
            for path, content in read_files(Path(file.file), file.named_columns, file.reader):
                for split, own in _by_split(content.rows, file, path).items():
                    found.setdefault(split, _entry(split, own, file, path))
        except UserError as error:
            problems.append(catalogue.written["models"][name].problem(("recorded", "file"), str(error)))
            return Written(written.layers, broken=True)
    for split, entry in found.items():
        catalogue.add_split(split, Written([Layer(entry, source, ("splits",))]))
    return Written([*written.layers, Layer({"splits": list(found)}, source, ())])


def _by_split(rows: Iterable[LogRow], file: RecordedFile, path: Path) -> dict[str, list[LogRow]]:
    """The rows of a file that are those of its model, by split."""
    found: dict[str, list[LogRow]] = {}
    for row in rows:
        if file.model is None or row.get("model") == file.model:
            found.setdefault(split_name(row, path), []).append(row)
    return found


def _entry(split: str, rows: list[LogRow], file: RecordedFile, path: Path) -> dict[str, Any]:
    named = {"reader": file.reader, "columns": file.columns}
    expected = {row.get("expectation") for row in rows}
    kept = {"category": "category", "cluster": "cluster", "id": "prompt_id"}
    columns = {key: field for key, field in kept.items() if any(field in row for row in rows)}
    return {
        "source": {"kind": KIND, "path": str(path), "split": split} | {key: one for key, one in named.items() if one},
        "columns": {"messages": "messages", **columns},
        "expectation": expected.pop() if len(expected) == 1 and None not in expected else MIXED,
    } | ({"dialogue": dialogue} if (dialogue := dialogue_of(rows)) else {})
