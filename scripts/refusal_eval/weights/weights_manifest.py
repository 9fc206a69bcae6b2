"""Manifests of fetched weights and tokenizers, written last: a manifest means that the copy is complete."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile, inner_name, read_json_as, sha256_of_file, shown_path, write_json

WEIGHTS_MANIFEST = "weights.json"


class FileRecord(BaseModel):
    """What a manifest says of a file."""

    size: int = Field(ge=0)
    sha256: str


class Manifest(BaseModel):
    """A manifest: where the files came from, their folder as seen from the manifest, and the files by name."""

    source: dict[str, Any] = Field({})
    folder: Annotated[str, Field(pattern=r"^[^\x00]+$")]
    files: dict[Annotated[str, AfterValidator(inner_name)], FileRecord]


def write_manifest(
    path: str | Path,
    folder: str | Path,
    names: Iterable[str],
    source: Mapping[str, Any],
    known: Mapping[str, str | None] | None = None,
) -> None:
    """Write {"source", "folder" (relative to the manifest), "files": {name: {"size", "sha256"}}} to `path`.

    `known` has the SHA-256 of files whose content was just checked; the others are read.
    """
    folder, known, files = Path(folder), known or {}, {}
    for name in sorted(names):
        file = folder / name
        files[name] = {"size": file.stat().st_size, "sha256": known.get(name) or sha256_of_file(file)}
    relative = os.path.relpath(folder.absolute(), Path(path).absolute().parent)
    write_json(path, {"source": dict(source), "folder": relative, "files": files})


def manifest_folder(path: str | Path) -> Path:
    """Return the folder that a manifest describes, after checking that its files exist with their sizes.

    The path is relative to the working directory if it lies below it.

    Raises:
        UserError: for a missing or damaged manifest, and for a missing or shortened file.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no manifest {path}; its files have not been fetched")
    manifest = read_manifest(path)
    folder = Path(shown_path(path.parent / manifest.folder))
    for name, file in manifest.files.items():
        place = folder / name
        if not os.path.isfile(place) or place.stat().st_size != file.size:
            what = "is missing" if not os.path.isfile(place) else "has another size than when it was fetched"
            raise UserError(f"{place} {what}; delete {path} to fetch it again")
    return folder


def read_manifest(path: str | Path) -> Manifest:
    """Return a manifest.

    Raises:
        UserError: if it is damaged.
    """
    try:
        return read_json_as(path, Manifest)
    except BadFile as error:
        raise UserError(f"{error}; delete {path} to fetch it again") from error
