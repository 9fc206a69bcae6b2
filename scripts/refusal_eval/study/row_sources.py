"""Sources of rows: their classes, the addresses that they stand for, and paths as people read them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.config.kinds import ROW_SOURCES
from refusal_eval.config.source_entries import RowSource

BRACES = re.compile(r"\{([^{}/]+)\}")
PART = "part"  # column that tells which of several files a row comes from


def row_source(source: Mapping[str, Any]) -> RowSource:
    """Return a source as its class."""
    found: RowSource = ROW_SOURCES.entry(source)
    return found


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
