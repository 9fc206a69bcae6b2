"""One file at a fixed https address: downloaded with retries, checked, whole or not at all."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path

from refusal_eval.data import network
from refusal_eval.data.hub import FETCH_ONLINE, need_disk, size_text
from refusal_eval.errors import UserError
from refusal_eval.files import written_whole

CHUNK = 1 << 20
PASSING = (408, 425, 429)
TIMEOUT_SECONDS = 30.0


def download(
    url: str, sha256: str, target: str | Path, log: logging.Logger, wait: float = network.WAIT_SECONDS
) -> None:
    """Write the file at `url` to `target`, whole or not at all, after checking its SHA-256.

    The proxies of the environment are used. HF_HUB_OFFLINE, which says that this machine has no internet, holds here
    too.

    Raises:
        UserError: if the address can't be reached or holds no such file, the disk is full, or the checksum differs.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise UserError(f"{url} is not in the cache, and HF_HUB_OFFLINE is set: {FETCH_ONLINE}")
    import httpx

    def attempt() -> str:
        digest = hashlib.sha256()
        with (
            written_whole(target, "wb") as handle,
            httpx.stream("GET", url, follow_redirects=True, timeout=TIMEOUT_SECONDS) as response,
        ):
            check_status(url, response.status_code)
            # Compressed on the way, a file has another length here than there.
            length = "" if response.headers.get("content-encoding") else response.headers.get("content-length", "")
            if length.isdigit():
                folder = Path(target).parent
                need_disk(int(length), shutil.disk_usage(folder).free, str(folder), url)
            for chunk in response.iter_bytes(CHUNK):
                digest.update(chunk)
                handle.write(chunk)
            found = digest.hexdigest()
            if found != sha256:
                raise UserError(f"{url} is not the file that was locked: its SHA-256 is {found}, expected is {sha256}")
            return size_text(handle.tell())

    log.info("downloading %s", url)
    try:
        size = network.with_retries(attempt, log, wait=wait)
    except (httpx.HTTPError, network.NetworkFault) as error:
        raise UserError(f"cannot fetch {url} ({network.first_line(error)}). Is there internet here?") from error
    log.info("%s: %s, SHA-256 as expected", url, size)


def check_status(url: str, status: int) -> None:
    """Check the status that an address answered with.

    Raises:
        NetworkFault: for one that may pass.
        UserError: for any other than 200.
    """
    if status in PASSING or status >= 500:
        raise network.NetworkFault(f"{url} answered with status {status}")
    if status in (404, 410):
        raise UserError(f"{url}: there is no such file (status {status}); it may have been moved or deleted")
    if status != 200:
        raise UserError(f"{url}: the server refused (status {status})")
