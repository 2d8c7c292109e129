"""The launcher: a small process in C that forks in place of the supervisor.

A fork of the supervisor copies the tables of a Python process, and the child runs Python until it executes. Both take
longer than the start of the program itself. The launcher is tiny. It gets requests on a socket, and its children are
children of the supervisor: see ``launcher.c``. Without it, ``ProcessRuntime`` forks; both do the same.

The program is built where a C compiler is: with the wheel, by ``make setup``, or at the first use. Its file is beside
this one, or in the executor's directory if this folder cannot be written. The name has the processor and a checksum of
the source, so the program of another release is never used.

This module imports only the standard library, since the build of the wheel loads it alone
(``tools/build_launcher.py``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import signal
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("launcher.c")
# The part that it includes.
PART = "launcher_container.h"
_COMPILERS = ("cc", "gcc", "clang")
# It uses no library, and what distributions add for safety needs one.
_FLAGS = (
    "-O2 -std=c11 -ffreestanding -fno-builtin -fno-stack-protector -fno-pie -no-pie -static -nostdlib -nostartfiles "
    "-fno-asynchronous-unwind-tables -Wl,--build-id=none -Wl,-z,noexecstack -s"
).split()
# Seconds for the compiler, which usually takes 0.1.
_PATIENCE = 60.0
# A message and a request in it, as ``launcher.c`` describes them, and the answer; their largest sizes. The kernel
# passes at most so many descriptors at once.
_HEAD, _REQUEST_HEAD, _ANSWER = struct.Struct("<II"), struct.Struct("<IIII"), struct.Struct("=qQ")
_MOST_BYTES, _MOST_WORDS, _MOST_FILES = (1 << 20) - 4096, (1 << 16) - 2, 253
# Seconds for an answer: it only forks, so a longer time means that something has stopped it.
_PATIENCE_TO_START, _TIMEVAL = 10, struct.Struct("@ll")
_UNANSWERED = -errno.ECHILD, 0
# What the program says without a socket.
_NO_ORDERS = b"launcher %d" % errno.EINVAL


class Launcher:
    """The launcher of one supervisor: ``program`` is its path; empty: there is none. ``say`` tells the operator.

    It is a child of this process, and so are the processes that it starts.
    """

    def __init__(self, program: str, say: Callable[[str], None]) -> None:
        self.program = program
        self.pid = 0
        self._say = say
        self._asked = 0  # processes without an answer so far
        # What is not sent yet: heads and texts of requests, their bytes, their descriptors.
        self._requests: list[bytes] = []
        self._size = 0
        self._files: list[int] = []
        self._socket: socket.socket | None = None

    def ask(self, orders: Sequence[bytes], environment: Mapping[bytes, bytes], *files: int) -> bool:
        """Ask for a process with these orders; return False if only a fork can start it. ``answers`` has its pid.

        Raise OSError if there is no descriptor left; then nothing was asked for.

        ``files`` are descriptors: one for errors, and perhaps one for the program. If the process is asked for, the
        launcher closes the first one; the other may be closed afterwards.
        """
        variables = [name + b"=" + value for name, value in environment.items()]
        texts = b"\0".join((*orders, *variables, b""))
        count = len(orders) + len(variables)
        # An environment that no program can have is reported by the fork.
        odd = texts.count(b"\0") != count or any(not name or b"=" in name for name in environment)
        if odd or len(texts) > _MOST_BYTES or count > _MOST_WORDS or not self._serves():
            return False
        if self._size + len(texts) > _MOST_BYTES or len(self._files) + len(files) > _MOST_FILES:
            self._send()
        # An error here must leave nothing behind: the descriptors of later requests would go to this one.
        others = [os.dup(fd) for fd in files[1:]]
        self._requests += (_REQUEST_HEAD.pack(len(texts), len(orders), len(variables), len(files)), texts)
        self._size += _REQUEST_HEAD.size + len(texts)
        self._files += [*files[:1], *others]
        self._asked += 1
        return True

    def answers(self) -> list[tuple[int, int]]:
        """Return the pid and the start of all processes asked for since the last call, in their order.

        The start is in clock ticks since boot, as in ``processes.start_ticks``; 0: not certain. In place of a pid there
        may be a negative error number. Without an answer (-ECHILD), a process may have been started. It has the mark of
        its attempt, and is killed as an orphan.
        """
        self._send()
        asked, self._asked = self._asked, 0
        if not asked or self._socket is None:
            return [_UNANSWERED] * asked
        told = b""
        with contextlib.suppress(OSError):
            whole = asked * _ANSWER.size
            while len(told) < whole and (data := self._socket.recv(whole - len(told))):
                told += data
        found = [
            (int(pid), int(began))
            for pid, began in _ANSWER.iter_unpack(told[: len(told) // _ANSWER.size * _ANSWER.size])
        ]
        if len(found) < asked:
            self._say("the launcher did not answer; another one is started")
            self.close()
        return found + [_UNANSWERED] * (asked - len(found))

    def _send(self) -> None:
        """Send what was asked for in one message: each one would wake the launcher, which then runs in between."""
        if not self._requests:
            return
        count = len(self._requests) // 2
        message = b"".join((_HEAD.pack(self._size, count), *self._requests))
        # A launcher that was killed is replaced: it has not read this message. Other errors show in the answers.
        if not self._is_sent(message) and self._asked == count:
            self.close()
            if self._serves():
                self._is_sent(message)
        for fd in self._files:
            os.close(fd)
        self._requests, self._files, self._size = [], [], 0

    def _is_sent(self, message: bytes) -> bool:
        if self._socket is None:
            return False
        try:
            sent = socket.send_fds(self._socket, [message], self._files)
        except OSError:
            return False
        with contextlib.suppress(OSError):
            self._socket.sendall(message[sent:])
        return True

    def ended(self, pid: int) -> None:
        """Note that a child of this process has ended and was waited for."""
        if pid == self.pid:
            self.pid = 0
            if not self._asked:
                self.close()

    def close(self) -> None:
        """End the launcher; another one is started for the next process."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.pid = 0

    def _serves(self) -> bool:
        """Start the launcher if it does not run; return False if it cannot be started."""
        if self._socket is not None:
            return True
        if not self.program:
            return False
        ours, its = socket.socketpair()
        with its:
            # Not by Python, which would wait before each call.
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(_PATIENCE_TO_START, 0))
            its.set_inheritable(True)
            try:
                self.pid = os.posix_spawn(self.program, [b"cress-launcher", b"%d" % its.fileno()], {})
            except OSError as error:
                ours.close()
                self._say(f"{self.program} cannot be executed ({error.strerror}); tasks are started by fork")
                self.program = ""
                return False
        self._socket = ours
        return True


def find(home: Path, say: Callable[[str], None]) -> Launcher:
    """Return the launcher, built if necessary; one that starts nothing if there is none, which the operator is told.

    ``home`` is the executor's directory.
    """
    problem = ""
    for place in (SOURCE.parent, home):
        path = place / name()
        try:
            if not path.exists():
                build(path)
            if _works(path):
                return Launcher(str(path), say)
            problem = f"{path} cannot be executed"
        except OSError as error:
            problem = str(error)
    say(f"there is no launcher, so tasks are started by fork, which takes longer: {problem}")
    return Launcher("", say)


def name() -> str:
    """Return the name of the program's file, for this processor and this source."""
    source = SOURCE.read_bytes() + SOURCE.with_name(PART).read_bytes()
    return f"launcher-{platform.machine()}-{zlib.crc32(source):08x}"


def build(path: Path) -> None:
    """Compile the program. Raise OSError, with a sentence, if that is not possible here."""
    compiler = next((found for known in _COMPILERS if (found := shutil.which(known))), None)
    if compiler is None:
        raise OSError(f"no C compiler was found ({', '.join(_COMPILERS)})")
    import tempfile

    # In a folder of its own beside the file: others may build it at the same time.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".launcher-") as folder:
        made = Path(folder, "launcher")
        command = [compiler, *_FLAGS, "-o", str(made), str(SOURCE)]
        null, pipe, errors = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
        try:
            ran = subprocess.run(command, stdin=null, stdout=pipe, stderr=errors, timeout=_PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise OSError(f"{compiler} did not end within {_PATIENCE:g} s") from None
        if ran.returncode or not made.exists():
            said = " ".join(ran.stdout.decode(errors="replace").split())
            raise OSError(f"{compiler} could not build it: {said[:300]}")
        made.chmod(0o755)
        made.replace(path)


def _works(path: Path) -> bool:
    """Return whether the program runs here: without orders it says so."""
    reading, writing = os.pipe()
    try:
        child = os.posix_spawn(path, [path.name], {}, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 2)])
    except OSError:
        child = 0
    os.close(writing)
    said = os.read(reading, len(_NO_ORDERS) + 1)
    os.close(reading)
    if child:
        os.waitpid(child, 0)
    return said == _NO_ORDERS


if __name__ == "__main__":
    # ``make warm``: an executor says later what is missing. Those of earlier sources are removed.
    for old in SOURCE.parent.glob(f"launcher-{platform.machine()}-*"):
        if old.name != name():
            old.unlink()
    find(SOURCE.parent, lambda sentence: print(sentence, file=sys.stderr))  # noqa: T201
