"""Entering of a container, and the change to the account of a task."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import BuiltinImporter, FrozenImporter
from typing import TypeAlias

import msgspec

from cress.executor.runtimes import linux, seccomp, user_namespace

# The capabilities of root in a container: its files, its processes, and ports below 1024.
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE (linux/capability.h).
ROOT_MAY = (0, 1, 3, 4, 5, 6, 7, 10)

_SPACES = (("ipc", linux.NEWIPC), ("uts", linux.NEWUTS), ("mnt", linux.NEWNS))


# uid, gid and groups of an account.
Ids: TypeAlias = tuple[int, int, tuple[int, ...]]


class Entrance(msgspec.Struct, frozen=True, kw_only=True):
    """Entry into a task: its namespaces, control groups and account.

    ``pause`` is the first process of its container (0: none). A process enters the control groups by ``procs_files``.
    ``account`` is uid, gid and groups (``None``: no change).
    """

    pause: int = 0
    procs_files: tuple[str, ...] = ()
    account: Ids | None = None

    def begin(self) -> None:
        """In the parent: make further children in the container's pid namespace. Needs root."""
        if self.pause:
            with _space(self.pause, "pid") as fd:
                linux.setns(fd, linux.NEWPID)

    @property
    def other_account(self) -> bool:
        """Return whether the task has another account than the executor, which is root."""
        return self.account is not None and self.account[0] != 0

    def go_in(self) -> None:
        """In the child: enter control groups and namespaces; from then on paths are those of the container.

        Without a container, a task of another account gets a /proc that shows only the processes of its account.
        """
        if not self.pause and self.other_account:
            # The supervisor has reported it if this is unsupported here.
            with contextlib.suppress(OSError):
                linux.hide_processes()
        if self.pause:
            keep_out()
        fds = []
        if self.pause:
            fds = [
                (os.open(f"/proc/{self.pause}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in _SPACES
            ]
        for file in self.procs_files:
            fd = os.open(file, os.O_WRONLY)
            os.write(fd, b"0")
            os.close(fd)
        for fd, kind in fds:
            linux.setns(fd, kind)
            os.close(fd)

    def step_down(self) -> None:
        """In the child, last of all: change to the account for good, and in a container drop rights that tasks lack."""
        uid, gid, groups = self.account or (os.getuid(), os.getgid(), ())
        if self.other_account:
            linux.new_session_keyring()
        if self.pause and self.other_account:
            # This fails on some systems; the capabilities are dropped anyway.
            with contextlib.suppress(OSError):
                user_namespace.enter_new()
        if self.pause:
            linux.bound_capabilities(kept_capabilities(uid))
        if self.account is not None:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        if self.pause:
            linux.set_capabilities(kept_capabilities(uid))
        if self.pause or self.other_account:
            linux.no_new_privileges()
        if self.pause:
            seccomp.install()


def kept_capabilities(uid: int) -> tuple[int, ...]:
    """Return the capabilities that a program of this account keeps in a container."""
    return ROOT_MAY if uid == 0 else ()


def keep_out() -> None:
    """Protect root before it enters files of a task: load no more code, and close this process's /proc entries."""
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter]
    linux.not_dumpable()


def can_hide_processes() -> bool:
    """Return whether tasks of other accounts get a /proc of their own; tried in a child, which ends."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            linux.hide_processes()
            with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
                # Kernels before 5.8 have one /proc for all, and ignore the option.
                code = int("hidepid" not in [line for line in lines if line.split(" ")[4] == "/proc"][-1])
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


@contextlib.contextmanager
def _space(pid: int, name: str) -> Iterator[int]:
    fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
