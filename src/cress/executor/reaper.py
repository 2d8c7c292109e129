"""The reaper: parent of a supervisor, and of its tasks if that is killed. ``python -I -S reaper.py FD``.

An end is told only to the parent of a process. The reaper is a subreaper that does nothing but wait, so the tasks of a
killed supervisor become its children, and it notes their ends in the file of descriptor FD (``ends`` reads it). It ends
with its last child. It imports nothing of Cress, since one runs beside every supervisor.

The command of the supervisor is in its environment, ``CRESS_REAPED``. In its arguments, it would be found and killed by
whoever kills the supervisor by name (``pkill -f``), and the ends of the tasks would be unknown.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys

_SUBREAPER = 36
# The number of ``waitid``, whose call tells the usage without reaping; libraries leave that argument out.
_WAITID = {"x86_64": 247, "aarch64": 95}
# struct rusage: user and system time in s and µs, the peak of memory in KiB; struct siginfo: signal, …, pid, …, status.
_USAGE = struct.Struct("=qqqqq")
_STRUCTS = 256
_P_PID = 1
_libc = ctypes.CDLL(None, use_errno=True)
# The command: its words, each followed by the separator.
COMMAND, SEPARATOR = "CRESS_REAPED", "\x1f"


def main(arguments: list[str]) -> int:
    """Start the command, and note the ends of all children; return the exit code of the command."""
    ends, command = int(arguments[0]), os.environ.pop(COMMAND).split(SEPARATOR)[:-1]
    _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    first = os.fork()
    if first == 0:
        os.close(ends)
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # Its tasks and their supervisor decide when they end.
        signal.signal(number, signal.SIG_IGN)
    os.write(ends, b"reaper %d\n" % os.getpid())
    code = 1
    while True:
        try:
            seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return code
        if seen is None:
            continue
        if seen.si_pid == first:
            how = how_ended(seen)
            code = how if how >= 0 else 1
            os.write(ends, b"over %d\n" % how)
        else:
            note(ends, seen)
        os.waitid(os.P_PID, seen.si_pid, os.WEXITED)


def how_ended(seen: os.waitid_result) -> int:
    """Return the exit code of a child, or -n after signal n."""
    return seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status


def note(ends: int, seen: os.waitid_result) -> None:
    """Note the end of a child that is not reaped yet in the file of descriptor ``ends``."""
    pid, usage = seen.si_pid, ctypes.create_string_buffer(_STRUCTS)
    call = _WAITID.get(os.uname().machine)
    if call is not None:
        info = ctypes.create_string_buffer(_STRUCTS)
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        _libc.syscall(ctypes.c_long(call), _P_PID, pid, info, flags, usage)
    user, user_micro, system, system_micro, memory = _USAGE.unpack_from(usage.raw)
    cpu = (user + system) * 1_000_000 + user_micro + system_micro
    ticks, session, mark = _identity(pid)
    line = b"end %d %d %d %d %d %d %d\n" % (pid, ticks, session, mark, how_ended(seen), cpu, memory * 1024)
    # On a full disk the end is unknown, as it would be without a reaper.
    with contextlib.suppress(OSError):
        os.write(ends, line)


def _identity(pid: int) -> tuple[int, int, int]:
    """Return start ticks, session and mark of a zombie: the hard limit RLIMIT_LOCKS (``marks``)."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        fields = file.read().rpartition(b")")[2].split()
    mark = 0
    with open(f"/proc/{pid}/limits", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"Max file locks"):
                hard = line.split()[4]
                mark = int(hard) if hard.isdigit() else 0
    return int(fields[19]), int(fields[3]), mark


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
