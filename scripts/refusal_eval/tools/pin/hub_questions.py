"""Every pin of a study, asked for one after the other; what fails is told together, not only the first."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refusal_eval.config.lock_file import LockedRepo, LockedUrl, LockFile
from refusal_eval.core.errors import UserError
from refusal_eval.data import hub
from refusal_eval.data.addresses import read_addresses
from refusal_eval.study.row_sources import addresses_of
from refusal_eval.tools.pin.locking import licence_of, lock_file, rewritten
from refusal_eval.tools.pin.pin_needs import Need, wanted_files

HEAD = "main"


@dataclass
class Resolved:
    """What was found out."""

    lock: LockFile  # the lock file that follows
    failures: list[str] = field(default_factory=list)  # what failed, one line each; the lock file is then not whole
    notes: list[str] = field(default_factory=list)  # what is worth knowing and no failure


def resolve(
    needs: Sequence[Need],
    old: LockFile | None,
    upgrade: bool,
    cache: str,
    log: logging.Logger,
    say: Callable[[Need, LockedRepo | LockedUrl], None],
) -> Resolved:
    """Return the lock file of a study, from what the hub and the addresses answer today.

    Open pins keep the commits of the lock file that is there (`old`); with `upgrade` they take today's head again.
    `say` is called with every answer.
    """
    found: dict[str, list[Any]] = {"model": [], "dataset": [], "url": []}
    failures: list[str] = []
    notes: list[str] = []
    reachable = True
    for number, need in enumerate(needs, 1):
        if need.kind != "url" and not reachable:
            continue
        try:
            if need.kind == "url":
                found["url"].append(_url(need, old, upgrade, log))
            else:
                found[need.kind].append(_repository(need, old, upgrade, cache, log, notes))
            say(need, found[need.kind][-1])
        except hub.Unreachable as error:
            reachable = False
            left = sum(one.kind != "url" for one in needs[number:])
            failures.append(f"{error}" + (f" ({left} more repositories were not asked for)" if left else ""))
        except UserError as error:
            failures.append(f"{error} (for {', '.join(need.used_by)})")
    lock = lock_file(found["model"], found["dataset"], found["url"])
    return Resolved(lock, failures + (rewritten(old, lock) if old is not None else []), notes)


def _repository(
    need: Need, old: LockFile | None, upgrade: bool, cache: str, log: logging.Logger, notes: list[str]
) -> LockedRepo:
    """What the lock file says of a repository, after checking that its files are open to the token in use."""
    kept = None if upgrade else _locked_commit(need, old)
    kind: hub.Kind = "model" if need.kind == "model" else "dataset"
    place = hub.Repository(kind, need.name, need.pin or kept or HEAD, cache, log)
    try:
        info = _info(place)
    except UserError as error:
        if kept is not None and "has no commit" in str(error):
            raise UserError(f"{error}; the lock file names it: --upgrade takes what is there today") from error
        raise
    at = hub.Repository(kind, need.name, str(info.sha), cache, log)
    api = hub.library().HfApi()
    if info.gated:
        hub.asked(at, lambda: api.auth_check(at.repo, repo_type=kind))
    commits = hub.asked(at, lambda: api.list_repo_commits(at.repo, repo_type=kind, revision=at.revision))
    files = hub.listed_files(at)
    if kept is not None:
        head = str(_info(hub.Repository(kind, need.name, HEAD, cache, log)).sha)
        if head != kept:
            notes.append(f"{place}: `{HEAD}` is at {head[:12]} now; --upgrade takes it")
    return LockedRepo(
        repo=need.name,
        commit=at.revision,
        date=commits[0].created_at.date(),
        pinned_by=need.pinned_by,
        gated=bool(info.gated),
        licence=licence_of(licence_tag(info), need.licences),
        files={name: file.state for name, file in wanted_files(need, files).items()},
    )


def _info(place: hub.Repository) -> Any:
    api = hub.library().HfApi()
    return hub.asked(
        place, lambda: api.repo_info(place.repo, repo_type=place.kind, revision=place.revision, timeout=30)
    )


def licence_tag(info: Any) -> str | None:
    """Return the licence that a repository's card states, as the hub tags it; `other` with the name it gives."""
    tag = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), None)
    named = getattr(getattr(info, "card_data", None), "license_name", None)
    return f"other ({named})" if tag == "other" and named else tag


def _locked_commit(need: Need, old: LockFile | None) -> str | None:
    """Return the commit that an open pin has in the lock file."""
    if old is None or need.pin is not None:
        return None
    repos = [one for one in (old.models if need.kind == "model" else old.datasets) if one.repo == need.name]
    chosen = [one.commit for one in repos if one.pinned_by == "lock"] or [one.commit for one in repos]
    return chosen[0] if len(chosen) == 1 else None


def _url(need: Need, old: LockFile | None, upgrade: bool, log: logging.Logger) -> LockedUrl:
    found, size = read_addresses(list(addresses_of(need.name).values()), log)
    known: Mapping[str, str] = {one.url: one.sha256 for one in old.urls} if old is not None else {}
    expected = need.pin or (None if upgrade else known.get(need.name))
    if expected is not None and found != expected:
        by = "the entry" if need.pin else "the lock file"
        raise UserError(f"{need.name} holds another file: its SHA-256 is {found}, {by} says {expected}")
    return LockedUrl(url=need.name, sha256=found, size=size, pinned_by=need.pinned_by)
