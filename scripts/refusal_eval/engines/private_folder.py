"""Folders that only this user enters: a server's own, in which Unix sockets work, and those of records and locks."""

import contextlib
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from refusal_eval.core.errors import UserError

PRIVATE_PREFIX = "refusal-eval-"  # how the name of a server's private folder begins
LONGEST_PATH = 107  # bytes of a Unix socket's path on Linux
LONGEST_NAME = 36  # of vLLM's own sockets, in the same folder


def socket_folders() -> list[str]:
    """Return where private folders may be made, the first choice first.

    A cluster's temporary folder can be too long for a socket's path (job numbers, user names), or lie on a file system
    without sockets. vLLM cannot do without: its own processes talk over Unix sockets too.
    """
    folders = [tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/var/tmp", "/dev/shm"]
    return list(dict.fromkeys(folder for folder in folders if os.path.isabs(folder)))


def make_private_folder(folders: Sequence[str] | None = None) -> str:
    """Return a new folder of mode 0700 in which sockets work, in the first of `folders` that will do.

    Raises:
        UserError: if none will do, with the reason for each.
    """
    reasons = []
    for parent in folders or socket_folders():
        try:
            folder = tempfile.mkdtemp(prefix=PRIVATE_PREFIX, dir=parent)
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror or error}")
            continue
        reason = why_no_socket(folder)
        if reason is None:
            return folder
        reasons.append(f"{parent}: {reason}")
        shutil.rmtree(folder, ignore_errors=True)
    raise UserError(
        "no folder for the engine's sockets: " + "; ".join(reasons) + ". Set TMPDIR to a short path on a local disk"
    )


def why_no_socket(folder: str) -> str | None:
    """Return why Unix sockets do not work in a folder, or None if they do."""
    path = Path(folder, "x" * LONGEST_NAME)
    length = len(os.fsencode(path))
    if length > LONGEST_PATH:
        return f"the path of a socket in it would take {length} bytes, {LONGEST_PATH} are possible"
    try:
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
            one.bind(str(path))
            one.listen()
            other.connect(str(path))
        path.unlink()
    except OSError as error:
        return f"sockets do not work there ({error.strerror or error})"
    return None


def checked_folder(folder: Path, purpose: str = "running engines are recorded", variable: str = "TMPDIR") -> Path:
    """Create the folder if necessary, check that nobody else can write to it, and return it.

    Messages name its purpose, and the environment variable that sets its place.

    Raises:
        UserError: for a link, another user's folder, and one that others may write to.
    """
    what, advice = f"{folder}, where {purpose},", f"set {variable} to a folder of your own"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise UserError(f"{what} cannot be used: {error}; {advice}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{what} is a link or a file instead of a folder: remove it, or {advice}")
    if found.st_uid != os.getuid():
        raise UserError(f"{what} belongs to another user (number {found.st_uid}): {advice}")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise UserError(f"{what} is open to others (mode {mode:o}): look at what is in it, then `chmod 700 {folder}`")
    return folder
