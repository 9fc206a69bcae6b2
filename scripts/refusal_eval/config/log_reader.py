"""Readers of other tools' logs and of tables: each is one class, found by `LOG_READERS` (config/kinds.py)."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from refusal_eval.config.kinds import LOG_READERS
from refusal_eval.config.problems import one_of
from refusal_eval.core.answer_ends import state_of
from refusal_eval.core.errors import UserError
from refusal_eval.core.states import BLOCKED

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
        in_folders: names of files that it reads where a user names their folder, for messages.
    """

    name: ClassVar[str]
    reads: ClassVar[str]
    in_folders: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def takes(cls, path: Path) -> bool:
        """Tell from a file's name and beginning whether it is one for this reader."""
        raise NotImplementedError

    @classmethod
    def takes_from_folder(cls, path: Path) -> bool:
        """Tell whether a file is one for this reader where a user names only its folder."""
        return any(path.match(name) for name in cls.in_folders)

    def read(self, path: Path, columns: Mapping[str, Sequence[str]]) -> LogContent:
        """Return the answers of a file.

        Args:
            columns: which columns hold what, as the user says it; empty where the reader is to find them.

        Raises:
            UserError: for what cannot be read, with the file and the line or member.
        """
        raise NotImplementedError

    def blocked_models(self, path: Path, columns: Mapping[str, Sequence[str]]) -> set[str | None]:
        """Return the models of a file of which an answer was blocked; None for rows without a model.

        It is asked whenever a study is planned: a reader that can tell faster than by reading all should.

        Raises:
            UserError: for what cannot be read.
        """
        return {row.get("model") for row in self.read(path, columns).rows if state_of(row) == BLOCKED}


def reader_of(path: Path, name: str | None = None) -> LogReader:
    """Return the reader of a file: the one of this name, or the first that takes it.

    Raises:
        UserError: if there is none.
    """
    if not path.is_file():
        missing = f"{path} is a link to a file that is not there" if path.is_symlink() else f"there is no file {path}"
        raise UserError(f"{path} is no regular file" if path.exists() else missing)
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty")
    readers: list[type[LogReader]] = [LOG_READERS.get(one) for one in ([name] if name else LOG_READERS.names())]
    for reader in readers:
        if name or reader.takes(path):
            return reader()
    known = "; ".join(reader.reads for reader in readers) or "none in this copy of refusal-eval"
    raise UserError(f"{path} is no file of answers that can be read (readers: {known})")


def files_of(path: Path) -> list[Path]:
    """Return a file, or of a folder those in it that a tool wrote answers into.

    Raises:
        UserError: for a folder without such files.
    """
    if not path.is_dir():
        return [path]
    readers: list[type[LogReader]] = [LOG_READERS.get(name) for name in LOG_READERS.names()]
    # `os.walk` follows no links to folders, which may lead back.
    inside = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    found = sorted(file for file in inside if any(reader.takes_from_folder(file) for reader in readers))
    if not found:
        known = [name for reader in readers for name in reader.in_folders]
        raise UserError(f"{path} is a folder without {one_of(known)} in it; name the files")
    return found


def read_files(
    path: Path, columns: Mapping[str, Sequence[str]], name: str | None = None
) -> Iterator[tuple[Path, LogContent]]:
    """Yield what a file holds; of a folder what each of its files holds.

    Args:
        name: of the reader; None: the first that takes it.

    Raises:
        UserError: for what cannot be read.
    """
    for file in files_of(path):
        yield file, reader_of(file, name).read(file, columns)


def messages_of(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what was asked, as a split has it."""
    return list(row["messages"]) if "messages" in row else [{"role": "user", "content": row["prompt"]}]


def split_name(row: Mapping[str, Any], file: str | Path) -> str:
    """Return the name of the split that a row belongs to: its own, or else that of the file."""
    return slug(str(row.get("split") or Path(file).stem))


def slug(text: str) -> str:
    """Return a text as the name of an entry."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:MOST_CHARACTERS] or "answers"
