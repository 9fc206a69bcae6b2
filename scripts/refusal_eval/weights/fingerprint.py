"""The fingerprint of a local folder of weights, so that other weights under the same path give other keys."""

import os
import time
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile, read_json_as, sha256_of, sha256_of_file, write_json
from refusal_eval.core.logs import LOG

# What defines a model: weights, configuration, tokenizer, templates, code.
DEFINING = ("*.safetensors", "*.bin", "*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken", "*.py", "*.gguf")
NOT_DEFINING = ("readme*", "license*", "licence*", "notice*")
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.gguf")
# A file that changed this recently may change again within one tick of the file system's clock, unseen by its time.
RACY_SECONDS = 2.0
ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"


class ShardIndex(BaseModel):
    """Which file holds each tensor of weights that come in several."""

    weight_map: dict[str, str]


class Memory(BaseModel):
    """What is remembered of a folder's files, and the SHA-256 of that."""

    files: dict[str, dict[str, Any]]
    sha256: str


def model_files(folder: str | Path) -> list[str]:
    """Return the names of the files that define a folder's model: relative, with `/`, sorted, without hidden ones.

    Raises:
        UserError: for what is called like one of them and is no regular file, and for names that are not UTF-8.
    """
    found = []
    around: dict[str, frozenset[tuple[int, int]]] = {os.fspath(folder): frozenset()}
    for place, folders, names in os.walk(folder, followlinks=True):
        own = around.pop(place) | {_identity(place)}
        # Of links that lead back to a folder around them there would be no end.
        inner = sorted(name for name in folders if not name.startswith("."))
        folders[:] = [name for name in inner if _identity(os.path.join(place, name)) not in own]
        around |= {os.path.join(place, name): own for name in folders}
        relative = Path(place).relative_to(folder)
        found += [_check_file(place, name, relative) for name in names if defines_model(name)]
    return sorted(found)


def _identity(folder: str) -> tuple[int, int]:
    state = os.stat(folder)
    return state.st_dev, state.st_ino


def _check_file(place: str, name: str, relative: Path) -> str:
    path = os.path.join(place, name)
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"the name of {os.fsencode(path).decode(errors='replace')} is not UTF-8; rename it") from error
    if not os.path.isfile(path):  # reading a pipe may never end
        raise UserError(f"{path} is no regular file, or a link to none; remove it from the folder of the weights")
    return (relative / name).as_posix()


def defines_model(name: str) -> bool:
    """Return whether a file of this name (without folder) defines a model."""
    small = name.lower()
    return not small.startswith(".") and _matches(small, DEFINING) and not _matches(small, NOT_DEFINING)


def folder_sha256(folder: str | Path, cache: str | Path) -> str:
    """Return the SHA-256 over the sorted (relative name, SHA-256) of the files that define a folder's model.

    A file with the path, size and times of the last time is not read again (`cache`/fingerprints/ remembers them).

    Raises:
        UserError: if the folder is missing, holds no weights, or two sets of them, or has no config.json.
    """
    folder = Path(folder)
    names = model_files(folder)
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}")
    if not any(_matches(name.lower(), WEIGHT_FILES) for name in names):
        raise UserError(f"{folder} holds no weights (*.safetensors)")
    if "config.json" not in names:
        raise UserError(f"{folder} has no config.json: it is not a model folder in the hub's format")
    _refuse_two_sets(folder, names)
    return files_sha256(folder, names, cache)


def _refuse_two_sets(folder: Path, names: list[str]) -> None:
    """Raise `UserError` if not all of a folder's safetensors are one model: which is served could not be seen.

    vLLM takes `consolidated*` where there is one, else what the index names, or all without one; transformers takes
    model.safetensors first. A model that is saved into a copy of another leaves both.
    """
    found = [name for name in names if "/" not in name and name.endswith(".safetensors")]
    if INDEX in names:
        named = set(read_json_as(folder / INDEX, ShardIndex).weight_map.values())
        if missing := sorted(named - set(names)):
            others = sorted(set(found) - named)
            hint = f"; if {others[0]} holds the weights, remove the index" if others else ""
            raise UserError(f"{folder}: {INDEX} names {missing[0]}, which is not there{hint}")
    else:
        named = {ONE_FILE} if ONE_FILE in found else {name for name in found if not name.startswith("consolidated")}
    if named and (others := sorted(set(found) - named)):
        raise UserError(
            f"{folder} has two copies of the weights, {min(named)} and {others[0]}: remove one (with its index, if any)"
        )


def files_sha256(folder: str | Path, names: Iterable[str], cache: str | Path) -> str:
    """Return the SHA-256 over the sorted (relative name, SHA-256) of some files of a folder (see `folder_sha256`)."""
    folder, names = Path(folder), sorted(names)
    memory = Path(cache) / "fingerprints" / f"{sha256_of(str(folder.resolve()))[:16]}.json"
    known = _read_memory(memory)
    records = {name: _record(folder / name, known.get(name)) for name in names}
    if records != known:
        if known and (others := _others(known, records)):
            LOG.warning("%s: files added, changed or removed: %s; its requests get new keys", folder, others)
        write_json(memory, {"files": records, "sha256": sha256_of(records)})
    return sha256_of([[name, records[name]["sha256"]] for name in names])


def _others(known: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the (first) files whose content is not what it was."""
    hashes = [{name: record.get("sha256") for name, record in files.items()} for files in (known, records)]
    names = sorted({name for name, _ in hashes[0].items() ^ hashes[1].items()})
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def file_states(folder: str | Path) -> list[list[Any]]:
    """Return [name, size, mtime in ns] of the files that define a model, a quick way to see a change."""
    return states_of(folder, model_files(folder))


def states_of(folder: str | Path, names: Iterable[str]) -> list[list[Any]]:
    """Return [name, size, mtime in ns] of those of these files that exist."""
    states = [(name, (Path(folder) / name).stat()) for name in names if (Path(folder) / name).is_file()]
    return [[name, state.st_size, state.st_mtime_ns] for name, state in states]


def _record(path: Path, known: Mapping[str, Any] | None) -> dict[str, Any]:
    state = path.stat()
    # The time of the last change of status catches a copy that keeps the time of modification.
    times = {"size": state.st_size, "mtime_ns": state.st_mtime_ns, "ctime_ns": state.st_ctime_ns}
    if known is not None and "sha256" in known and {**known, **times} == known:
        return dict(known)
    digest = sha256_of_file(path)
    racy = time.time() - max(state.st_mtime, state.st_ctime) < RACY_SECONDS
    return {**times, "mtime_ns": None, "sha256": digest} if racy else {**times, "sha256": digest}


def _read_memory(memory: Path) -> dict[str, dict[str, Any]]:
    """Return what is remembered of files, by name; nothing if the memory is damaged: its hashes go into keys."""
    try:
        known = read_json_as(memory, Memory) if memory.exists() else None
        return known.files if known is not None and known.sha256 == sha256_of(known.files) else {}
    except (BadFile, ValueError):  # of numbers that JSON does not have
        return {}


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
