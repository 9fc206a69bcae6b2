"""A lock file as text: sorted, one file a line, so that a change of it reads well in a diff."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from refusal_eval.config.lock_file import LockedRepo, LockedUrl, LockFile
from refusal_eval.core.files import size_text

# What YAML takes for text without quotes, words apart.
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*")
WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def lock_text(lock: LockFile, study: str) -> str:
    """Return the text of a lock file; `study` is the name of the study's file."""
    head = [
        f"# What {study} runs on. Written by `refusal-eval pin {study}`; runs obey it. Keep it beside the study file.",
        "# --check asks again and tells what differs; --upgrade takes the newest of what entries leave open.",
        f"lock_version: {lock.lock_version}",
    ]
    lines = [*head, *_repos("models", lock.models), *_repos("datasets", lock.datasets), *_urls(lock.urls)]
    return "\n".join(lines) + "\n"


def repo_size(repo: LockedRepo) -> int:
    """Return the bytes that are fetched of a repository."""
    return sum(int(state.split()[0]) for state in repo.files.values())


def _repos(section: str, repos: list[LockedRepo]) -> Iterator[str]:
    if repos:
        yield f"\n{section}:"
    for repo in repos:
        licence = repo.licence
        yield f"  - repo: {_text(repo.repo)}"
        yield f'    commit: "{repo.commit}"'  # in quotes: digits alone would be a number
        yield f"    date: {repo.date}"
        yield f"    pinned_by: {repo.pinned_by}"
        yield f"    gated: {_word(repo.gated)}"
        said = f"hub: {_text(licence.hub)}, entry: {_text(licence.entry)}, agrees: {_word(licence.agrees)}"
        yield f"    licence: {{{said}}}"
        yield f"    files:  # {len(repo.files)}, {size_text(repo_size(repo))}"
        yield from (f"      {_text(name)}: {state}" for name, state in repo.files.items())


def _urls(urls: list[LockedUrl]) -> Iterator[str]:
    if urls:
        yield "\nurls:"
    for one in urls:
        yield f"  - url: {_text(one.url)}"
        yield f'    sha256: "{one.sha256}"'
        yield f"    size: {one.size}"
        yield f"    pinned_by: {one.pinned_by}"


def _word(value: bool | None) -> str:
    return "null" if value is None else str(value).lower()


def _text(value: str | None) -> str:
    if value is None:
        return "null"
    if PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    return yaml.safe_dump(value, default_style='"', width=10**9, allow_unicode=True).strip()
