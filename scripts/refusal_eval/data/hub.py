"""Repositories of the Hugging Face hub at a locked commit: what they hold, and a checked local copy.

The environment variables HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE have their usual meaning. `load_dataset(repo,
revision=...)` would ignore the revision when offline (measured); a snapshot of a commit hash obeys it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from refusal_eval.data import network
from refusal_eval.errors import UserError
from refusal_eval.files import sha256_of_file

Result = TypeVar("Result")
FETCH_ONLINE = "fetch it once on a machine with internet"


@dataclass(frozen=True)
class Repository:
    """A repository at a commit, and where its copy goes."""

    kind: Literal["dataset", "model"]
    repo: str
    revision: str
    cache: str
    log: logging.Logger
    wait: float = network.WAIT_SECONDS

    @property
    def page(self) -> str:
        """The address of the repository's page; of a mirror's address without user and password."""
        endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        endpoint = re.sub(r"//[^/]*@", "//", endpoint)
        return f"{endpoint}/{'datasets/' if self.kind == 'dataset' else ''}{self.repo}"

    def __str__(self) -> str:
        return f"{'data set' if self.kind == 'dataset' else 'model'} {self.repo} at {self.revision[:12]}"


@dataclass(frozen=True)
class RemoteFile:
    """What the hub lists of a file: its size in bytes, and the SHA-256 of large files or git's hash of small ones."""

    size: int
    sha256: str | None
    git: str | None = None


def list_files(place: Repository) -> dict[str, RemoteFile] | None:
    """Return the files of a repository by name, or None when HF_HUB_OFFLINE forbids to ask.

    Raises:
        UserError: if the hub can't be reached, or the repository or commit does not exist or is closed to this user.
    """
    hub = _library()
    if hub.constants.HF_HUB_OFFLINE:
        return None

    def ask() -> dict[str, RemoteFile]:
        # This one fails at once when there is no network; the listing would try for half a minute, each time.
        hub.HfApi().repo_info(place.repo, repo_type=place.kind, revision=place.revision, timeout=30)
        tree = hub.HfApi().list_repo_tree(place.repo, repo_type=place.kind, revision=place.revision, recursive=True)
        files = (item for item in tree if isinstance(item, hub.hf_api.RepoFile))
        return {item.path: RemoteFile(item.size, item.lfs.sha256 if item.lfs else None) for item in files}

    return _asked(place, ask)


def snapshot(place: Repository, names: Sequence[str] | None, files: dict[str, RemoteFile] | None) -> Path:
    """Return the folder of a repository's local copy, downloaded if need be, and checked.

    Args:
        place: the repository.
        names: the files that are wanted; None for all.
        files: what `list_files` returned; None when offline (then the copy must be there already).

    Raises:
        UserError: as `list_files`; and if the disk is too small, the cache lacks files when offline, a file is damaged.
    """
    hub = _library()
    cache = str(Path(place.cache, "hub"))
    arguments: dict[str, Any] = {"repo_type": place.kind, "revision": place.revision, "cache_dir": cache}
    arguments["allow_patterns"] = None if names is None else [_literal(name) for name in names]
    if files is not None:
        wanted = {name: file for name, file in files.items() if names is None or name in set(names)}
        _check_disk(place, wanted)
    folder = Path(_asked(place, lambda: hub.snapshot_download(place.repo, **arguments)))
    if files is not None:
        _check_copy(place, folder, wanted)
    return folder


def _library() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import huggingface_hub
    import huggingface_hub.constants
    import huggingface_hub.errors
    import huggingface_hub.hf_api

    return huggingface_hub


def _asked(place: Repository, action: Callable[[], Result]) -> Result:
    """Return what `action` returns, with faults of the network tried again and every error told in plain words."""
    try:
        return network.with_retries(action, place.log, wait=place.wait)
    except UserError:
        raise
    except Exception as error:
        raise _told(place, error) or error from error


def _told(place: Repository, error: Exception) -> UserError | None:
    """Return the error in the user's words, or None for one that we do not know."""
    names = {kind.__name__ for cause in network.causes(error) for kind in type(cause).__mro__}
    # GatedRepoError is a RepositoryNotFoundError, so it comes first.
    if "GatedRepoError" in names:
        token = (
            "the token in HF_TOKEN has no access yet"
            if os.environ.get("HF_TOKEN")
            else "then set HF_TOKEN to a token of that account"
        )
        return UserError(f"{place} is gated: ask for access at {place.page} while signed in; {token}")
    if "RepositoryNotFoundError" in names:
        return UserError(
            f"{place}: there is no such repository, or it is private (then set HF_TOKEN); looked at {place.page}"
        )
    if "RevisionNotFoundError" in names:
        return UserError(
            f"{place}: the repository has no commit {place.revision}; its history is at {place.page}/commits/main"
        )
    if "OfflineModeIsEnabled" in names or ("LocalEntryNotFoundError" in names and _library().constants.HF_HUB_OFFLINE):
        lacking = f"not, or not completely, in {Path(place.cache, 'hub')}"
        return UserError(f"{place} is {lacking}, and HF_HUB_OFFLINE is set: {FETCH_ONLINE}")
    if network.may_pass(error) or "LocalEntryNotFoundError" in names:
        reason = network.first_line(list(network.causes(error))[-1])
        return UserError(
            f"{place}: cannot reach {place.page} ({reason}). Is there internet here, and is HF_ENDPOINT right? "
            "HF_HUB_OFFLINE=1 uses what is cached"
        )
    if "HfHubHTTPError" in names:
        return UserError(f"{place}: the hub refused: {network.first_line(error)}; see {place.page}")
    return None


def _check_disk(place: Repository, wanted: dict[str, RemoteFile]) -> None:
    folder = Path(place.cache, "hub", f"{place.kind}s--{place.repo.replace('/', '--')}", "snapshots", place.revision)
    missing = [file.size for name, file in wanted.items() if not (folder / name).exists()]
    Path(place.cache).mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(place.cache).free
    if missing:
        place.log.info("%s: downloading %d files, %s", place, len(missing), size_text(sum(missing)))
    need_disk(sum(missing), free, place.cache, str(place))


def need_disk(wanted: int, free: int, folder: str, what: str) -> None:
    """Check that `wanted` bytes (and 5 % more) fit into `free` bytes.

    Raises:
        UserError: if they do not.
    """
    if wanted * 1.05 > free:
        raise UserError(
            f"{what}: needs {size_text(wanted)}, {size_text(free)} are free in {folder}; set cache_dir to a larger disk"
        )


def size_text(size: int) -> str:
    """Return a number of bytes as people read it: 268 MB."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def _check_copy(place: Repository, folder: Path, wanted: dict[str, RemoteFile]) -> None:
    for name, file in sorted(wanted.items()):
        path = folder / name
        found = path.stat().st_size if path.exists() else None
        damaged = found != file.size or (file.sha256 is not None and sha256_of_file(path) != file.sha256)
        if damaged:
            if path.exists():
                path.resolve().unlink()  # the blob behind the link: the next attempt downloads it again
                path.unlink(missing_ok=True)
            raise UserError(
                f"{place}: {name} came damaged (not what the hub lists) and was removed; run again to fetch it anew"
            )


def _literal(name: str) -> str:
    """Return a pattern that matches this file name only."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
