"""System calls of Linux that Python lacks; they raise OSError. Numbers are those of the kernel's ABI."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterable

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID = 0x0002_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    1 << 14,
    1 << 18,
    1 << 19,
)
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8

_PDEATHSIG, _DUMPABLE, _SECCOMP, _CAPBSET_READ, _CAPBSET_DROP, _SUBREAPER = 1, 4, 22, 23, 24, 36
_NO_NEW_PRIVS, _AMBIENT = 38, 47
_SECCOMP_FILTER = 2
_AMBIENT_CLEAR = 4
_CAPABILITY_VERSION = 0x2008_0522
_CAPABILITIES = 64  # more than any kernel has; reading an unknown one fails

# The kernel writes ``\040`` for a space in a path.
_OCTAL = re.compile(rb"\\([0-7]{3})")

# The number of ``keyctl``, which C libraries lack, and its request for a new session keyring.
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1

# Most groups of an account (NGROUPS_MAX).
_MOST_GROUPS = 65_536

# The kind of the file system /proc (linux/magic.h).
_PROC = 0x9FA0

# Loaded before any fork.
_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces that the process shares with its parent."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that ``fd`` is open for; a pid namespace holds only for further children."""
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system; the kernel ignores arguments that are empty."""
    texts = (source or "none", target, kind, data)
    first, second, third, last = (os.fsencode(text) or None for text in texts)
    _check(_libc.mount(first, second, third, ctypes.c_ulong(flags), last), f"mount {target}")


def shows_processes(fd: int) -> bool:
    """Return whether an open file or folder is one of the kernel's about processes (/proc). Raise OSError."""
    told = (ctypes.c_long * 64)()  # struct statfs begins with the number of the kind
    _check(_libc.fstatfs(fd, ctypes.byref(told)), "fstatfs")
    return told[0] == _PROC


def sync_file_system(path: str) -> None:
    """Write the file system of a path to the disk. Raise OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.syncfs(fd), "syncfs")
    finally:
        os.close(fd)


def unmount(target: str) -> None:
    """Unmount at once; the kernel frees the file system when it is no longer in use. Links are not followed."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH | UMOUNT_NOFOLLOW), f"umount {target}")


def mounted() -> list[str]:
    """Return the mount points, in the order of mounting."""
    with open("/proc/self/mountinfo", "rb") as lines:  # noqa: PTH123
        return [os.fsdecode(_OCTAL.sub(_octal, line.split(b" ")[4])) for line in lines]


def take_file_rights(uid: int, gid: int, groups: Iterable[int]) -> None:
    """Use the rights of an account for files, in this thread alone, which must end afterwards. Needs root."""
    ids = list(groups)[:_MOST_GROUPS]
    number = {"x86_64": 116, "aarch64": 159}[os.uname().machine]
    # The C library's own function would change all threads.
    _check(_libc.syscall(number, len(ids), (ctypes.c_uint * len(ids))(*ids)), "setgroups")
    for change, wanted in ((_libc.setfsgid, gid), (_libc.setfsuid, uid)):
        change(wanted)
        # They report no error, and return the id that was in use before.
        if change(wanted) != wanted:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), "setfsuid")


def private_mounts() -> None:
    """Make the mounts of this process private, in both directions."""
    unshare(NEWNS)
    mount("", "/", "", MS_REC | MS_PRIVATE)


def hide_processes() -> None:
    """Mount a private /proc that shows only processes which the reader may trace; mounts of the node still arrive."""
    unshare(NEWNS)
    mount("", "/", "", MS_REC | MS_SLAVE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2")


def die_with_parent(number: int) -> None:
    """Have the kernel send this signal when the parent ends; the setting survives an exec, but not a fork."""
    _check(_libc.prctl(_PDEATHSIG, number, 0, 0, 0), "prctl")


def be_subreaper() -> None:
    """Have orphans among the descendants of this process become its children."""
    _check(_libc.prctl(_SUBREAPER, 1, 0, 0, 0), "prctl")


def no_new_privileges() -> None:
    """Make sure that no exec gives this process, or its children, further rights."""
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def not_dumpable() -> None:
    """Close the /proc entries of this process, such as ``exe``, to all but root, until it executes a program."""
    _check(_libc.prctl(_DUMPABLE, 0, 0, 0, 0), "prctl")


def new_session_keyring() -> None:
    """Replace the session keyring of the parent by an empty one, since this process could use all its keys."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None and _libc.syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None) < 0:
        error = ctypes.get_errno()
        # Kernels without keys have none to hide.
        if error != errno.ENOSYS:
            raise OSError(error, f"keyctl: {os.strerror(error)}")


def filter_calls(address: int, length: int) -> None:
    """Filter the system calls of this process and its children by the ``length`` instructions at ``address``."""
    known = _FilterProgram(length, address)
    _check(_libc.prctl(_SECCOMP, _SECCOMP_FILTER, ctypes.byref(known), 0, 0), "seccomp")


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def bound_capabilities(kept: Iterable[int]) -> None:
    """Drop all capabilities but ``kept`` from the bounding set, for this process and its children.

    Call it before the account changes.
    """
    kept = set(kept)
    _libc.prctl(_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)  # unknown to old kernels, which have no ambient capabilities
    for number in range(_CAPABILITIES):
        if number not in kept and _libc.prctl(_CAPBSET_READ, number, 0, 0, 0) == 1:
            _check(_libc.prctl(_CAPBSET_DROP, number, 0, 0, 0), "prctl")


def set_capabilities(kept: Iterable[int]) -> None:
    """Set the capabilities to exactly these, none of them inherited."""
    mask = sum(1 << number for number in set(kept))
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    low, high = mask & 0xFFFF_FFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)  # effective, permitted, inheritable
    _check(_libc.capset(header, data), "capset")


def _octal(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 8)])


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
