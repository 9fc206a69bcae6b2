"""The lock file of a study, `<study>.lock.yaml` beside it: the commit of every repository, and what its files hold.

`refusal-eval pin` writes it (refusal_eval/tools/pin/). Here it is read, checked, and put into the entries whose pin is
open.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from refusal_eval.config.catalogue import Catalogue
from refusal_eval.config.explain import validated
from refusal_eval.config.problems import Problem
from refusal_eval.config.shapes import CommitHash, Day, Entry, FileName, RepoId, Sha256, Text, Whole
from refusal_eval.config.source_entries import PINS, open_pin
from refusal_eval.config.yaml_source import Layer, Source, Written, readable_path
from refusal_eval.core.yaml_files import read_yaml

LOCK_VERSION = 1
ENDING = ".lock.yaml"
# What of an entry may need a pin, by section of the catalogue, and the list of the lock that pins repositories of it.
PINNED = {"engines": "weights", "models": "lora", "splits": "source", "gold": "source"}
LISTS = {"engines": "models", "models": "models", "splits": "datasets", "gold": "datasets"}
WORDS = {"revision": "commit hash", "sha256": "SHA-256"}
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


class LockedUrl(Entry):
    """A file at an address."""

    url: Text = Field(description="The address.")
    sha256: Sha256 = Field(description="SHA-256 of the file.")
    size: Whole = Field(ge=0, description="Bytes.")
    pinned_by: Literal["entry", "lock"] = Field(description="As for repositories.")


class LockFile(Entry):
    """A lock file."""

    lock_version: Literal[1] = Field(description="Version of this format.")
    models: list[LockedRepo] = Field([], description="Weights and adapters.")
    datasets: list[LockedRepo] = Field([], description="Data sets.")
    urls: list[LockedUrl] = Field([], description="Files at addresses.")

    @model_validator(mode="after")
    def _one_answer_each(self) -> LockFile:
        for repos in (self.models, self.datasets):
            _refuse_twice([(locked.repo, locked.commit, locked.pinned_by) for locked in repos])
        _refuse_twice([(locked.url, locked.sha256, locked.pinned_by) for locked in self.urls])
        return self


def _refuse_twice(pins: Sequence[tuple[str, str, str]]) -> None:
    for name, pin, _ in pins:
        if len([one for one in pins if one[:2] == (name, pin)]) > 1:
            raise ValueError(f"`{name}` stands twice with {pin}")
        if len([one for one in pins if one[0] == name and one[2] == "lock"]) > 1:
            raise ValueError(f"`{name}` stands twice with `pinned_by: lock`")


@dataclass(frozen=True)
class Lock:
    """A lock file that was read: its path, and what it holds."""

    path: str
    content: LockFile

    def pins(self, section: str, source: Mapping[str, Any]) -> list[str]:
        """Return the hashes that the lock has for a source of a section; one that is `pinned_by: lock` comes first."""
        if source["kind"] == "url":
            found = [(one.pinned_by, one.sha256) for one in self.content.urls if one.url == source["url"]]
        else:
            found = [(one.pinned_by, one.commit) for one in self._repos(section) if one.repo == source["repo"]]
        return [pin for _, pin in sorted(found, key=lambda one: one[0] != "lock")]

    def open_pin(self, section: str, source: Mapping[str, Any]) -> str | None:
        """Return the hash that an open pin takes; None if the lock does not tell."""
        pins = self.pins(section, source)
        return pins[0] if len(pins) == 1 or (pins and self._by_lock(section, source)) else None

    def lacks(self, section: str, source: Mapping[str, Any]) -> str:
        """Return why an open pin takes no hash from the lock, with the key under which it would stand."""
        name, key = (source["url"], "urls") if source["kind"] == "url" else (source["repo"], LISTS[section])
        pins = self.pins(section, source)
        if not pins:
            return f"{self.path} has no `{name}` under `{key}`"
        return f"{self.path} has {len(pins)} of `{name}` under `{key}`, none of them with `pinned_by: lock`"

    def lists(self, section: str, source: Mapping[str, Any]) -> bool:
        """Tell whether the one `file` that a source takes is among the locked files of its repository."""
        commit = source["revision"] or self.open_pin(section, source)
        at = [one.files for one in self._repos(section) if (one.repo, one.commit) == (source["repo"], commit)]
        return not at or source["file"] in at[0]

    def place(self, section: str, source: Mapping[str, Any]) -> str:
        """Return `file:line` of what the lock has for a source."""
        if source["kind"] == "url":
            path = ("urls", [one.url for one in self.content.urls].index(source["url"]), "sha256")
        else:
            repos = [one.repo for one in self._repos(section)]
            path = (LISTS[section], repos.index(source["repo"]), "commit")
        found = Source(self.path).problem(path, "")
        return f"{found.file}:{found.line}"

    def _repos(self, section: str) -> list[LockedRepo]:
        return self.content.models if LISTS[section] == "models" else self.content.datasets

    def _by_lock(self, section: str, source: Mapping[str, Any]) -> bool:
        if source["kind"] == "url":
            return any(one.url == source["url"] and one.pinned_by == "lock" for one in self.content.urls)
        return any(one.repo == source["repo"] and one.pinned_by == "lock" for one in self._repos(section))


def lock_path(study_file: str) -> str:
    """Return where the lock file of a study lies: beside it, `my_study.lock.yaml`."""
    return readable_path(os.path.splitext(study_file)[0] + ENDING)


def read_lock(path: str, problems: list[Problem]) -> Lock | None:
    """Return a lock file; None after noting what is wrong with it, and where there is none."""
    if not os.path.lexists(path):
        return None
    try:
        return Lock(path, LockFile.model_validate(read_yaml(path)))
    except (OSError, ValueError, yaml.YAMLError, ValidationError) as error:
        source, found = Source(path), []
        found += source.problems
        validated(LockFile, Written([Layer(source.data, source, ())], broken=not source.readable), found)
        # What is wrong at all is told once: lines of a file that nobody writes by hand would be noise.
        first = min(found) if found else Problem(source.file, 0, "", str(error).splitlines()[0])
        advice = (
            f"{first.message.rstrip('.')}. Runs obey this file; once it is deleted, `refusal-eval pin` writes a new one"
        )
        problems.append(Problem(first.file, first.line, first.path, advice))
        return None


def check_pins(
    study: Written,
    catalogue: Catalogue,
    used: Mapping[str, Sequence[str]],
    lock: Lock | None,
    open_pins: bool,
    problems: list[Problem],
) -> None:
    """Note each pin that is open and that the lock does not fill, and each that differs from the lock's.

    Args:
        study: the study.
        catalogue: the catalogue.
        used: names of the entries in use, by section.
        lock: the study's lock file.
        open_pins: whether pins may stay open.
        problems: takes the mistakes.
    """
    command = f"`refusal-eval pin {study.layers[-1].source.file}`"
    allowed = study.get("allow")
    for section, key in PINNED.items():
        for name in dict.fromkeys(used[section]):
            entry, written = catalogue.valid[section].get(name), catalogue.written[section][name]
            off = entry is not None and not getattr(entry, "enabled", True)
            if off and not (isinstance(allowed, list) and name in allowed):
                continue  # told elsewhere
            source = _source_of(entry, key)
            if source is None or source["kind"] not in PINS:
                continue
            pin = PINS[source["kind"]]
            message = _wrong_with(source, section, lock, command, open_pins)
            if message is not None:
                problems.append(written.problem((key, pin), message))
            elif lock is not None and source.get("file") and not lock.lists(section, source):
                locked_at = lock.place(section, source)
                message = f"`{source['file']}` is not among the files that {locked_at} locks: run {command}"
                problems.append(written.problem((key, "file"), message))


def _wrong_with(
    source: Mapping[str, Any], section: str, lock: Lock | None, command: str, open_pins: bool
) -> str | None:
    pin = PINS[source["kind"]]
    if open_pin(source) is not None:
        if open_pins or (lock is not None and lock.open_pin(section, source) is not None):
            return None
        lacks = f" ({lock.lacks(section, source)})" if lock is not None else ""
        return (
            f"the {WORDS[pin]} is not known yet{lacks}, and a study runs only on what is pinned: run {command}, which "
            "asks for it and writes it into the study's lock file"
        )
    pins = lock.pins(section, source) if lock is not None else []
    if lock is None or not pins or source[pin] in pins:
        return None
    return (
        f"is {source[pin]}, but {lock.place(section, source)} has {' and '.join(pins)}: run {command} to lock what the "
        f"entry says, or write what the lock says into the entry"
    )


def pinned(entry: Any, section: str, lock: Lock | None) -> Any:
    """Return a validated entry with its open pin filled from the lock, where the lock has it."""
    key = PINNED.get(section)
    source = _source_of(entry, key) if key is not None else None
    pin = open_pin(source) if source is not None else None
    if lock is None or key is None or source is None or pin is None:
        return entry
    locked = lock.open_pin(section, source)
    return entry.model_copy(update={key: getattr(entry, key).model_copy(update={pin: locked})})


def _source_of(entry: Any, key: str) -> dict[str, Any] | None:
    source = getattr(entry, key, None)
    return source.model_dump() if source is not None else None
