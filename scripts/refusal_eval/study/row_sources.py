"""Sources of rows: their classes and the addresses that they stand for."""

import re
from collections.abc import Mapping
from typing import Any

from refusal_eval.config.kinds import ROW_SOURCES
from refusal_eval.config.source_entries import RowSource

BRACES = re.compile(r"\{([^{}/]+)\}")
PART = "part"  # column that tells which of several files a row comes from; of a second `{}` it is `part_2`


def row_source(source: Mapping[str, Any]) -> RowSource:
    """Return a source as its class."""
    found: RowSource = ROW_SOURCES.entry(source)
    return found


def addresses_of(url: str) -> dict[str, str]:
    """Return the addresses that `{a,b}` in an address stands for, by what stands in its place; one alone without.

    Of several `{}` every combination is meant, called `a/c`, in the order in which they are written.
    """
    found = BRACES.search(url)
    if found is None:
        return {"": url}
    before, after = url[: found.start()], url[found.end() :]
    rest = addresses_of(after)
    return {
        f"{part}/{more}" if more else part: before + part + end
        for part in found[1].split(",")
        for more, end in rest.items()
    }


def part_columns(part: str) -> dict[str, str]:
    """Return the columns of a row that say which of several addresses it comes from."""
    return {f"{PART}_{n}" if n > 1 else PART: text for n, text in enumerate(part.split("/"), 1)}
