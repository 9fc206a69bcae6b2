"""The lock file of a study: the commit, files, sizes and licence of everything that it takes from the hub."""

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.lock_file import LOCK_VERSION, LockedRepo, LockedUrl, LockFile, lock_path, read_lock
from refusal_eval.config.problems import ConfigError, Problem
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import size_text, write_text
from refusal_eval.data.hub import offline, token_is_set
from refusal_eval.program.study_file import DEMO, ROOT, Directory, StudyFile, working_in
from refusal_eval.tools.pin.hub_questions import Questions
from refusal_eval.tools.pin.locking import differences, lock_text, not_taken, repo_size
from refusal_eval.tools.pin.pin_needs import Need, needs_of
from refusal_eval.tools.plan.disk_use import read_free


def command(
    study: StudyFile = DEMO,
    directory: Directory = None,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Take today's head where entries name no commit.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Ask again and say what differs; write nothing.")] = False,
) -> None:
    """Resolve every repository of a study to a commit, in a lock file that runs obey.

    The lock file is next to the study, `my_study.lock.yaml`. If an entry of the catalogue names no commit (`revision:
    null`), the lock file's counts; fetched files are compared with it. Commits that entries name must exist, and your
    token must be able to read them. Only files of `url` sources are downloaded. docs/how-to/pins.md says more.

    Exit code: 0 all is well; 1 something failed (then nothing is written), or --check found differences.
    """
    if not pin(working_in(study, directory), upgrade, check):
        raise typer.Exit(1)


def pin(study_file: Path, upgrade: bool, check: bool) -> bool:
    """Write or check the lock file of a study; return whether all is well.

    Raises:
        ConfigError: if the study or the lock file is not valid.
        UserError: if the hub may not be used.
    """
    config = load_study(study_values(str(study_file)), str(study_file), str(ROOT), open_pins=True, use_lock=False)
    path = lock_path(str(study_file))
    problems: list[Problem] = []
    locked = read_lock(path, problems)
    if problems:
        raise ConfigError(problems)
    needs, old = needs_of(config), locked.content if locked is not None else None
    if not needs and old is None:
        print(f"{config['study']} takes nothing from the hub or from addresses; it needs no lock file.")
        return True
    if needs and offline():
        raise UserError("HF_HUB_OFFLINE is set, so nothing can be asked; unset it on a machine with internet")
    token = "with a token" if token_is_set() else "without a token; gated repositories need HF_TOKEN"
    print(f"Asking for {len(needs)} pins of {config['study']} ({token}).")
    log = logging.getLogger("pin")
    log.addHandler(logging.StreamHandler())
    asked = Questions(old or LockFile(lock_version=LOCK_VERSION), upgrade, config["cache_dir"], log)
    lock = asked.resolve(needs, say)
    if asked.failures:
        done = "" if check else f" {path} was not written."
        _list(f"\n{len(asked.failures)} of the pins failed.{done}", asked.failures)
        return False
    say_size(lock, config["cache_dir"])
    for note in asked.notes:
        print(f"note: {note}")
    stale, changed = not_taken(asked.old, needs), differences(old, lock)
    if check:
        for name in stale:
            print(f"note: {name} is in {path}, but no longer used")
        if changed:
            _list(f"{path} differs from what the hub says:", changed)
        else:
            print(f"{path} is what the hub says.")
        return not changed
    text = lock_text(lock, study_file.name)
    if Path(path).is_file() and Path(path).read_text(encoding="utf-8") == text:
        print(f"{path} is as it was.")
        return True
    write_text(path, text)
    for line in changed if old is not None else []:
        print(f"changed: {line}")
    for name in stale:
        print(f"removed: {name}, which is no longer used")
    counts = f"model repositories: {len(lock.models)}, data sets: {len(lock.datasets)}, addresses: {len(lock.urls)}"
    print(f"Wrote {path} ({counts}).")
    return True


def say(need: Need, found: LockedRepo | LockedUrl) -> None:
    """Print one answer."""
    opened = " (the entry leaves it open)" if need.pin is None else ""
    if isinstance(found, LockedUrl):
        print(f"  {found.sha256[:12]}  {size_text(found.size):>8}  {need}{opened}")
        return
    licence = found.licence.hub or "no licence stated"
    gated = ", gated" if found.gated else ""
    size = size_text(repo_size(found))
    print(f"  {found.commit[:12]}  {size:>8}  {need}, {found.date}, {licence}{gated}{opened}")


def say_size(lock: LockFile, cache: str) -> None:
    """Print what there is to fetch, and where licences differ."""
    total = sum(repo_size(repo) for repo in (*lock.models, *lock.datasets)) + sum(url.size for url in lock.urls)
    free = read_free(cache)
    short = ": TOO LITTLE if nothing is fetched yet" if free < total else ""
    print(f"To fetch: {size_text(total)} in all; {size_text(free)} are free in {cache}{short}.")
    for repo in (*lock.models, *lock.datasets):
        if repo.licence.agrees is False:
            print(f"note: {repo.repo}: the hub says {repo.licence.hub}, the entry says {repo.licence.entry}")


def _list(heading: str, lines: list[str]) -> None:
    print("\n".join([heading, *(f"  - {line}" for line in lines)]), file=sys.stderr)
