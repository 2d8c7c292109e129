"""Ports of this machine, as far as this process's network goes: which are listened on, and whether one is free."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

# States in /proc/net: a socket that listens; one for datagrams that is bound and talks to nobody in particular.
_LISTENS, _BOUND = "0A", "07"
_TABLES = (("tcp", _LISTENS), ("tcp6", _LISTENS), ("udp", _BOUND), ("udp6", _BOUND))


def listening() -> frozenset[int]:
    """All TCP ports that are listened on, and UDP ports that are bound."""
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
                        # The kernel shows those that listen first; there may be many thousands of the others.
                        break
        except (OSError, ValueError):
            continue
    return frozenset(found)


def taken(ports: Iterable[int]) -> int:
    """The first of these ports that a program could not use, because somebody else does; 0: it could use all.

    As a server does it: connections that are over, and only wait for late packets, are no hindrance.
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
        # Whatever else hinders us (no IPv6, a port for root) is not somebody else; the program itself will tell.
        return error.errno != errno.EADDRINUSE
    return True
