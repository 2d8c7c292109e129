"""The first process of a container: it says that it runs, sleeps, and reaps orphans.

A program as process 1 would get SIGTERM only if it handles it, and would have to reap orphans. The root directory of a
job may lack any file of the node. So this process is a program of at most 30 instructions, generated here for the
processor: it writes a line feed to its standard output, calls ``sigaction(SIGCHLD, SIG_IGN)``, then ``pause`` in a
loop. The kernel reaps when SIGCHLD is ignored.
"""

from __future__ import annotations

import os
import platform
import struct
from pathlib import Path

_BASE = 0x40_0000
_ELF_HEADER, _PROGRAM_HEADER = 64, 56

# struct kernel_sigaction: SIG_IGN, no flags, no restorer, no mask.
_ACTION = struct.pack("<4Q", 1, 0, 0, 0)

_SAID = b"\n"

# The machine of the ELF header, and the code, which is followed by the action and the line feed.
_CODE = {
    "x86_64": (
        62,
        bytes.fromhex(
            "b801000000"  # mov eax, 1 (write)
            "bf01000000"  # mov edi, 1
            "488d354f000000"  # lea rsi, [rip + 79]: the line feed
            "ba01000000"  # mov edx, 1
            "0f05"  # syscall
            "b80d000000"  # mov eax, 13 (rt_sigaction)
            "bf11000000"  # mov edi, 17 (SIGCHLD)
            "488d3517000000"  # lea rsi, [rip + 23]: the action
            "31d2"  # xor edx, edx
            "41ba08000000"  # mov r10d, 8
            "0f05"  # syscall
            "b822000000"  # mov eax, 34 (pause)
            "0f05"  # syscall
            "ebf7"  # jmp back to the pause
            "0f1f4000"  # nop
        ),
    ),
    "aarch64": (
        183,
        struct.pack(
            "<18I",
            0xD2800020,  # mov x0, 1
            0x10000321,  # adr x1, +100: the line feed
            0xD2800022,  # mov x2, 1
            0xD2800808,  # mov x8, 64 (write)
            0xD4000001,  # svc 0
            0xD2800220,  # mov x0, 17 (SIGCHLD)
            0x10000181,  # adr x1, +48: the action
            0xD2800002,  # mov x2, 0
            0xD2800103,  # mov x3, 8
            0xD28010C8,  # mov x8, 134 (rt_sigaction)
            0xD4000001,  # svc 0
            0xD2800000,  # mov x0, 0
            0xD2800001,  # mov x1, 0
            0xD2800002,  # mov x2, 0
            0xD2800003,  # mov x3, 0
            0xD2800928,  # mov x8, 73 (ppoll, without anything to wait for)
            0xD4000001,  # svc 0
            0x17FFFFFA,  # b back to x0 = 0
        ),
    ),
}


def program(machine: str) -> bytes | None:
    """Return the file for a processor, named as by ``uname``; ``None`` if it is not supported."""
    if machine not in _CODE:
        return None
    number, code = _CODE[machine]
    start = _ELF_HEADER + _PROGRAM_HEADER
    size = start + len(code) + len(_ACTION) + len(_SAID)
    head = b"\x7fELF" + bytes((2, 1, 1, 0)) + bytes(8)
    head += struct.pack("<HHIQQQIHHHHHH", 2, number, 1, _BASE + start, _ELF_HEADER, 0, 0, _ELF_HEADER, 56, 1, 0, 0, 0)
    head += struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return head + code + _ACTION + _SAID


def write(path: Path) -> bool:
    """Write the file, executable; return False if this processor is not supported."""
    data = program(platform.machine())
    if data is None:
        return False
    new = path.with_suffix(".new")
    new.write_bytes(data)
    os.chmod(new, 0o555)  # noqa: PTH101, S103 - whatever the umask
    new.replace(path)
    return True
