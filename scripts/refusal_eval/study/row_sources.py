"""Sources of rows: their classes and the addresses that they stand for."""

import re
from collections.abc import Mapping
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
