"""Files at fixed https addresses: downloaded with retries, checked, whole or not at all."""

import contextlib
import hashlib
import io
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import written_whole
from refusal_eval.data import network
from refusal_eval.data.hub import need_disk

CHUNK = 1 << 20
PASSING = (408, 425, 429)
TIMEOUT_SECONDS = 30.0


def read_addresses(
    urls: Sequence[str],
    log: logging.Logger,
    targets: Sequence[Path] | None = None,
) -> tuple[str, int]:
    """Return SHA-256 and size in bytes of the files at `urls`, one after the other, and write them to `targets`.

    The targets should lie in a scratch folder: nothing is checked here. Without targets nothing is kept. The proxies of
    the environment are used.

    Raises:
        UserError: if there is no such file, an address cannot be reached, or the disk is full.
    """
    import httpx

    digest, size = hashlib.sha256(), 0
    kept_at: Sequence[Path | None] = targets or [None] * len(urls)
    for url, target in zip(urls, kept_at, strict=True):
        log.info("downloading %s", url)

        def attempt(url: str = url, target: Path | None = target, before: Any = digest) -> tuple[Any, int]:
            own, count = before.copy(), 0
            kept = written_whole(target, "wb") if target else contextlib.nullcontext(io.BytesIO())
            with kept as handle, httpx.stream("GET", url, follow_redirects=True, timeout=TIMEOUT_SECONDS) as response:
                check_status(url, response.status_code)
                # Compressed on the way, a file has another length here than there.
                length = "" if response.headers.get("content-encoding") else response.headers.get("content-length", "")
                if target and length.isdigit():
                    need_disk(int(length), shutil.disk_usage(target.parent).free, str(target.parent), url)
                for chunk in response.iter_bytes(CHUNK):
                    own.update(chunk)
                    count += len(chunk)
                    if target:
                        handle.write(chunk)
            return own, count

        try:
            digest, count = network.with_retries(attempt, log)
        except (httpx.HTTPError, network.NetworkFault) as error:
            raise UserError(f"cannot fetch {url} ({network.first_line(error)}). Is there internet here?") from error
        size += count
    return digest.hexdigest(), size


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
