"""Every pin of a study, asked for one after the other; what fails is told together, not only the first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from refusal_eval.config.lock_file import LockedRepo, LockedUrl, LockFile
from refusal_eval.core.errors import UserError
from refusal_eval.data import hub, network
from refusal_eval.tools.pin.hub_questions import HEAD, head_of, repository_state, url_state
from refusal_eval.tools.pin.locking import lock_file, locked_repo, locked_url, rewritten
from refusal_eval.tools.pin.pin_needs import Need


@dataclass
class Resolved:
    """What was found out.

    Attributes:
        lock: the lock file that follows.
        failures: what failed, one line each; the lock file is then not whole.
        notes: what is worth knowing and no failure.
    """

    lock: LockFile
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def resolve(
    needs: Sequence[Need],
    old: LockFile | None,
    upgrade: bool,
    cache: str,
    log: logging.Logger,
    say: Callable[[Need, LockedRepo | LockedUrl], None],
    wait: float = network.WAIT_SECONDS,
) -> Resolved:
    """Return the lock file of a study, from what the hub and the addresses answer today.

    Args:
        needs: what the study takes.
        old: the lock file that is there, whose commits open pins keep.
        upgrade: whether open pins take today's head again.
        cache: the cache folder, for messages.
        log: takes warnings.
        say: told of every answer.
        wait: seconds before the first of the repeated attempts after a fault of the network.
    """
    repos: dict[str, list[LockedRepo]] = {"model": [], "dataset": []}
    urls: list[LockedUrl] = []
    failures: list[str] = []
    notes: list[str] = []
    reachable = True
    for need in needs:
        if need.kind != "url" and not reachable:
            continue
        try:
            if need.kind == "url":
                urls.append(_url(need, old, upgrade, log, wait))
                say(need, urls[-1])
            else:
                repos[need.kind].append(_repository(need, old, upgrade, cache, log, wait, notes))
                say(need, repos[need.kind][-1])
        except hub.Unreachable as error:
            reachable = False
            left = len([one for one in needs[needs.index(need) + 1 :] if one.kind != "url"])
            failures.append(f"{error}" + (f" ({left} more repositories were not asked for)" if left else ""))
        except UserError as error:
            failures.append(f"{error} (for {', '.join(need.used_by)})")
    lock = lock_file(repos["model"], repos["dataset"], urls)
    return Resolved(lock, failures + (rewritten(old, lock) if old is not None else []), notes)


def _repository(
    need: Need, old: LockFile | None, upgrade: bool, cache: str, log: logging.Logger, wait: float, notes: list[str]
) -> LockedRepo:
    kept = None if upgrade else _locked_commit(need, old)
    revision = need.pin or kept or HEAD
    place = hub.Repository(_kind(need), need.name, revision, cache, log, wait)
    try:
        state = repository_state(place)
    except UserError as error:
        if kept is not None and "has no commit" in str(error):
            raise UserError(f"{error}; the lock file names it: --upgrade takes what is there today") from error
        raise
    if kept is not None:
        head = head_of(hub.Repository(place.kind, place.repo, HEAD, cache, log, wait))
        if head != kept:
            notes.append(f"{place}: `{HEAD}` is at {head[:12]} now; --upgrade takes it")
    return locked_repo(need, state)


def _kind(need: Need) -> hub.Kind:
    return "model" if need.kind == "model" else "dataset"


def _locked_commit(need: Need, old: LockFile | None) -> str | None:
    """Return the commit that an open pin has in the lock file."""
    if old is None or need.pin is not None:
        return None
    repos = [one for one in (old.models if need.kind == "model" else old.datasets) if one.repo == need.name]
    chosen = [one.commit for one in repos if one.pinned_by == "lock"] or [one.commit for one in repos]
    return chosen[0] if len(chosen) == 1 else None


def _url(need: Need, old: LockFile | None, upgrade: bool, log: logging.Logger, wait: float) -> LockedUrl:
    found, size = url_state(need.name, log, wait)
    known: Mapping[str, str] = {one.url: one.sha256 for one in old.urls} if old is not None else {}
    expected = need.pin or (None if upgrade else known.get(need.name))
    if expected is not None and found != expected:
        by = "the entry" if need.pin else "the lock file"
        raise UserError(f"{need.name} holds another file: its SHA-256 is {found}, {by} says {expected}")
    return locked_url(need, found, size)
