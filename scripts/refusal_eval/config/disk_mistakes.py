"""Mistakes between a study and the disk: what is not where it says, or lies where its results would."""

import os
import re
from collections.abc import Iterator
from typing import Any

from refusal_eval.config.catalogue import TYPES, VARIABLE
from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.datasets import Split
from refusal_eval.config.entries import Gold
from refusal_eval.config.feature_keys import SPLIT_KEYS
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import KeyPath, OnDisk, paths_on_disk
from refusal_eval.config.study_entry import Study
from refusal_eval.config.yaml_source import Written, look_up
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path
from refusal_eval.core.hints import nearest_column, nearest_name
from refusal_eval.core.template_file import read_template

PATTERNS = "{}*"  # what Snakemake does not take as part of a name


def path_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield paths of the study and of the entries in use that lead to nothing of use."""
    places: list[tuple[KeyPath, Any, Written]] = [((), Study, study.written)]
    for section, names in study.used.items():
        places += [((section, name), TYPES[section], study.catalogue.written[section][name]) for name in names]
    for inside, shape, written in places:
        for path, mark in paths_on_disk(shape, written.value).items():
            for message in _wrong_with(look_up(written.value, path)[0], mark):
                yield (*inside, *path), message


def row_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Ask each source of rows what is wrong with its file."""
    bundled = os.path.join(study.root, "config", "prompts")
    for section, entries in (("splits", study.entries("splits")), ("gold", study.gold)):
        for name, entry in entries.items():
            for path, message in entry.source.mistakes(bundled):
                yield (section, name, "source", *path), message


def column_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield columns that an entry names and its local file lacks."""
    bundled = os.path.join(study.root, "config", "prompts")
    for section, entries in (("splits", study.entries("splits")), ("gold", study.gold)):
        for name, entry in entries.items():
            known = entry.source.columns_here(bundled)
            if known is None:
                continue
            for path, column in _columns_named(entry):
                if column not in known:
                    file = entry.source.name
                    what = f"{file} has no column `{column}`{nearest_column(column, known, file)}"
                    yield (section, name, *path), what


def _columns_named(entry: Split | Gold) -> Iterator[tuple[KeyPath, str]]:
    """Yield each column that the rows of an entry must have, with its key."""
    groups: dict[KeyPath, dict[str, Any]] = {("columns",): entry.columns.model_dump()}
    unused = set()
    if isinstance(entry, Gold):
        unused |= {"prompt"} if entry.columns.messages else set()
        unused |= {"answer", "label", "answering_model"} if entry.answers else set()
        groups |= {("answers", model): own.model_dump() for model, own in entry.answers.items()}
        groups |= {("flags", flag): {"column": own.column} for flag, own in entry.flags.items()}
        groups |= {("slices",): {"column": entry.slices.column}} if entry.slices else {}
    else:
        groups[("where",)] = {column: column for column in entry.where or ()}
        for keys in map(SPLIT_KEYS.get, SPLIT_KEYS.names()):
            groups |= {(key,): named for key, named in keys.named_columns(entry).items()}
    for path, group in groups.items():
        for key, value in group.items():
            if key not in unused or path != ("columns",):
                for column in value if isinstance(value, list) else [value] if value is not None else []:
                    yield (*path, key), column


def folder_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield folders that are none, and results that would lie in a folder which studies share."""
    settings = study.settings
    if not settings.study:  # a mistake itself
        return
    results = os.path.abspath(os.path.join(settings.results_dir, settings.study))
    shared = {"store_dir": os.path.abspath(settings.store_dir), "cache_dir": os.path.abspath(settings.cache_dir)}
    folders = {"results_dir": os.path.abspath(settings.results_dir), **shared, "study": results}
    for key in ("results_dir", *shared):
        folder = re.sub(r"\$\{\w+\}", "", getattr(settings, key))  # a variable that is not set is another mistake
        if found := sorted(set(PATTERNS).intersection(folder)):
            yield (key,), f"`{found[0]}` in the name of a folder is a pattern to Snakemake; choose another name"
    for key, folder in folders.items():
        if in_the_way := _no_folder(folder):
            message = f"{shown_path(in_the_way)} is there and is no folder; move it away, or choose another name"
            yield (key,), message
    for key, folder in shared.items():
        if (results + os.sep).startswith(folder + os.sep):
            message = f"the results would lie in {shown_path(results)}, inside `{key}`; choose another name"
            yield ("study",), message
    if shared["store_dir"].startswith(results + os.sep):
        message = (
            f"the store would lie in {shown_path(results)}, whose files can be made again and may be deleted; "
            "responses cannot, so choose a folder outside"
        )
        yield ("store_dir",), message


def _no_folder(path: str) -> str | None:
    """Return what stands where a folder is to be, or one above it."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return None if os.path.isdir(path) else path


def _wrong_with(path: str, mark: OnDisk) -> Iterator[str]:
    """Yield what is wrong with what is at a path."""
    if mark.what in ("output", "answers folder") or VARIABLE.search(path):  # these are checked elsewhere
        return
    if mark.check is not None:
        if os.path.isdir(path):
            yield from mark.check(path, os.listdir(path))
        else:
            yield f"there is no folder {path}"
    elif os.path.isdir(path):
        if mark.what == "file or folder":
            return
        yield f"{path} is a folder, not a {mark.what}"
    elif os.path.exists(path) and not os.path.isfile(path):
        yield f"{path} is no regular file but a pipe, a socket or a device; name a file that can be read again"
    elif not os.path.isfile(path):
        folder = os.path.dirname(path) or "."
        missing = f"there is no folder {folder}" if not os.path.isdir(folder) else f"there is no {mark.what} {path}"
        beside = os.listdir(folder) if os.path.isdir(folder) else []
        name = os.path.basename(path)
        close = nearest_name(name, mark.words, 0.7) or nearest_name(name, beside, 0.7)
        yield missing + (f"; did you mean `{close}`?" if close else "")
    elif mark.template:
        try:
            read_template(path)
        except UserError as error:
            yield str(error)
