"""Where the rows of a source lie, what it is called, and the id of its copy in the cache."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from refusal_eval.core.files import sha256_of

HUB_ROWS = "rows.jsonl"
BRACES = re.compile(r"\{([^{}/]+)\}")
PART = "part"  # column that tells which of several files a row comes from
FETCHING = 1  # raise it when the same source comes out as other rows
FETCHED_KINDS = ("hub", "wheel", "url")
HOW_IT_IS_READ = ("skip_lines", "encoding")
# Keys that came after sources were first fetched, by kind (None: of any).
LATER = {"hub": ("file", "sha256", "skip_lines", "encoding"), None: ("encoding",)}


def source_id(source: Mapping[str, Any]) -> str:
    """Return 16 hex digits that name a source's copy in the cache.

    How a file is read (`skip_lines`, `encoding`) and keys without a value do not count: a key that is added later with
    no value leaves the copies of today in use. A copy in the cache is never made again, so that rows which another
    version of the fetching makes are another copy.
    """
    told = {key: value for key, value in source.items() if value is not None and key not in HOW_IT_IS_READ}
    return sha256_of(told | ({"fetching": FETCHING} if FETCHING > 1 else {}))[:16]


def source_param(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source as a rule's param: without keys that came later and that it does not use.

    They would otherwise rerun, on the day they come, every job whose source can have them.
    """
    later = LATER.get(source["kind"], LATER[None])
    return {key: value for key, value in source.items() if key not in later or value}


def source_name(source: Mapping[str, Any]) -> str:
    """Return what prompts, logs and messages call a source; never an absolute path of this machine."""
    if source["kind"] == "hub":
        return f"{source['repo']}/{source['file']}" if source.get("file") else str(source["repo"])
    if source["kind"] == "url":
        return str(source["url"])
    if source["kind"] == "wheel":
        return f"{source['package']}=={source['version']}/{source['file']}"
    path = str(source["path"] if source["kind"] == "file" else source["file"])
    return os.path.basename(path) if os.path.isabs(path) else path


def fetched_path(source: Mapping[str, Any], cache: str) -> str:
    """Return where the rows of a fetched source lie."""
    path = source["url"] if source["kind"] == "url" else source.get("file")
    joined = source["kind"] == "url" and len(addresses_of(source["url"])) > 1
    file = PurePosixPath(path).name if path and not joined else HUB_ROWS
    return f"{cache}/rows/{source_id(source)}/{file}"


def addresses_of(url: str) -> dict[str, str]:
    """Return the addresses that `{a,b}` in an address stands for, by what stands in its place; one alone without."""
    found = BRACES.search(url)
    if found is None:
        return {"": url}
    return {part: url[: found.start()] + part + url[found.end() :] for part in found[1].split(",")}


def local_path(source: Mapping[str, Any], bundled: str) -> str:
    """Return the file of a `file` or `bundled` source; `bundled` is the folder of the files that are shipped."""
    return str(source["path"]) if source["kind"] == "file" else f"{bundled}/{source['file']}"


def shown_path(path: str | Path) -> Path:
    """Return a path without `..`, relative to the working directory when it lies below it."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return Path(absolute if relative.startswith("..") else relative)
