"""Large files of the hub, continued where an earlier download ended.

The hub's library drops incomplete downloads: each attempt writes a file under a new name and removes it (2.4.0).
Weights come in files of 5 GB, several at a time, so here a large file grows in one place, `<SHA-256>.partial` next to
the cache's blobs, and becomes a blob when it is complete. The library then finds it there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from refusal_eval.data.hub import RemoteFile, Repository

LARGE = 20_000_000  # bytes; the library hands on 10 MB at a time, so that of smaller files nothing would be kept
LARGEST = 50_000_000_000  # the hub gives larger ones by its own protocol only, which the library speaks
WORKERS = 4
PARTIAL = ".partial"


def fetch_large_files(place: Repository, wanted: Mapping[str, RemoteFile], hub: Any) -> None:
    """Bring the large files of `wanted` into the blobs of the cache, each from where it ended before.

    Those without a SHA-256 are left to the library.

    Raises:
        Exception: what the library raises. What came until then stays.
    """
    large = {
        file.sha256: (name, file)
        for name, file in wanted.items()
        if file.sha256 is not None and LARGE <= file.size <= LARGEST and not (place.snapshot / name).exists()
    }
    if not large:
        return
    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(_fetch, place, name, file, hub) for name, file in large.values()]
        try:
            for one in running:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def bytes_here(place: Repository, file: RemoteFile) -> int:
    """Return how many bytes of a file are here already, though the copy of this commit does not have it."""
    if file.sha256 is None:
        return 0
    sizes = [path.stat().st_size for path in (_blob(place, file), _partial(place, file)) if path.is_file()]
    return min(file.size, max(sizes, default=0))


def remove_partials(place: Repository, wanted: Iterable[RemoteFile]) -> None:
    """Remove what earlier downloads left of files that are here whole, unless a job is at it."""
    for file in wanted:
        partial = _partial(place, file)
        # Whoever waits for the lock looks for the blob when it has it.
        if file.sha256 is not None and partial.is_file() and _blob(place, file).is_file():
            with contextlib.suppress(OSError), open(partial, "r+b") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle.fileno()), partial.stat()):
                    partial.unlink()


def being_written(path: Path) -> bool:
    """Tell whether a job holds the lock on a file it is downloading; False where file locks do not work."""
    try:
        with open(path, "r+b") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _fetch(place: Repository, name: str, file: RemoteFile, hub: Any) -> None:
    url = hub.hf_hub_url(place.repo, name, repo_type=place.kind, revision=place.revision)
    metadata = hub.get_hf_file_metadata(url)
    if metadata.etag != file.sha256:
        return  # its blob has another name here: the library's own way
    headers = hub.utils.build_hf_headers()
    if urlsplit(metadata.location).netloc != urlsplit(url).netloc:
        headers.pop(
            "authorization", None
        )  # a store elsewhere: its address is signed, and the token is not its business
    partial = _partial(place, file)
    partial.parent.mkdir(parents=True, exist_ok=True)
    with open(partial, "ab") as handle:
        try:
            # Two runs may share a cache: the second waits, and then finds the blob.
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:  # a cluster's file system may have no locks; what two runs mix is found damaged
            place.log.warning("%s: let no other run fetch it meanwhile; there are no locks (%s)", name, error.strerror)
        if _blob(place, file).exists():
            partial.unlink(missing_ok=True)
            return
        here = os.fstat(handle.fileno()).st_size
        if here > file.size:
            handle.truncate(0)
            here = 0
        if here:
            place.log.info("%s: continuing %s at byte %d of %d", place, name, here, file.size)
        hub.file_download.http_get(
            metadata.location, handle, resume_size=here, headers=headers, expected_size=file.size
        )
        handle.flush()
        os.fsync(handle.fileno())
        # Its content is checked with the whole copy's (hub.py), which removes it if it is not what is listed.
        os.replace(partial, _blob(place, file))


def _blob(place: Repository, file: RemoteFile) -> Path:
    return place.folder / "blobs" / str(file.sha256)


def _partial(place: Repository, file: RemoteFile) -> Path:
    return place.folder / "blobs" / f"{file.sha256}{PARTIAL}"
