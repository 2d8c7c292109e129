"""Entering a container, and changing to the account of a task."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from cress.executor.runtimes import linux

# The capabilities of root in a container: its files, its processes, and ports below 1024.
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE (linux/capability.h).
ROOT_MAY = (0, 1, 3, 4, 5, 6, 7, 10)

_SPACES = (("ipc", linux.NEWIPC), ("uts", linux.NEWUTS), ("mnt", linux.NEWNS))


# uid, gid and groups of an account.
Ids: TypeAlias = tuple[int, int, tuple[int, ...]]


class Entrance(msgspec.Struct, frozen=True, kw_only=True):
    """Entry into a task: its namespaces, control groups and account.

    ``pause`` is the first process of its container (0: there is none). ``procs_files`` are the files by which a process enters its
    control groups. ``account`` is uid, gid and groups (``None``: no change).
    """

    pause: int = 0
    procs_files: tuple[str, ...] = ()
    account: Ids | None = None

    def begin(self) -> None:
        """In the parent: make further children in the container's pid namespace. Needs root."""
        if self.pause:
            with _space(self.pause, "pid") as fd:
                linux.setns(fd, linux.NEWPID)

    def go_in(self) -> None:
        """In the child: enter control groups and namespaces; paths are those of the container from then on."""
        fds = []
        if self.pause:
            fds = [
                (os.open(f"/proc/{self.pause}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in _SPACES
            ]
        for each in self.procs_files:
            fd = os.open(each, os.O_WRONLY)
            os.write(fd, b"0")
            os.close(fd)
        for fd, kind in fds:
            linux.setns(fd, kind)
            os.close(fd)

    def step_down(self) -> None:
        """In the child, last of all: change to the account, and in a container drop the capabilities that no task has."""
        uid, gid, groups = self.account or (os.getuid(), os.getgid(), ())
        if self.pause:
            linux.bound_capabilities(ROOT_MAY if uid == 0 else ())
        if self.account is not None:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        if self.pause:
            linux.set_capabilities(ROOT_MAY if uid == 0 else ())
            linux.no_new_privileges()


@contextlib.contextmanager
def _space(pid: int, name: str) -> Iterator[int]:
    fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
