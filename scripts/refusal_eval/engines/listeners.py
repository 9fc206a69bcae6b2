"""Which TCP ports processes listen on, and whether other machines reach them."""

import contextlib
import ipaddress
from collections.abc import Iterable
from typing import NamedTuple

import psutil


class Listener(NamedTuple):
    """A TCP port that a process listens on."""

    pid: int
    address: str
    port: int

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        address = ipaddress.ip_address(self.address)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return (mapped or address).is_loopback


def listeners_of(pids: Iterable[int]) -> list[Listener]:
    """Return the ports that these processes listen on; a process that is gone has none."""
    found = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            sockets = psutil.Process(pid).net_connections("tcp")
            found |= {Listener(pid, *one.laddr) for one in sockets if one.status == psutil.CONN_LISTEN}
    return sorted(found)
