"""What the hub and addresses answer today."""

from __future__ import annotations

import datetime
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.data import addresses, hub, network
from refusal_eval.study.row_sources import addresses_of

HEAD = "main"


@dataclass(frozen=True)
class RepoState:
    """A repository at a commit, as the hub tells.

    Attributes:
        commit: the commit.
        date: its day.
        gated: whether files are given only after an agreement.
        licence: the licence tag, None if there is none.
        files: all its files.
    """

    commit: str
    date: datetime.date
    gated: bool
    licence: str | None
    files: Mapping[str, hub.RemoteFile]


def repository_state(place: hub.Repository) -> RepoState:
    """Return what the hub tells about a repository, after checking that its files are open to the token in use.

    Args:
        place: the repository; its revision is a commit or `main`.

    Raises:
        UserError: if it does not exist, is closed to this user, or the hub cannot be reached.
    """
    info = _info(place)
    at = hub.Repository(place.kind, place.repo, str(info.sha), place.cache, place.log, place.wait, place.locked)
    api = hub.library().HfApi()
    if info.gated:
        hub.asked(at, lambda: api.auth_check(place.repo, repo_type=place.kind))
    commits = hub.asked(at, lambda: api.list_repo_commits(place.repo, repo_type=place.kind, revision=at.revision))
    return RepoState(
        at.revision, commits[0].created_at.date(), bool(info.gated), licence_tag(info), hub.listed_files(at)
    )


def head_of(place: hub.Repository) -> str:
    """Return the commit that `main` of a repository has today.

    Raises:
        UserError: as `repository_state`.
    """
    return str(_info(place).sha)


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


def url_state(url: str, log: logging.Logger, wait: float = network.WAIT_SECONDS) -> tuple[str, int]:
    """Return the SHA-256 and the size in bytes of the file at an address, of several one after the other; none is kept.

    Raises:
        UserError: if there is no such file, or the address cannot be reached.
    """
    digest, size = hashlib.sha256(), 0
    for one in addresses_of(url).values():
        digest, size = _read_address(one, digest, size, log, wait)
    return digest.hexdigest(), size


def _read_address(
    url: str, before: addresses.Hash, size: int, log: logging.Logger, wait: float
) -> tuple[addresses.Hash, int]:
    import httpx

    def attempt() -> tuple[addresses.Hash, int]:
        digest, count = before.copy(), size
        with httpx.stream("GET", url, follow_redirects=True, timeout=addresses.TIMEOUT_SECONDS) as response:
            addresses.check_status(url, response.status_code)
            for chunk in response.iter_bytes(addresses.CHUNK):
                digest.update(chunk)
                count += len(chunk)
        return digest, count

    try:
        return network.with_retries(attempt, log, wait=wait)
    except (httpx.HTTPError, network.NetworkFault) as error:
        raise UserError(f"cannot fetch {url} ({network.first_line(error)}). Is there internet here?") from error
