"""The lock file of a study, `<study>.lock.yaml` beside it: the commit of every repository, and what its files hold.

`refusal-eval pin` writes it (refusal_eval/tools/pin/). Here it is read, checked, and put into the entries whose pin is
open.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from refusal_eval.config.change import source_fields
from refusal_eval.config.explain import validated
from refusal_eval.config.problems import Problem
from refusal_eval.config.shapes import ROWS, CommitHash, Day, Entry, FileName, RepoId, Sha256, Text, Whole
from refusal_eval.config.source_entries import Source as Pinned
from refusal_eval.config.yaml_source import Layer, Source, Written
from refusal_eval.core.files import shown_path
from refusal_eval.core.yaml_files import read_yaml

LOCK_VERSION = 1
ENDING = ".lock.yaml"
# The list of the lock file that pins repositories of a section of the catalogue.
LISTS = {"engines": "models", "models": "models", "splits": "datasets", "gold": "datasets"}
FILE_STATE = re.compile(r"(\d+) (sha256:[0-9a-f]{64}|git:[0-9a-f]{40})")


def _file_state(text: str) -> str:
    if not FILE_STATE.fullmatch(text):
        raise ValueError("must be a size in bytes and `sha256:` with 64 hex digits, or `git:` with 40")
    return text


FileState = Annotated[str, AfterValidator(_file_state)]


class LockedLicence(Entry):
    """What the hub states as licence, and what the entries of the catalogue say."""

    hub: str | None = Field(description="Tag of the repository; null where it has none.")
    entry: str | None = Field(description="What the entries say; null where they say nothing.")
    agrees: bool | None = Field(description="Whether the two are the same; null where one says nothing.")


class LockedRepo(Entry):
    """A repository at a commit."""

    repo: RepoId = Field(description="Repository, `owner/name`.")
    commit: CommitHash = Field(description="Full commit hash.")
    date: Day = Field(description="Day of the commit.")
    pinned_by: Literal["entry", "lock"] = Field(
        description="`entry`: the catalogue names the commit; `lock`: it leaves it open, and this file decides."
    )
    gated: bool = Field(description="Whether the hub asks for an agreement before it gives the files.")
    licence: LockedLicence = Field(description="Licence by the hub and by the entries.")
    files: dict[FileName, FileState] = Field(
        min_length=1, description="What is fetched: size in bytes, and SHA-256 or git's hash of the content."
    )

    whole: bool = Field(False, description="Whether `files` are all of a data set, as a `split` needs.")

    @property
    def holds_all(self) -> bool:
        """Whether all files are locked.

        Older lock files do not say so. In these, files other than rows are locked only if the whole repository is.
        """
        return self.whole or any(not re.search(ROWS, name) for name in self.files)

    @property
    def pin(self) -> tuple[str, str]:
        """The repository and its commit."""
        return self.repo, self.commit


class LockedUrl(Entry):
    """A file at an address."""

    url: Text = Field(description="The address.")
    sha256: Sha256 = Field(description="SHA-256 of the file.")
    size: Whole = Field(ge=0, description="Bytes.")
    pinned_by: Literal["entry", "lock"] = Field(description="As for repositories.")

    @property
    def pin(self) -> tuple[str, str]:
        """The address and its hash."""
        return self.url, self.sha256


class LockFile(Entry):
    """A lock file."""

    lock_version: Literal[1] = Field(description="Version of this format.")
    models: list[LockedRepo] = Field([], description="Weights and adapters.")
    datasets: list[LockedRepo] = Field([], description="Data sets.")
    urls: list[LockedUrl] = Field([], description="Files at addresses.")

    @model_validator(mode="after")
    def _one_answer_each(self) -> LockFile:
        for locked in (self.models, self.datasets, self.urls):
            pins, chosen = [one.pin for one in locked], [one.pin[0] for one in locked if one.pinned_by == "lock"]
            for name, pin in pins:
                if pins.count((name, pin)) > 1:
                    raise ValueError(f"`{name}` stands twice with {pin}")
                if chosen.count(name) > 1:
                    raise ValueError(f"`{name}` stands twice with `pinned_by: lock`")
        return self


@dataclass(frozen=True)
class Lock:
    """A lock file that was read: its path, and what it holds."""

    path: str
    content: LockFile

    def pins(self, section: str, source: Pinned) -> list[str]:
        """Return the hashes that the lock has for a source of a section; one that is `pinned_by: lock` comes first."""
        found = sorted(self._of(section, source), key=lambda one: one.pinned_by != "lock")
        return [one.pin[1] for one in found]

    def open_pin(self, section: str, source: Pinned) -> str | None:
        """Return the hash that an open pin takes; None if the lock does not tell."""
        pins = self.pins(section, source)
        chosen = any(one.pinned_by == "lock" for one in self._of(section, source))
        return pins[0] if len(pins) == 1 or chosen else None

    def lacks(self, section: str, source: Pinned) -> str:
        """Return why an open pin takes no hash from the lock, with the key under which it would stand."""
        pins, key = self.pins(section, source), self._list(section, source)
        if not pins:
            return f"{self.path} has no `{source.known_as}` under `{key}`"
        return f"{self.path} has {len(pins)} of `{source.known_as}` under `{key}`, none of them with `pinned_by: lock`"

    def lists(self, section: str, source: Pinned, file: str) -> bool:
        """Tell whether the one file that a source takes is among the locked files of its repository."""
        at = self._locked(section, source)
        return at is None or file in at.files

    def lists_all(self, section: str, source: Pinned) -> bool:
        """Tell whether all files of the repository of a source are locked."""
        at = self._locked(section, source)
        return at is None or at.holds_all

    def line(self, section: str, source: Pinned) -> str:
        """Return `file:line` of what the lock has for a source."""
        key = self._list(section, source)
        index = next(i for i, one in enumerate(getattr(self.content, key)) if one.pin[0] == source.known_as)
        found = Source(self.path).problem((key, index, "sha256" if key == "urls" else "commit"), "")
        return f"{found.file}:{found.line}"

    def _locked(self, section: str, source: Pinned) -> LockedRepo | None:
        """Return the repository of a source at its commit; None where the lock has none."""
        commit = getattr(source, str(source.pin)) or self.open_pin(section, source)
        found = (one for one in self._of(section, source) if isinstance(one, LockedRepo) and one.commit == commit)
        return next(found, None)

    def _of(self, section: str, source: Pinned) -> list[LockedRepo | LockedUrl]:
        return [one for one in getattr(self.content, self._list(section, source)) if one.pin[0] == source.known_as]

    def _list(self, section: str, source: Pinned) -> str:
        return "urls" if source.taken_from == "url" else LISTS[section]


def lock_path(study_file: str) -> str:
    """Return where the lock file of a study lies: beside it, `my_study.lock.yaml`."""
    return shown_path(os.path.splitext(study_file)[0] + ENDING)


def read_lock(path: str, problems: list[Problem]) -> Lock | None:
    """Return a lock file; None after noting what is wrong with it, and where there is none."""
    if not os.path.lexists(path):
        return None
    try:
        return Lock(path, LockFile.model_validate(read_yaml(path)))
    except (OSError, ValueError, yaml.YAMLError, ValidationError) as error:
        source = Source(path)
        found = list(source.problems)
        validated(LockFile, Written([Layer(source.data, source, ())], broken=not source.readable), found)
        # What is wrong at all is said once: lines of a file that nobody writes by hand would be noise.
        first = min(found) if found else Problem(source.file, 0, "", str(error).splitlines()[0])
        advice = (
            f"{first.message.rstrip('.')}. Runs obey this file; once it is deleted, `refusal-eval pin` writes a new one"
        )
        problems.append(Problem(first.file, first.line, first.path, advice))
        return None


def pinned(entry: Any, section: str, lock: Lock | None) -> Any:
    """Return a validated entry with its open pin filled from the lock, where the lock has it."""
    for key in (field for named, field in source_fields() if named == section and lock is not None):
        source: Pinned | None = getattr(entry, key, None)
        if lock is not None and source is not None and source.open_pin is not None:
            locked = lock.open_pin(section, source)
            entry = entry.model_copy(update={key: source.model_copy(update={source.open_pin: locked})})
    return entry
