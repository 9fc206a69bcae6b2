"""The folder of a study, which is private, and what a store notes of it."""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from refusal_eval.config.study_record import RECORD
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import not_written, read_json, remove_left_over, sha256_of, write_json
from refusal_eval.study.snakemake_records import write_record

NOTES = "studies"  # folder of the store: which results were made with it, wherever they lie


def record_study(config: Mapping[str, Any], study_file: str) -> None:
    """Create the folders of results, store and fetched rows; note the study file and the validated config.

    The store notes where the results lie: what they ask for is never pruned, wherever that is. What killed runs left
    half written is removed.

    Raises:
        UserError: if a folder cannot be made, or the notes cannot be written.
    """
    try:
        _record_study(config, study_file)
    except UserError:
        raise
    except OSError as error:
        hint = "It is one of `results_dir`, `store_dir` and `cache_dir` of the study, or lies in one"
        raise UserError(f"{not_written(error) or error}. {hint}") from error


def _record_study(config: Mapping[str, Any], study_file: str) -> None:
    mode = 0o700 if config["private_folders"] else 0o777
    study, rows = Path(config["results_dir"], config["study"]), Path(config["cache_dir"], "rows")
    for folder in (config["results_dir"], config["store_dir"], study, rows):
        # A folder that is there already keeps its mode: its owner may have opened it on purpose.
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
        if not os.path.isdir(folder):
            os.mkdir(folder, mode)
    record = {"file": str(Path(study_file).resolve()), "study": config["study"]}
    write_record(f"{config['results_dir']}/{config['study']}", record)
    folder = str(study.resolve())
    with contextlib.suppress(OSError):  # a store that may only be read; others say nothing of it either
        write_json(Path(config["store_dir"], NOTES, f"{sha256_of(folder)[:16]}.json"), record | {"folder": folder})
    with open(study / "config.yaml", "w", encoding="utf-8") as handle:
        yaml.safe_dump(dict(config), handle, sort_keys=True, allow_unicode=True)
    fetched = (path for path in Path(config["cache_dir"]).glob("*") if path.is_dir() and path.name != "hub")
    # The clock of the results' file system, for that of this host may be ahead.
    now = min(time.time(), (study / RECORD).stat().st_mtime)
    remove_left_over((study, Path(config["store_dir"]), *fetched), now)


class StudyNote(NamedTuple):
    """What a store says of a study that was run with it."""

    path: Path  # of the note
    folder: Path  # the study's results
    file: str  # its study file


def study_notes(store: str | Path) -> list[StudyNote]:
    """Return what a store says of the studies that were run with it, as far as their results are not known to be gone.

    Raises:
        UserError: if a note is damaged.
    """
    notes = []
    for path in sorted(Path(store, NOTES).glob("*.json")):
        read = read_json(path)
        folder, file = (read.get(key) if isinstance(read, dict) else None for key in ("folder", "file"))
        if not isinstance(file, str) or not isinstance(folder, str) or not os.path.isabs(folder) or "\0" in folder:
            raise UserError(f"{path} is damaged: it does not say which results were made with this store")
        if not _gone(folder):
            notes.append(StudyNote(path, Path(folder), file))
    return notes


def _gone(folder: str) -> bool:
    """Tell whether results are gone: not if the folder that held them is not seen either, as from another machine."""
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return Path(folder).parent.is_dir()
    except OSError:  # it may be there, and not be for us to read
        return False
    return False
