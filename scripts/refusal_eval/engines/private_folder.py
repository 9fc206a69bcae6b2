"""A folder that only this user enters, in which Unix sockets work: a server's sockets and temporary files lie there."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from refusal_eval.core.errors import UserError

LONGEST_PATH = 107  # bytes of a Unix socket's path on Linux
LONGEST_NAME = 36  # of vLLM's own sockets, which lie beside ours


def socket_folders() -> list[str]:
    """Return where private folders may be made, the first choice first.

    A cluster's temporary folder can be too long for a socket's path (job numbers, user names), or lie on a file system
    without sockets. vLLM cannot do without: its own processes talk over Unix sockets too.
    """
    folders = [tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/var/tmp", "/dev/shm"]
    return list(dict.fromkeys(folder for folder in folders if os.path.isabs(folder)))


def make_private_folder(prefix: str, folders: Sequence[str] | None = None) -> str:
    """Return a new folder of mode 0700 in which sockets work, in the first of `folders` that will do.

    Args:
        prefix: how the folder's name begins.
        folders: where it may be made; by default `socket_folders`.

    Raises:
        UserError: if none will do, with the reason for each.
    """
    reasons = []
    for parent in folders or socket_folders():
        try:
            folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
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
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
            one.listen()
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(str(path))
        path.unlink()
    except OSError as error:
        return f"sockets do not work there ({error.strerror or error})"
    return None
