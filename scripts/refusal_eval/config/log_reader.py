"""Readers of other tools' logs and of tables: each is one class, found by `LOG_READERS` (config/kinds.py)."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from refusal_eval.config.kinds import LOG_READERS
from refusal_eval.core.errors import UserError

LogRow = dict[str, Any]
NO_ENDS = "the file says no finish reasons: an answer that was cut off or blocked looks complete"
MOST_CHARACTERS = 60  # of a name that a file gives


class LogContent(NamedTuple):
    """What a file of answers holds.

    Attributes:
        rows: neutral rows, as plain JSON (docs/how-to/judge_answers.md).
        lost: what the file has or lacks that is lost to its reader, a sentence each.
    """

    rows: list[LogRow]
    lost: list[str]


class LogReader:
    """Reads the answers of one file.

    Attributes:
        name: by which an entry may ask for it.
        reads: what it reads, in a few words, for messages and docs.
    """

    name: ClassVar[str]
    reads: ClassVar[str]

    @classmethod
    def takes(cls, path: Path) -> bool:
        """Tell from a file's name and beginning whether it is one for this reader."""
        raise NotImplementedError

    def read(self, path: Path, columns: Mapping[str, Sequence[str]]) -> LogContent:
        """Return the answers of a file.

        Args:
            columns: which columns hold what, as the user says it; empty where the reader is to find them.

        Raises:
            UserError: for what cannot be read, with the file and the line or member.
        """
        raise NotImplementedError


def reader_of(path: Path, name: str | None = None) -> LogReader:
    """Return the reader of a file: the one of this name, or the first that takes it.

    Raises:
        UserError: if there is none.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}" if not path.exists() else f"{path} is no regular file")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty")
    readers: list[type[LogReader]] = [LOG_READERS.get(one) for one in ([name] if name else LOG_READERS.names())]
    for reader in readers:
        if name or reader.takes(path):
            return reader()
    known = "; ".join(reader.reads for reader in readers) or "none in this copy of refusal-eval"
    raise UserError(f"{path} is no file of answers that can be read (readers: {known})")


def messages_of(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what was asked, as a split has it."""
    return list(row["messages"]) if "messages" in row else [{"role": "user", "content": row["prompt"]}]


def split_name(row: Mapping[str, Any], file: str | Path) -> str:
    """Return the name of the split that a row belongs to: its own, or else that of the file."""
    return slug(str(row.get("split") or Path(file).stem))


def slug(text: str) -> str:
    """Return a text as the name of an entry."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:MOST_CHARACTERS] or "answers"
