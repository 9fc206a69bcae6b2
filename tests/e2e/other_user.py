"""Trying things as another user of the machine (needs root)."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

OTHER_USER = 65534  # nobody


def as_other_user(action: Callable[[], object]) -> str:
    """Run an action in a child that is another user; return `done`, or the name of the error it met."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            action()
            reported = "done"
        except BaseException as error:
            reported = type(error).__name__
        os.write(writer, reported.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        reported = pipe.read().decode()
    os.waitpid(child, 0)
    return reported


def attempts_on(path: Path, folder: Path) -> dict[str, str]:
    """Return what becomes of another user's attempts to connect to a socket and to look into its folder."""

    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(path))

    return {
        "connect": as_other_user(connect),
        "list": as_other_user(lambda: os.listdir(folder)),
        "look": as_other_user(lambda: os.stat(path)),
    }
