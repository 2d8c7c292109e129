"""The system call filter of containers: it refuses calls that no task needs and that have been used to attack kernels.

It is a list of refused calls, in the spirit of Docker's profile (github.com/moby/profiles). The first process of a
container gets the filter from the engine. Programs and ``cress exec`` install it themselves, since they enter a
container that exists.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
from typing import Any

from cress.executor.runtimes import linux

# The numbers of refused calls for x86_64, i386 and aarch64 (-1: none), by what they could do to the node.
_REFUSED = {
    # Load code into the kernel, start another kernel, end this one.
    "create_module": (174, 127, -1),
    "delete_module": (176, 129, 106),
    "finit_module": (313, 350, 273),
    "init_module": (175, 128, 105),
    "query_module": (178, 167, -1),
    "get_kernel_syms": (177, 130, -1),
    "kexec_load": (246, 283, 104),
    "kexec_file_load": (320, -1, 294),
    "reboot": (169, 88, 142),
    # Make other mounts and namespaces; ``clone`` with them is refused below.
    "mount": (165, 21, 40),
    "umount": (-1, 22, -1),
    "umount2": (166, 52, 39),
    "pivot_root": (155, 217, 41),
    "move_mount": (429, 429, 429),
    "open_tree": (428, 428, 428),
    "fsopen": (430, 430, 430),
    "fsconfig": (431, 431, 431),
    "fsmount": (432, 432, 432),
    "fspick": (433, 433, 433),
    "mount_setattr": (442, 442, 442),
    "unshare": (272, 310, 97),
    "setns": (308, 346, 268),
    # Use keys of the kernel, which have no namespaces.
    "add_key": (248, 286, 217),
    "request_key": (249, 287, 218),
    "keyctl": (250, 288, 219),
    # Use large interfaces with a history of errors.
    "bpf": (321, 357, 280),
    "perf_event_open": (298, 336, 241),
    "userfaultfd": (323, 374, 282),
    "lookup_dcookie": (212, 253, 18),
    "io_uring_setup": (425, 425, 425),
    "io_uring_enter": (426, 426, 426),
    "io_uring_register": (427, 427, 427),
    # Reach files past the mounts of the container, and watch the file accesses of others.
    "open_by_handle_at": (304, 342, 265),
    "fanotify_init": (300, 338, 262),
    # Change the clock, swap, accounting, quotas, ports and log of the node.
    "clock_settime": (227, 264, 112),
    "clock_settime64": (-1, 404, -1),
    "settimeofday": (164, 79, 170),
    "stime": (-1, 25, -1),
    "swapon": (167, 87, 224),
    "swapoff": (168, 115, 225),
    "acct": (163, 51, 89),
    "quotactl": (179, 131, 60),
    "quotactl_fd": (443, 443, 443),
    "nfsservctl": (180, 169, 42),
    "vhangup": (153, 111, 58),
    "iopl": (172, 110, -1),
    "ioperm": (173, 101, -1),
    "vm86": (-1, 166, -1),
    "vm86old": (-1, 113, -1),
    "syslog": (103, 103, 116),
    # Obsolete calls.
    "sysfs": (139, 135, -1),
    "_sysctl": (156, 149, -1),
    "uselib": (134, 86, -1),
    "ustat": (136, 62, -1),
}
_CLONE, _CLONE3, _SOCKET = (56, 120, 220), (435, 435, 435), (41, 359, 198)
# All flags of ``clone`` that make namespaces (linux/sched.h), and sockets to the hypervisor (AF_VSOCK).
_NEW_NAMESPACES, _VSOCK = 0x7E02_0000, 40

# AUDIT_ARCH of each column (linux/audit.h), and the first number of the x32 calls of x86_64.
_ARCHITECTURES = (0xC000_003E, 0x4000_0003, 0xC000_00B7)
_OF_MACHINE = {"x86_64": (0, 1), "aarch64": (2,)}
_X32 = 0x4000_0000
_OCI = {"x86_64": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"], "aarch64": ["SCMP_ARCH_AARCH64"]}

# struct seccomp_data: number, architecture, instruction pointer, arguments of 64 bits; their lower halves come first.
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
# Instructions (linux/bpf_common.h).
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF_0000
_REFUSE, _UNKNOWN = (0x0005_0000 | error for error in (errno.EPERM, errno.ENOSYS))
_INSTRUCTION = struct.Struct("=HBBI")


@functools.cache
def program(machine: str) -> bytes:
    """Return the filter for a processor, named as by ``uname``; empty if it is not supported.

    Calls of another architecture than that of the processor do not exist. Neither does ``clone3``, since its flags are
    in memory, where a filter cannot read them; C libraries then use ``clone``.
    """
    columns = _OF_MACHINE.get(machine, ())
    if not columns:
        return b""
    code = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for column in columns:
        part = _part(column)
        # The part is longer than the reach of a conditional jump.
        code += [(_EQUAL, 1, 0, _ARCHITECTURES[column]), (0x05, 0, 0, len(part)), *part]
    code += [(_RETURN, 0, 0, _UNKNOWN)]
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in code)


def _part(column: int) -> list[tuple[int, int, int, int]]:
    """Return the instructions for the calls of one architecture; each test is followed by its result."""
    code = [(_LOAD, 0, 0, _NUMBER)]
    if column == 0:
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _UNKNOWN)]
    for numbers in _REFUSED.values():
        if numbers[column] >= 0:
            code += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _REFUSE)]
    code += [(_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _UNKNOWN)]
    for number, test in ((_CLONE[column], (_ANY_BIT, _NEW_NAMESPACES)), (_SOCKET[column], (_EQUAL, _VSOCK))):
        code += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, _ARGUMENT)]
        code += [(test[0], 0, 1, test[1]), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def install() -> None:
    """Filter the calls of this process and its children from now on.

    The process must have given up new privileges. Raise OSError.
    """
    code = program(os.uname().machine)
    if code:
        buffer = ctypes.create_string_buffer(code, len(code))
        linux.filter_calls(ctypes.addressof(buffer), len(code) // _INSTRUCTION.size)


def oci_profile() -> dict[str, Any]:
    """Return the filter in the format of a bundle's configuration, for the first process, which only sleeps."""
    names = [*_REFUSED, "clone3", "ptrace"]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": _OCI.get(os.uname().machine, []),
        "syscalls": [{"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}],
    }
