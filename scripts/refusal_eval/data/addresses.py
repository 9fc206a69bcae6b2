"""Files at fixed https addresses: downloaded with retries, checked, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import size_text, written_whole
from refusal_eval.data import network
from refusal_eval.data.hub import need_disk

if TYPE_CHECKING:
    import httpx

CHUNK = 1 << 20
PASSING = (408, 425, 429)
TIMEOUT_SECONDS = 30.0
# A download that is slower than this after the first minutes never ends: a time-out is that of one read only.
GRACE_SECONDS, LEAST_RATE = 120.0, 2_000  # bytes a second
LARGEST = 20_000_000_000  # bytes, where the lock does not say how many
KEPT_FREE = 100_000_000  # bytes of the disk that a download leaves to others


def read_addresses(
    urls: Sequence[str],
    log: logging.Logger,
    targets: Sequence[Path] | None = None,
    locked_size: int | None = None,
) -> tuple[str, int]:
    """Return SHA-256 and size in bytes of the files at `urls`, one after the other, and write them to `targets`.

    The targets should lie in a scratch folder: nothing is checked here. Without targets nothing is kept. The proxies of
    the environment are used.

    Args:
        urls: the addresses.
        log: takes what is done.
        targets: where the files go.
        locked_size: total of all files, None if unknown.

    Raises:
        UserError: if there is no such file, an address cannot be reached or leads from https to plain http, the files
            are larger than they should be or come too slowly, or the disk is full.
    """
    import httpx

    digest, size = hashlib.sha256(), 0
    kept_at: Sequence[Path | None] = targets or [None] * len(urls)
    for url, target in zip(urls, kept_at, strict=True):
        log.info("downloading %s", url)

        most = LARGEST if locked_size is None else locked_size - size

        def attempt(
            url: str = url, target: Path | None = target, before: Any = digest, most: int = most
        ) -> tuple[Any, int]:
            own, count = before.copy(), 0
            kept = written_whole(target, "wb") if target else contextlib.nullcontext(io.BytesIO())
            begun = time.monotonic()
            with kept as handle, _open_address(url) as response:
                check_status(url, response.status_code)
                # Compressed on the way, a file has another length here than there.
                length = "" if response.headers.get("content-encoding") else response.headers.get("content-length", "")
                if length.isdigit():
                    _check_size(url, int(length), most, locked_size)
                if target and length.isdigit():
                    need_disk(int(length), shutil.disk_usage(target.parent).free, str(target.parent), url)
                for chunk in response.iter_bytes():  # as they come: a slow server is seen before a whole megabyte
                    own.update(chunk)
                    count += len(chunk)
                    _check_size(url, count, most, locked_size)
                    _check_rate(url, count, time.monotonic() - begun)
                    if target and count // CHUNK != (count - len(chunk)) // CHUNK:
                        _check_room(url, count, target.parent)
                    if target:
                        handle.write(chunk)
            return own, count

        try:
            digest, count = network.with_retries(attempt, log)
        except (httpx.HTTPError, network.NetworkFault) as error:
            raise UserError(f"cannot fetch {url} ({network.first_line(error)}). Is there internet here?") from error
        size += count
    return digest.hexdigest(), size


@contextlib.contextmanager
def _open_address(url: str) -> Iterator[httpx.Response]:
    """Open an address, and what it leads to; from https never to plain http, where everybody on the way could read."""
    import httpx

    def refuse_plain(request: httpx.Request) -> None:
        if url.startswith("https:") and request.url.scheme != "https":
            raise UserError(f"{url} leads to {request.url}, which is not https; name an address that is")

    hooks: dict[str, list[Callable[..., Any]]] = {"request": [refuse_plain]}
    with (
        httpx.Client(follow_redirects=True, timeout=TIMEOUT_SECONDS, event_hooks=hooks) as client,
        client.stream("GET", url) as response,
    ):
        yield response


def _check_size(url: str, count: int, most: int, locked_size: int | None) -> None:
    if count > most and locked_size is not None:
        raise UserError(
            f"{url} is not the file that was locked: it is larger than the {size_text(locked_size)} that the lock says"
        )
    if count > most:
        raise UserError(f"{url} holds more than {size_text(LARGEST)}, which no file of rows does")


def _check_rate(url: str, count: int, seconds: float) -> None:
    if seconds > GRACE_SECONDS and count < LEAST_RATE * seconds:
        raise UserError(
            f"{url} comes too slowly: {size_text(count)} in {seconds:.0f} s, less than {size_text(LEAST_RATE)} a "
            "second; run again later"
        )


def _check_room(url: str, count: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < KEPT_FREE:
        raise UserError(
            f"{url}: {size_text(count)} came, the file goes on, and {size_text(free)} are left free in {folder}; "
            "set cache_dir to a larger disk"
        )


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
