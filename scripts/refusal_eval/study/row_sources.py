"""Where the rows of a source lie, and the id of its copy in the cache. Sources are entries as the config holds them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.config.kinds import ROW_SOURCES
from refusal_eval.config.source_entries import RowSource
from refusal_eval.core.files import sha256_of

BRACES = re.compile(r"\{([^{}/]+)\}")
PART = "part"  # column that tells which of several files a row comes from
FETCHING = 1  # raise it when the same source comes out as other rows
HOW_IT_IS_READ = ("skip_lines", "encoding")


def row_source(source: Mapping[str, Any]) -> RowSource:
    """Return a source as its class."""
    found: RowSource = ROW_SOURCES.entry(source)
    return found


def is_fetched(source: Mapping[str, Any]) -> bool:
    """Tell whether a copy of the rows is made in the cache."""
    return row_source(source).fetched


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
    later = row_source(source).later
    return {key: value for key, value in source.items() if key not in later or value}


def fetched_path(source: Mapping[str, Any], cache: str) -> str:
    """Return where the rows of a fetched source lie."""
    return f"{cache}/rows/{source_id(source)}/{row_source(source).cached_name}"


def addresses_of(url: str) -> dict[str, str]:
    """Return the addresses that `{a,b}` in an address stands for, by what stands in its place; one alone without."""
    found = BRACES.search(url)
    if found is None:
        return {"": url}
    return {part: url[: found.start()] + part + url[found.end() :] for part in found[1].split(",")}


def shown_path(path: str | Path) -> Path:
    """Return a path without `..`, relative to the working directory when it lies below it."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return Path(absolute if relative.startswith("..") else relative)
