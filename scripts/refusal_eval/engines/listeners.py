"""Which TCP ports processes listen on, and whether other machines reach them (Linux)."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

LISTENING = "0A"  # the state's number in /proc/net/tcp


class Listener(NamedTuple):
    """A TCP port that a process listens on."""

    pid: int
    address: str
    port: int

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.address).is_loopback


def listeners_of(pids: Iterable[int]) -> list[Listener]:
    """Return the ports that these processes listen on; a process that is gone has none."""
    return sorted({listener for pid in pids for listener in _listeners(pid)})


def parse_listeners(text: str) -> dict[str, tuple[str, int]]:
    """Return (address, port) of the listening sockets in a text of /proc/net/tcp or tcp6, by the socket's number."""
    found = {}
    for line in text.splitlines()[1:]:
        fields = line.split()
        if fields[3] == LISTENING:
            address, port = fields[1].split(":")
            found[fields[9]] = (_address(address), int(port, 16))
    return found


def _address(digits: str) -> str:
    """Return an address as people write it; the kernel writes words of four bytes, each in the machine's order."""
    words = [bytes.fromhex(digits[place : place + 8])[::-1] for place in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _listeners(pid: int) -> Iterator[Listener]:
    with contextlib.suppress(OSError):
        sockets = set(_sockets(pid))
        for table in ("tcp", "tcp6"):
            text = Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii")
            for number, (address, port) in parse_listeners(text).items():
                if number in sockets:
                    yield Listener(pid, address, port)


def _sockets(pid: int) -> Iterator[str]:
    """Yield the numbers of a process's sockets."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            target = os.readlink(f"{folder}/{name}")
            if target.startswith("socket:["):
                yield target[8:-1]
