"""A user namespace for the program of a container, in which every account has the same number as outside.

Files keep their owners, but privileges that the program gains by an exploit do not apply on the host. For accounts
other than root: ports below 1024 belong to the network, which is the node's.
"""

from __future__ import annotations

import functools
import os
import resource
import signal
from pathlib import Path

from cress.executor.runtimes import linux

_MAPS = ("uid_map", "gid_map")
# The kernel also counts these for the maker of a user namespace, by the maker's limits at that moment.
_SHARED_LIMITS = (resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK, resource.RLIMIT_SIGPENDING, resource.RLIMIT_MSGQUEUE)


@functools.cache
def identity(name: str) -> bytes:
    """Return a map of all numbers that exist here to themselves, for ``uid_map`` or ``gid_map``."""
    lines = (line.split() for line in Path("/proc/self", name).read_text(encoding="ascii").splitlines())
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in lines).encode()


def prepare() -> None:
    """Read the maps of this process now, for children that will have another root directory."""
    for name in _MAPS:
        identity(name)


def enter_new() -> None:
    """Enter a new user namespace, with all rights in it and none outside.

    A child makes it, since only a process outside may write its maps. Raise OSError if it cannot be made; then nothing
    has changed.
    """
    made, making = os.pipe()
    over, going = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(going)
            _lift_limits()
            linux.unshare(linux.NEWUSER)
            os.write(making, b"x")
            os.read(over, 1)
        finally:
            os._exit(0)
    os.close(making)
    try:
        if not os.read(made, 1):
            raise OSError("a user namespace cannot be made")
        for name in _MAPS:
            _write(f"/proc/{child}/{name}", identity(name))
        fd = os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        try:
            linux.setns(fd, linux.NEWUSER)
        finally:
            os.close(fd)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for fd in (made, over, going):
            os.close(fd)


def _lift_limits() -> None:
    """In the child: lift the limits on all user namespaces of root together; each task keeps its own limits."""
    for number in _SHARED_LIMITS:
        hard = resource.getrlimit(number)[1]
        try:
            resource.setrlimit(number, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (OSError, ValueError):
            resource.setrlimit(number, (hard, hard))


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
