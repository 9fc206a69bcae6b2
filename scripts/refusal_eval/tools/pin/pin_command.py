"""The lock file of a study: the commit, files, sizes and licence of everything that it takes from the hub."""

import logging
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.lock_file import LockedRepo, LockedUrl, LockFile, lock_path, read_lock
from refusal_eval.config.problems import ConfigError, Problem
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import size_text, written_whole
from refusal_eval.data.hub import offline, token_is_set
from refusal_eval.tools.pin.hub_questions import resolve
from refusal_eval.tools.pin.locking import differences, lock_text, repo_size, unused
from refusal_eval.tools.pin.pin_needs import Need, needs_of
from refusal_eval.tools.study_file import DEMO, ROOT, Directory, StudyFile, working_in


def command(
    study: StudyFile = DEMO,
    directory: Directory = None,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Take today's head where entries name no commit.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Ask again and say what differs; write nothing.")] = False,
) -> None:
    """Resolve every repository of a study to a commit, in a lock file that runs obey.

    The lock file lies beside the study, `my_study.lock.yaml`: where an entry of the catalogue names no commit
    (`revision: null`), the lock file's counts, and files are compared with it when they are fetched. Commits that
    entries name are checked: that they exist, and that the token in use may read them. Nothing is downloaded but the
    files behind `url` sources. docs/pins.md has more.

    Exit code: 0 all is well; 1 something failed (then nothing is written), or --check found differences.
    """
    if code := pin(working_in(study, directory), upgrade, check):
        raise typer.Exit(code)


def pin(study_file: Path, upgrade: bool, check: bool) -> int:
    """Write or check the lock file of a study; return the exit code.

    Raises:
        ConfigError: if the study or the lock file is not valid.
        UserError: if the hub may not be asked.
    """
    config = load_study(study_values(str(study_file)), str(study_file), str(ROOT), open_pins=True, use_lock=False)
    path = lock_path(str(study_file))
    problems: list[Problem] = []
    locked = read_lock(path, problems)
    if problems:
        raise ConfigError(problems)
    old = locked.content if locked is not None else None
    needs = needs_of(config)
    if not needs and old is None:
        print(f"{config['study']} takes nothing from the hub or from addresses; it needs no lock file.")
        return 0
    if needs and offline():
        raise UserError("HF_HUB_OFFLINE is set, so nothing can be asked; unset it on a machine with internet")
    token = "with a token" if token_is_set() else "without a token; gated repositories need HF_TOKEN"
    print(f"Asking for {len(needs)} pins of {config['study']} ({token}).")
    log = logging.getLogger("pin")
    log.addHandler(logging.StreamHandler())
    resolved = resolve(needs, old, upgrade, config["cache_dir"], log, say)
    if resolved.failures:
        done = "" if check else f" {path} was not written."
        print(f"\n{len(resolved.failures)} of the pins failed.{done}", file=sys.stderr)
        print("\n".join(f"  - {failure}" for failure in resolved.failures), file=sys.stderr)
        return 1
    say_size(resolved.lock, config["cache_dir"])
    for note in resolved.notes:
        print(f"note: {note}")
    stale = unused(old, resolved.lock) if old is not None else []
    if check:
        return _checked(path, differences(old, resolved.lock), stale)
    _write(path, resolved.lock, old, study_file.name, stale)
    return 0


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
    folder = next(folder for folder in (Path(cache).absolute(), *Path(cache).absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(folder).free
    short = ": TOO LITTLE if nothing is fetched yet" if free < total else ""
    print(f"To fetch: {size_text(total)} in all; {size_text(free)} are free in {cache}{short}.")
    for repo in (*lock.models, *lock.datasets):
        if repo.licence.agrees is False:
            print(f"note: {repo.repo}: the hub says {repo.licence.hub}, the entry says {repo.licence.entry}")


def _checked(path: str, found: Sequence[str], stale: Sequence[str]) -> int:
    for name in stale:
        print(f"note: {name} is in {path}, but no longer used")
    if not found:
        print(f"{path} is what the hub says.")
        return 0
    print(f"{path} differs from what the hub says:", file=sys.stderr)
    print("\n".join(f"  - {line}" for line in found), file=sys.stderr)
    return 1


def _write(path: str, lock: LockFile, old: LockFile | None, study: str, stale: Sequence[str]) -> None:
    text = lock_text(lock, study)
    if Path(path).is_file() and Path(path).read_text(encoding="utf-8") == text:
        print(f"{path} is as it was.")
        return
    with written_whole(path) as handle:
        handle.write(text)
    for line in differences(old, lock) if old is not None else []:
        print(f"changed: {line}")
    for name in stale:
        print(f"removed: {name}, which is no longer used")
    counts = f"model repositories: {len(lock.models)}, data sets: {len(lock.datasets)}, addresses: {len(lock.urls)}"
    print(f"Wrote {path} ({counts}).")
