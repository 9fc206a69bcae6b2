"""A process without a network: what it starts from then on reaches nothing but this machine (Linux)."""

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000  # of unshare(2)
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1  # of netdevice(7)
NOWHERE = "http://127.0.0.1:9"  # the port of `discard`, which is not served
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def take_network_away() -> str:
    """Leave this process, and those that it starts, this machine alone, or at least proxies that lead nowhere.

    Returns:
        in words, which of the two.
    """
    user, group = os.getuid(), os.getgid()
    unshare = ctypes.CDLL(None).unshare
    if unshare(NEW_NETWORK) and unshare(NEW_USER | NEW_NETWORK):  # the second is for those who are not root
        for name in PROXIES:
            os.environ[name] = os.environ[name.upper()] = NOWHERE
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = "localhost,127.0.0.1"
        return "and with proxies that lead nowhere (this system leaves a process its network)"
    if os.getuid() != user:  # in a space of users of its own: files stay those of the same user
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(one, GET_FLAGS, request))[1]
        fcntl.ioctl(one, SET_FLAGS, struct.pack("16sH14x", b"lo", flags | UP))
    return "and without a network"
