"""Every pin of a study, asked for one after the other; what fails is reported together, not only the first."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from refusal_eval.config.lock_file import LockedRepo, LockedUrl, LockFile
from refusal_eval.core.errors import UserError
from refusal_eval.data import hub
from refusal_eval.data.addresses import read_addresses
from refusal_eval.study.row_sources import addresses_of
from refusal_eval.tools.pin.locking import licence_of, lock_file, rewritten
from refusal_eval.tools.pin.pin_needs import ALL, Need, wanted_files

HEAD = "main"


@dataclass
class Questions:
    """The hub and the addresses, asked for pins.

    Open pins keep the commits of the lock file that is there (`old`); with `upgrade` they take today's head again.
    """

    old: LockFile
    upgrade: bool
    cache: str
    log: logging.Logger
    failures: list[str] = field(default_factory=list)  # what failed, one line each; the lock file is then not whole
    notes: list[str] = field(default_factory=list)  # what is worth knowing and no failure

    def resolve(self, needs: Sequence[Need], say: Callable[[Need, LockedRepo | LockedUrl], None]) -> LockFile:
        """Return the lock file of a study, from what is answered today; `say` is called with every answer."""
        found: dict[str, list[Any]] = {"model": [], "dataset": [], "url": []}
        reachable = True
        for number, need in enumerate(needs, 1):
            if need.kind != "url" and not reachable:
                continue
            try:
                answer = self._url(need) if need.kind == "url" else self._repository(need)
                found[need.kind].append(answer)
                say(need, answer)
            except hub.Unreachable as error:
                reachable = False
                left = sum(one.kind != "url" for one in needs[number:])
                self.failures.append(f"{error}" + (f" ({left} more repositories were not asked for)" if left else ""))
            except UserError as error:
                self.failures.append(f"{error} (for {', '.join(need.used_by)})")
        lock = lock_file(found["model"], found["dataset"], found["url"])
        self.failures += rewritten(self.old, lock)
        return lock

    def _repository(self, need: Need) -> LockedRepo:
        """What the lock file says of a repository, after checking that its files are open to the token in use."""
        kind: hub.Kind = "model" if need.kind == "model" else "dataset"
        locked = self.old.models if kind == "model" else self.old.datasets
        kept = self._locked_hash(need, [(one.repo, one.commit, one.pinned_by) for one in locked])
        api = hub.library().HfApi()

        def place(revision: str) -> hub.Repository:
            return hub.Repository(kind, need.name, revision, self.cache, self.log)

        def info_of(at: hub.Repository) -> Any:
            return hub.ask_hub(at, lambda: api.repo_info(at.repo, repo_type=kind, revision=at.revision, timeout=30))

        asked = place(need.pin or kept or HEAD)
        try:
            info = info_of(asked)
        except UserError as error:
            if kept is not None and "has no commit" in str(error):
                raise UserError(f"{error}; the lock file names it: --upgrade takes what is there today") from error
            raise
        at = place(str(info.sha))
        if info.gated:
            hub.ask_hub(at, lambda: api.auth_check(at.repo, repo_type=kind))
        commits = hub.ask_hub(at, lambda: api.list_repo_commits(at.repo, repo_type=kind, revision=at.revision))
        files = wanted_files(need, hub.listed_files(at))
        if kept is not None and (head := str(info_of(place(HEAD)).sha)) != kept:
            self.notes.append(f"{asked}: `{HEAD}` is at {head[:12]} now; --upgrade takes it")
        return LockedRepo(
            repo=need.name,
            commit=at.revision,
            date=commits[0].created_at.date(),
            pinned_by=need.pinned_by,
            gated=bool(info.gated),
            licence=licence_of(licence_tag(info), need.licences),
            files={name: file.state for name, file in files.items()},
            whole=ALL in need.wants,
        )

    def _url(self, need: Need) -> LockedUrl:
        found, size = read_addresses(list(addresses_of(need.name).values()), self.log)
        kept = self._locked_hash(need, [(one.url, one.sha256, one.pinned_by) for one in self.old.urls])
        if (expected := need.pin or kept) and found != expected:
            by = "the entry" if need.pin else "the lock file"
            raise UserError(f"{need.name} holds another file: its SHA-256 is {found}, {by} says {expected}")
        return LockedUrl(url=need.name, sha256=found, size=size, pinned_by=need.pinned_by)

    def _locked_hash(self, need: Need, locked: Sequence[tuple[str, str, str]]) -> str | None:
        """Return the hash that an open pin has in the lock file: of several the one that the lock chose."""
        if need.pin is not None or self.upgrade:
            return None
        own = sorted((by != "lock", pin) for name, pin, by in locked if name == need.name)
        return own[0][1] if len(own) == 1 or (own and not own[0][0]) else None


def licence_tag(info: Any) -> str | None:
    """Return the licence that a repository's card states, as the hub tags it; `other` with the name it gives."""
    tag = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), None)
    named = getattr(getattr(info, "card_data", None), "license_name", None)
    return f"other ({named})" if tag == "other" and named else tag
