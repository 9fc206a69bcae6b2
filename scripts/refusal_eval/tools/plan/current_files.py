"""Which files of earlier runs the next run would leave as they are, by `snakemake --summary`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.study.paths import Paths
from refusal_eval.tools.snakemake_summary import summary


@dataclass(frozen=True)
class Current:
    """What holds of the files in a study's folder.

    Attributes:
        files: files that the next run would leave as they are, if the study had the K below.
        samples: K of the request files; a file holds for the samples of it that another K shares.
    """

    files: Collection[str] = ()
    samples: int = 0


def current_files(config: Mapping[str, Any], study_file: Path, root: Path) -> Current:
    """Return which files the next run would leave as they are; none before a first run, or where it cannot be planned.

    Args:
        config: the validated study.
        study_file: its file.
        root: the repository's folder.
    """
    results = Path(Paths(config).results)
    if not any((results / folder).is_dir() for folder in ("prompts", "gold", "requests", "judge_requests")):
        return Current()
    samples = _samples(results / "requests") or int(config["samples"])
    try:
        made = summary(study_file, root, {"samples": samples})
    except UserError:
        return Current()
    return Current({file.path for file in made if file.current}, samples)


def _samples(folder: Path) -> int | None:
    """Return the K with which the request files in a folder were made."""
    for file in sorted(folder.rglob("*.jsonl")):
        try:
            rows = read_jsonl(file)
            next(rows)  # the header
            return len(next(rows)["samples"])
        except (UserError, OSError, KeyError, TypeError, StopIteration):
            return None
    return None
