"""Hashes of the user's files for params: Snakemake itself does not see a file that was replaced by an older one."""

import functools

from refusal_eval.core.files import sha256_of_file


@functools.cache
def content_hash(path: str) -> str:
    """Return the SHA-256 of a file's content, read once per run; empty for a file that is not there."""
    try:
        return sha256_of_file(path)
    except FileNotFoundError:
        return ""
