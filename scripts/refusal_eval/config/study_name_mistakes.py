"""Mistakes of a study's name: another study has it, and each would overwrite the other's results."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.problems import Mistake
from refusal_eval.config.study_record import RECORD, recorded_file
from refusal_eval.config.yaml_source import Source
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path

LARGEST_STUDY = 2**20  # bytes
MOST_NAMED = 3  # files


def shipped_folders(root: str | Path) -> list[str]:
    """Return the folders of the study files that ship; `root` is the repository's folder."""
    return [os.path.join(root, "config"), os.path.join(root, "config", "studies")]


def same_name_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield other study files of the same name: each would overwrite the other's results without a word.

    They lie beside the study or are those that ship, or are what the results of that name were made from. A study file
    that was moved or edited is fine: its results follow. Two that both exist are not.
    """
    source, name = study.written.layers[-1].source, study.settings.study
    if not name:  # a mistake itself
        return
    here = os.path.realpath(source.file)
    folders = [os.path.dirname(here), *shipped_folders(study.root)]
    files = {file: "" for folder in folders for file in _files_that_may_name_a_study(folder)}
    record = Path(study.settings.results_dir, name, RECORD)
    if os.path.isfile(record):  # pathlib raises for a name that is too long
        try:
            owner = os.path.realpath(recorded_file(record))
        except UserError as error:
            yield ("study",), str(error)
        else:
            if os.path.isfile(owner):
                files[owner] = f"the results in {record.parent} belong to "
    beside = []
    for other, whose in sorted(files.items()):
        data = Source(other).data
        if other != here and data.get("study") == name and data != source.data:
            if whose:
                message = f"{whose}{shown_path(other)}, which has the same study name `{name}` and other content"
                yield ("study",), f"{message}; rename one of them"
            else:
                beside.append(shown_path(other))
    if beside:
        shown = ", ".join(beside[:MOST_NAMED]) + (f" and {len(beside) - MOST_NAMED} more" * (len(beside) > MOST_NAMED))
        have = "have" if len(beside) > 1 else "has"
        one = "all but one of them" if len(beside) > 1 else "one of them"
        yield ("study",), f"{shown} {have} the same study name `{name}` and other content; rename {one}"


def _files_that_may_name_a_study(folder: str) -> Iterator[str]:
    """Yield the YAML files that are worth parsing: other large ones may lie beside a study, and no files."""
    for path in Path(folder).glob("[!.]*.y*ml"):
        if path.suffix in (".yaml", ".yml") and not path.name.endswith(".lock.yaml"):
            with contextlib.suppress(OSError):
                if path.is_file() and path.stat().st_size <= LARGEST_STUDY and b"study" in path.read_bytes():
                    yield os.path.realpath(path)
