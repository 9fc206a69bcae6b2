"""A lock file: made of what the hub answered, its text, and what differs between two. Pure functions."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from refusal_eval.config.lock_file import LOCK_VERSION, LockedLicence, LockedRepo, LockedUrl, LockFile
from refusal_eval.core.files import size_text
from refusal_eval.program.text_templates import render_template
from refusal_eval.tools.pin.pin_needs import Need

# What YAML takes for text without quotes, words apart.
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*")
WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
SILENT = ("none stated", "not stated")


def licence_of(hub: str | None, entries: Sequence[str]) -> LockedLicence:
    """Return the licences by the hub and by the entries, and whether they agree.

    Spelling does not count, nor what an entry says in brackets after it: `Apache 2.0 (stated in the text)` is
    `apache-2.0`.
    """
    stated = [entry for entry in entries if not entry.lower().startswith(SILENT)]
    agrees = None if hub is None or not stated else all(_spelt(entry) == _spelt(hub) for entry in stated)
    return LockedLicence(hub=hub, entry=" / ".join(entries) or None, agrees=agrees)


def _spelt(licence: str) -> str:
    return re.sub(r"[\s_]+", "-", licence.split(" (")[0].strip().lower())


def lock_file(models: Iterable[LockedRepo], datasets: Iterable[LockedRepo], urls: Iterable[LockedUrl]) -> LockFile:
    """Return a lock file, sorted. Duplicates, from an entry with a pin and one without, are merged."""
    files = {(one.url, one.sha256): one for one in sorted(urls, key=lambda one: one.pinned_by)}  # `lock` comes last
    return LockFile(
        lock_version=LOCK_VERSION,
        models=_merge(models),
        datasets=_merge(datasets),
        urls=[files[key] for key in sorted(files)],
    )


def _merge(repos: Iterable[LockedRepo]) -> list[LockedRepo]:
    found: dict[tuple[str, str], LockedRepo] = {}
    for one in sorted(repos, key=lambda one: one.pinned_by):
        key = (one.repo.lower(), one.commit)
        if known := found.get(key):
            said = sorted({entry for entry in (known.licence.entry, one.licence.entry) if entry})
            files = dict(sorted((known.files | one.files).items()))
            merged = {"files": files, "licence": licence_of(one.licence.hub, said), "whole": known.whole or one.whole}
            one = one.model_copy(update=merged)
        found[key] = one
    return [found[key] for key in sorted(found)]


def rewritten(old: LockFile, new: LockFile) -> list[str]:
    """Return what cannot be: a commit whose files are not what they were when they were locked."""
    lines = []
    for before, after in ((old.models, new.models), (old.datasets, new.datasets)):
        known = {(one.repo, one.commit): one.files for one in before}
        for one in after:
            files = known.get((one.repo, one.commit), {})
            lines += [
                f"{one.repo} at {one.commit[:12]}: {name} was `{state}` and is `{one.files[name]}`: the "
                "repository was rewritten under the same commit hash, or a mirror differs"
                for name, state in files.items()
                if one.files.get(name, state) != state
            ]
    return lines


def differences(old: LockFile | None, new: LockFile) -> list[str]:
    """Return what a lock file lacks or has otherwise, one line each; what is no longer used is no difference.

    Files of a commit are the same in both, or the repository was `rewritten`.
    """
    if old is None:
        return ["there is no lock file yet"]
    lines = []
    for what, before, after in (("model", old.models, new.models), ("data set", old.datasets, new.datasets)):
        for one in after:
            had = [locked for locked in before if locked.repo == one.repo]
            same = next((locked for locked in had if locked.commit == one.commit), None)
            if same is None:
                was = f"was {had[0].commit[:12]}, is" if had else "is not in the lock file:"
                lines.append(f"{what} {one.repo} {was} {one.commit[:12]} ({one.date})")
            else:
                lines += [f"{what} {one.repo}: {line}" for line in _changes(same, one)]
    for file in new.urls:
        earlier = [locked.sha256 for locked in old.urls if locked.url == file.url]
        if file.sha256 not in earlier:
            was = f"was {earlier[0][:12]}, is" if earlier else "is not in the lock file:"
            lines.append(f"{file.url} {was} {file.sha256[:12]}")
    return lines


def _changes(old: LockedRepo, new: LockedRepo) -> Iterator[str]:
    for name in sorted(set(new.files) - set(old.files)):
        yield f"{name} is not in the lock file"
    if new.whole and not old.holds_all:
        yield "is now locked whole"
    if old.gated != new.gated:
        yield "is gated now" if new.gated else "is no longer gated"
    if old.licence != new.licence:
        was, now = (f"{one.hub or 'none'} (the entry: {one.entry or 'none'})" for one in (old.licence, new.licence))
        yield f"licence was {was}, is {now}"
    if (old.date, old.pinned_by) != (new.date, new.pinned_by):
        yield f"pinned by {old.pinned_by} on {old.date}, now by {new.pinned_by} on {new.date}"


def not_taken(lock: LockFile, needs: Iterable[Need]) -> list[str]:
    """Return the repositories and addresses of a lock file that a study with these needs does not take."""
    names = {("model", one.repo) for one in lock.models} | {("dataset", one.repo) for one in lock.datasets}
    names |= {("url", one.url) for one in lock.urls}
    return sorted({name for _, name in names - {(need.kind, need.name) for need in needs}})


def lock_text(lock: LockFile, study: str) -> str:
    """Return the text of a lock file, sorted, a file a line; `study` is the name of the study's file."""
    filters = {"text": _text, "bytes": lambda repo: size_text(repo_size(repo))}
    return render_template(Path(__file__).with_name("lock_file.yaml.j2"), {"lock": lock, "study": study}, filters)


def repo_size(repo: LockedRepo) -> int:
    return sum(int(state.split()[0]) for state in repo.files.values())


def _text(value: str | bool | None) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    return yaml.safe_dump(value, default_style='"', width=10**9, allow_unicode=True).strip()
