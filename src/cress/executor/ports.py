"""Ports in the network namespace of this process: those with a listener, and those in use."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

# States in /proc/net: a listening socket; a datagram socket that is bound but not connected.
_LISTENS, _BOUND = "0A", "07"
_TABLES = (("tcp", _LISTENS), ("tcp6", _LISTENS), ("udp", _BOUND), ("udp6", _BOUND))


def listening() -> frozenset[int]:
    """Return all TCP ports with a listener, and all bound UDP ports."""
    found: set[int] = set()
    for table, state in _TABLES:
        try:
            with open(f"/proc/self/net/{table}", encoding="ascii") as lines:  # noqa: PTH123 - often
                next(lines, None)
                for line in lines:
                    _, local, _, is_now, *_ = line.split(None, 4)
                    if is_now == state:
                        found.add(int(local.rpartition(":")[2], 16))
                    elif state == _LISTENS:
                        # The kernel lists listeners first; there may be many thousands of other sockets.
                        break
        except (OSError, ValueError):
            continue
    return frozenset(found)


def taken(ports: Iterable[int]) -> int:
    """Return the first of these ports that another program uses; 0: all are free.

    Tried as a server would, so closed connections in TIME_WAIT do not matter.
    """
    for port in ports:
        for family, any_address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104 - not served
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                if not _binds(family, kind, any_address, port):
                    return port
    return 0


def _binds(family: socket.AddressFamily, kind: socket.SocketKind, address: str, port: int) -> bool:
    try:
        with socket.socket(family, kind) as trial:
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if kind == socket.SOCK_STREAM:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((address, port))
    except OSError as error:
        # Other errors (no IPv6, a privileged port) do not show that the port is in use; the program itself reports
        # them.
        return error.errno != errno.EADDRINUSE
    return True
