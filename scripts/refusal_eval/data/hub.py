"""Repositories of the Hugging Face hub at a locked commit: what they hold, and a checked local copy.

The environment variables HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE have their usual meaning. A lock file's list of files
overrides the hub's of today: a copy that matches it needs no network, and downloads must match it. `load_dataset(repo,
revision=...)` would ignore the revision when offline (measured), a snapshot not.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import inner_name, sha256_of_file, size_text
from refusal_eval.core.yaml_files import read_yaml
from refusal_eval.data import network, resume

Kind = Literal["dataset", "model"]
T = TypeVar("T")
FETCH_ONLINE = "fetch it once on a machine with internet"


class Unreachable(UserError):
    """The hub cannot be reached, or may not be asked; another repository would fail alike."""


@dataclass(frozen=True)
class RemoteFile:
    """What the hub lists of a file: its size in bytes, and the SHA-256 of large files or git's hash of small ones.

    Raises:
        ValueError: for hashes that are none; the cache names its files by them.
    """

    size: int
    sha256: str | None
    git: str | None = None

    def __post_init__(self) -> None:
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"{self.sha256!r} is no SHA-256")
        if self.git is not None and not re.fullmatch("[0-9a-f]{40}", self.git):
            raise ValueError(f"{self.git!r} is no hash of git's")

    @classmethod
    def locked(cls, state: str) -> RemoteFile:
        """Return what a line of the lock file says: `727 git:<40 hex digits>` or `5000 sha256:<64 hex digits>`."""
        size, digest = state.split()
        kind, value = digest.split(":")
        return cls(int(size), **({"sha256": value} if kind == "sha256" else {"sha256": None, "git": value}))

    @property
    def state(self) -> str:
        """The line of the lock file.

        Raises:
            ValueError: if no hash of it is known.
        """
        if not (self.sha256 or self.git):
            raise ValueError("a file without a hash cannot be locked")
        return f"{self.size} sha256:{self.sha256}" if self.sha256 else f"{self.size} git:{self.git}"


def locked_files(config: Mapping[str, Any], kind: Kind, source: Mapping[str, Any]) -> dict[str, RemoteFile] | None:
    """Return the locked state of a source's files, by name or address; None if the lock file does not list them.

    The lock file (`lock` of the config) was validated when the study was loaded; here its lists of files are read only.

    Raises:
        UserError: if the lock file is gone or was damaged since the study was loaded.
    """
    path = config.get("lock")
    if not path or not {"repo", "url"} & set(source):
        return None
    try:
        if "repo" not in source:
            wanted = source["url"], source.get("sha256")
            urls = [one for one in read_yaml(path).get("urls") or [] if (one["url"], one["sha256"]) == wanted]
            return {one["url"]: RemoteFile(int(one["size"]), one["sha256"]) for one in urls} or None
        for one in read_yaml(path).get(f"{kind}s") or []:
            if (one["repo"], one["commit"]) == (source["repo"], source["revision"]):
                return {inner_name(name): RemoteFile.locked(state) for name, state in one["files"].items()}
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"the lock file {path} changed while the study ran and cannot be read: {error}") from error
    return None


@dataclass(frozen=True)
class Repository:
    """A repository at a commit, and where its copy goes; `locked` is what the study's lock file lists of it."""

    kind: Kind
    repo: str
    revision: str
    cache: str
    log: logging.Logger
    locked: Mapping[str, RemoteFile] | None = None

    @property
    def folder(self) -> Path:
        """Its folder in the cache, for all commits."""
        return Path(self.cache, "hub", f"{self.kind}s--{self.repo.replace('/', '--')}")

    @property
    def snapshot(self) -> Path:
        """The folder of this commit in the cache."""
        return self.folder / "snapshots" / self.revision

    @property
    def page(self) -> str:
        """The address of the repository's page; of a mirror's address without user and password."""
        endpoint = network.without_secrets(os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/"))
        return f"{endpoint}/{'datasets/' if self.kind == 'dataset' else ''}{self.repo}"

    def __str__(self) -> str:
        return f"{'data set' if self.kind == 'dataset' else 'model'} {self.repo} at {self.revision[:12]}"


def list_files(place: Repository) -> dict[str, RemoteFile] | None:
    """Return the files of a repository by name, by the lock file or by the hub; None if HF_HUB_OFFLINE forbids to ask.

    Raises:
        UserError: if the hub can't be reached, the repository or commit does not exist or is closed to this user, or
            what the hub lists can be no file.
    """
    if place.locked is not None:
        return dict(place.locked)
    return None if offline() else listed_files(place)


def listed_files(place: Repository) -> dict[str, RemoteFile]:
    """Return the files that the hub lists for a commit, by name.

    Raises:
        UserError: as `list_files`.
    """
    hub = library()

    def ask() -> list[Any]:
        # This one fails at once when there is no network; the listing would try for half a minute, each time.
        hub.HfApi().repo_info(place.repo, repo_type=place.kind, revision=place.revision, timeout=30)
        tree = hub.HfApi().list_repo_tree(place.repo, repo_type=place.kind, revision=place.revision, recursive=True)
        return [item for item in tree if isinstance(item, hub.hf_api.RepoFile)]

    listed = {}
    for item in ask_hub(place, ask):
        # Git's hash of a large file is that of a pointer to it.
        hashes = (item.lfs.sha256, None) if item.lfs else (None, item.blob_id)
        try:
            listed[inner_name(item.path)] = RemoteFile(item.size, *hashes)
        except ValueError as error:
            raise UserError(f"{place}: {place.page} lists `{item.path}`, but {error}") from error
    return listed


def snapshot(place: Repository, names: Sequence[str] | None, files: Mapping[str, RemoteFile] | None) -> Path:
    """Return the folder of a repository's local copy, downloaded if need be, and checked.

    Large files that came in part are continued where they ended.

    Args:
        names: the files that are wanted; None for all.
        files: what `list_files` returned; None when offline (then the copy must be there already).

    Raises:
        UserError: as `list_files`; and if the disk is too small, the cache lacks files when offline, a file is damaged,
            or the hub lists other files than the lock file.
    """
    hub = library()
    arguments: dict[str, Any] = {"repo_type": place.kind, "revision": place.revision}
    arguments["cache_dir"] = str(Path(place.cache, "hub"))
    arguments["allow_patterns"] = None if names is None else [glob.escape(name) for name in names]
    if files is None:
        return Path(ask_hub(place, lambda: hub.snapshot_download(place.repo, **arguments)))
    wanted = dict(files) if names is None else {name: files[name] for name in names if name in files}
    unlisted = sorted(set(names or ()) - set(wanted))
    if place.locked is not None and unlisted:
        raise UserError(f"{place}: the lock file does not list {unlisted[0]}; run `refusal-eval pin` again")
    if place.locked is None or not all(_has_size(place.snapshot / name, file) for name, file in wanted.items()):
        if place.locked is not None:
            _compare_with_lock(place, wanted)
        _check_disk(place, wanted)
        if not offline():
            ask_hub(place, lambda: resume.fetch_large_files(place, wanted, hub))
        ask_hub(place, lambda: hub.snapshot_download(place.repo, **arguments))
    _check_copy(place, place.snapshot, wanted)
    resume.remove_partials(place, wanted.values())
    return place.snapshot


def names_below(folder: Path) -> list[str]:
    """Return the relative names of all files below a folder, sorted."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def offline(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether HF_HUB_OFFLINE forbids to ask the hub; its client takes TRANSFORMERS_OFFLINE for it, too."""
    said = variables.get("HF_HUB_OFFLINE") or variables.get("TRANSFORMERS_OFFLINE") or ""
    return said.upper() in ("1", "ON", "YES", "TRUE")


def library() -> Any:
    """Return huggingface_hub, imported late: it is slow to import, and reads the environment when it is."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import huggingface_hub
    import huggingface_hub.constants
    import huggingface_hub.errors
    import huggingface_hub.file_download
    import huggingface_hub.hf_api

    return huggingface_hub


def ask_hub(place: Repository, action: Callable[[], T]) -> T:
    """Return what `action` returns, with faults of the network tried again and every error in plain words.

    Raises:
        UserError: in the user's words; `Unreachable` where the hub does not answer.
    """
    try:
        return network.with_retries(action, place.log)
    except UserError:
        raise
    except Exception as error:
        raise _as_user_error(place, error) or error from error


def _as_user_error(place: Repository, error: Exception) -> UserError | None:
    """Return the error in the user's words, or None for one that we do not know."""
    names = {kind.__name__ for cause in network.causes(error) for kind in type(cause).__mro__}
    # GatedRepoError is a RepositoryNotFoundError, so it comes first.
    if "GatedRepoError" in names:
        advice = "then set HF_TOKEN to a token of that account (no token is set now)"
        if token_is_set():
            advice = "the token in use (HF_TOKEN, or the hub's token file) has no access yet"
        return UserError(f"{place} is gated: ask for access at {place.page} while signed in; {advice}")
    if "RepositoryNotFoundError" in names:
        hidden = "or the token in use may not see it" if token_is_set() else "or it is private (then set HF_TOKEN)"
        return UserError(f"{place}: there is no such repository, {hidden}; looked at {place.page}")
    if "RevisionNotFoundError" in names:
        history = f"its history is at {place.page}/commits/main"
        if place.locked is not None:
            history = f"the lock file names it, so it was there: the history was rewritten ({place.page}/commits/main)"
        return UserError(f"{place}: the repository has no commit {place.revision}; {history}")
    if "OfflineModeIsEnabled" in names or ("LocalEntryNotFoundError" in names and offline()):
        return _not_in_cache(place)
    if network.may_pass(error) or "LocalEntryNotFoundError" in names:
        reason = network.first_line(list(network.causes(error))[-1])
        return Unreachable(
            f"{place}: cannot reach {place.page} ({reason}). Is there internet here, and is HF_ENDPOINT right? "
            "HF_HUB_OFFLINE=1 uses what is cached"
        )
    if "HfHubHTTPError" in names:
        return UserError(f"{place}: the hub refused: {network.first_line(error)}; see {place.page}")
    return None


def token_is_set(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether the hub's client would find a token: a variable, or the file of `hf auth login`."""
    if any(variables.get(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE")):
        return True
    home = variables.get("HF_HOME") or f"{variables.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    try:
        return Path(variables.get("HF_TOKEN_PATH") or f"{home}/token").expanduser().stat().st_size > 0
    except OSError:
        return False


def _not_in_cache(place: Repository) -> UserError:
    lacking = f"not, or not completely, in {Path(place.cache, 'hub')}"
    return UserError(f"{place} is {lacking}, and HF_HUB_OFFLINE is set: {FETCH_ONLINE}")


def _compare_with_lock(place: Repository, wanted: Mapping[str, RemoteFile]) -> None:
    """Check before anything is downloaded that the hub still lists what was locked."""
    if offline():
        raise _not_in_cache(place)
    listed = listed_files(place)
    for name, file in sorted(wanted.items()):
        if listed.get(name) != file:
            what = "is no longer there" if name not in listed else "is not the file that was locked"
            raise UserError(
                f"{place}: {name} {what}, so the repository was rewritten under the same commit hash, or the mirror in "
                f"HF_ENDPOINT differs; see {place.page}/commits/main"
            )


def _check_disk(place: Repository, wanted: Mapping[str, RemoteFile]) -> None:
    missing = {name: file for name, file in wanted.items() if not (place.snapshot / name).exists()}
    size = sum(file.size - resume.bytes_here(place, file) for file in missing.values())
    Path(place.cache).mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(place.cache).free
    if missing:
        place.log.info("%s: downloading %d files, %s", place, len(missing), size_text(size))
    need_disk(size, free, place.cache, str(place))


def need_disk(wanted: int, free: int, folder: str, what: str) -> None:
    """Check that `wanted` bytes (and 5 % more) fit into `free` bytes.

    Raises:
        UserError: if they do not.
    """
    if wanted * 1.05 > free:
        raise UserError(
            f"{what}: needs {size_text(wanted)}, {size_text(free)} are free in {folder}; set cache_dir to a larger disk"
        )


def _check_copy(place: Repository, folder: Path, wanted: Mapping[str, RemoteFile]) -> None:
    """Check a copy; remove a damaged file and the blob it links to, for the next attempt to download again.

    Nothing outside the cache is removed.
    """
    home = place.folder.resolve()
    for name, file in sorted(wanted.items()):
        path = folder / name
        if is_whole(path, file):
            continue
        link, blob = path.parent.resolve() / path.name, path.resolve()
        if path.exists() and not (link.is_relative_to(home) and blob.is_relative_to(home)):
            advice = f"; it lies outside of {place.folder}, so remove it yourself"
        else:
            advice = " and was removed"
            for part in (blob, link) if path.exists() else ():
                part.unlink(missing_ok=True)
        by = "the hub lists" if place.locked is None else "the lock file says"
        raise UserError(f"{place}: {name} came damaged (not what {by}){advice}; run again to fetch a new copy")


def is_whole(path: Path, file: RemoteFile) -> bool:
    """Return whether a local file is what is listed: its size, and its hash where one is known."""
    if not _has_size(path, file):
        return False
    if file.sha256 is not None:
        return sha256_of_file(path) == file.sha256
    return file.git is None or library().utils.sha.git_hash(path.read_bytes()) == file.git


def _has_size(path: Path, file: RemoteFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size
