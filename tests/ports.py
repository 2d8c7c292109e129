"""Ports for programs that listen soon."""

from __future__ import annotations

import contextlib
import random
import socket

# Below those that the system gives to outgoing connections, and those that executors give to tasks by default. Of what
# takes ports, only other tests choose here; two of them hardly choose the same one at once, but nothing prevents it.
RANGE = range(10_000, 20_000)


def free_ports(count: int) -> list[int]:
    """Return so many different ports, in a row, on which nobody listens now."""
    while True:
        first = random.choice(RANGE[: len(RANGE) - count])
        ports = [*range(first, first + count)]
        if all(map(_is_free, ports)):
            return ports


def free_port() -> int:
    """Return a port on which nobody listens now; a second call may return the same one."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
        for each in (tcp, udp):
            each.bind(("", port))
        return True
    return False
