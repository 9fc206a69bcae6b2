"""What all rules ask of files: hashes for params, and constraints of wildcards."""

import functools
import re
from collections.abc import Iterable
from pathlib import Path

from refusal_eval.core.files import sha256_of_file


@functools.cache
def content_hash(path: str) -> str:
    """Return the SHA-256 of a user's file, read once per run; empty for a file that is not there.

    Snakemake itself does not see a file that was replaced by an older one.
    """
    try:
        return sha256_of_file(path)
    except FileNotFoundError:
        return ""


def any_of(names: Iterable[str]) -> str:
    """Return a regular expression for exactly these names (for nothing at all when there are none)."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


def folder_not_there(files: Iterable[str]) -> str:
    """Return a regular expression for the names of the folders of those files that do not exist.

    What is in the cache is then a plain input, and no job's output. Snakemake would delete it before it made it again,
    under the eyes of other runs that use it, and would do so for each fresh clone, whose scripts are newer than the
    cache.
    """
    return any_of(sorted({path.parent.name for path in map(Path, files) if not path.is_file()}))
