"""From what the hub answered to a lock file, and what differs between two. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from refusal_eval.config.lock_file import LOCK_VERSION, LockedLicence, LockedRepo, LockedUrl, LockFile
from refusal_eval.data.locked import file_state
from refusal_eval.tools.pin.hub_questions import RepoState
from refusal_eval.tools.pin.pin_needs import Need, wanted_files

SILENT = ("none stated", "not stated")


def locked_repo(need: Need, state: RepoState) -> LockedRepo:
    """Return what the lock file says about a repository.

    Raises:
        UserError: if a file that the study will fetch is not there.
    """
    return LockedRepo(
        repo=need.name,
        commit=state.commit,
        date=state.date,
        pinned_by=_pinned_by(need),
        gated=state.gated,
        licence=licence_of(state.licence, need.licences),
        files={name: file_state(file) for name, file in wanted_files(need, state.files).items()},
    )


def locked_url(need: Need, sha256: str, size: int) -> LockedUrl:
    """Return what the lock file says about a file at an address."""
    return LockedUrl(url=need.name, sha256=sha256, size=size, pinned_by=_pinned_by(need))


def _pinned_by(need: Need) -> Literal["entry", "lock"]:
    return "lock" if need.pin is None else "entry"


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
    """Return a lock file, sorted. What stands twice, for an entry with a pin and for one without, becomes one."""
    found: dict[tuple[str, str], LockedUrl] = {}
    for one in urls:
        known = found.get((one.url, one.sha256))
        found[one.url, one.sha256] = one if known is None or one.pinned_by == "lock" else known
    return LockFile(
        lock_version=LOCK_VERSION,
        models=_merged(models),
        datasets=_merged(datasets),
        urls=[found[key] for key in sorted(found)],
    )


def _merged(repos: Iterable[LockedRepo]) -> list[LockedRepo]:
    found: dict[tuple[str, str], LockedRepo] = {}
    for one in repos:
        key = (one.repo.lower(), one.commit)
        known = found.get(key)
        if known is not None:
            said = [entry for entry in (known.licence.entry, one.licence.entry) if entry]
            one = one.model_copy(
                update={
                    "pinned_by": "lock" if "lock" in (one.pinned_by, known.pinned_by) else "entry",
                    "files": dict(sorted((known.files | one.files).items())),
                    "licence": licence_of(one.licence.hub, sorted(set(said))),
                }
            )
        found[key] = one
    return [found[key] for key in sorted(found)]


def same_in_both(old: LockFile, new: LockFile) -> Iterator[tuple[LockedRepo, LockedRepo]]:
    """Yield the repositories that two lock files have at the same commit."""
    for before, after in ((old.models, new.models), (old.datasets, new.datasets)):
        known = {(one.repo, one.commit): one for one in before}
        yield from ((known[one.repo, one.commit], one) for one in after if (one.repo, one.commit) in known)


def rewritten(old: LockFile, new: LockFile) -> list[str]:
    """Return what cannot be: a commit whose files are not what they were when they were locked."""
    told = []
    for before, after in same_in_both(old, new):
        changed = [name for name, state in before.files.items() if after.files.get(name, state) != state]
        told += [
            f"{after.repo} at {after.commit[:12]}: {name} was `{before.files[name]}` and is `{after.files[name]}`: the "
            "repository was rewritten under the same commit hash, or a mirror differs"
            for name in changed
        ]
    return told


def differences(old: LockFile | None, new: LockFile) -> list[str]:
    """Return what a lock file lacks or has otherwise, one line each; what is no longer used is no difference."""
    if old is None:
        return ["there is no lock file yet"]
    told = []
    for what, before, after in (("model", old.models, new.models), ("data set", old.datasets, new.datasets)):
        for one in after:
            had = [locked for locked in before if locked.repo == one.repo]
            same = next((locked for locked in had if locked.commit == one.commit), None)
            if same is None:
                was = f"was {had[0].commit[:12]}, is" if had else "is not in the lock file:"
                told.append(f"{what} {one.repo} {was} {one.commit[:12]} ({one.date})")
            else:
                told += [f"{what} {one.repo}: {line}" for line in _changed(same, one)]
    for file in new.urls:
        earlier = [locked.sha256 for locked in old.urls if locked.url == file.url]
        if file.sha256 not in earlier:
            was = f"was {earlier[0][:12]}, is" if earlier else "is not in the lock file:"
            told.append(f"{file.url} {was} {file.sha256[:12]}")
    return told


def _changed(old: LockedRepo, new: LockedRepo) -> Iterator[str]:
    for name in sorted(set(old.files) | set(new.files)):
        if name not in old.files:
            yield f"{name} is not in the lock file"
        elif name in new.files and old.files[name] != new.files[name]:
            yield f"{name} was `{old.files[name]}` and is `{new.files[name]}`"
    if old.gated != new.gated:
        yield "is gated now" if new.gated else "is no longer gated"
    if old.licence != new.licence:
        yield f"licence was {_said(old.licence)}, is {_said(new.licence)}"
    if (old.date, old.pinned_by) != (new.date, new.pinned_by):
        yield f"pinned by {old.pinned_by} on {old.date}, now by {new.pinned_by} on {new.date}"


def _said(licence: LockedLicence) -> str:
    return f"{licence.hub or 'none'} (the entry: {licence.entry or 'none'})"


def unused(old: LockFile, new: LockFile) -> list[str]:
    """Return what a lock file has that the study no longer uses."""
    kept = {one.repo for one in (*new.models, *new.datasets)} | {one.url for one in new.urls}
    had = [one.repo for one in (*old.models, *old.datasets)] + [one.url for one in old.urls]
    return sorted({name for name in had if name not in kept})


def not_taken(lock: LockFile, needs: Iterable[Need]) -> list[str]:
    """Return the repositories and addresses of a lock file that a study with these needs does not take."""
    taken = {(need.kind, need.name) for need in needs}
    had = [("model", one.repo) for one in lock.models] + [("dataset", one.repo) for one in lock.datasets]
    had += [("url", one.url) for one in lock.urls]
    return sorted({name for kind, name in had if (kind, name) not in taken})
