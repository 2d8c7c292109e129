"""The launcher: a small program in C that becomes the program of an attempt, in place of a fork of the supervisor.

A fork copies the tables of a Python process, and the child runs Python until it executes. Both take longer than the
start of the program itself. The launcher is started by ``posix_spawn``, and gets its orders as arguments: see
``launcher.c``. Without it, ``ProcessRuntime`` forks; both do the same.

The program is built where a C compiler is: with the wheel, by ``make setup``, or at the first use. Its file is beside
this one, or in the executor's directory if this folder cannot be written. The name has the processor and a checksum of
the source, so the program of another release is never used.

This module imports only the standard library, since the build of the wheel loads it alone
(``tools/build_launcher.py``).
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("launcher.c")
_COMPILERS = ("cc", "gcc", "clang")
# It uses no library, and what distributions add for safety needs one.
_FLAGS = (
    "-O2 -std=c11 -ffreestanding -fno-builtin -fno-stack-protector -fno-pie -no-pie -static -nostdlib -nostartfiles "
    "-fno-asynchronous-unwind-tables -Wl,--build-id=none -Wl,-z,noexecstack -s"
).split()
# Seconds for the compiler, which usually takes 0.1.
_PATIENCE = 60.0
# What the program says without orders.
_NO_ORDERS = b"launcher %d" % errno.EINVAL


class Launcher:
    """A launcher that works on this node: ``program`` is its path. ``say`` tells the operator if it works no longer."""

    def __init__(self, program: str, say: Callable[[str], None]) -> None:
        self.program = program
        self._say = say

    def start(self, orders: list[bytes], environment: Mapping[bytes, bytes]) -> int:
        """Start a process with these orders; return its pid, or 0 if only a fork can start it. Raise OSError.

        The caller's descriptors that the orders name must be inheritable.
        """
        if not self.program:
            return 0
        try:
            return os.posix_spawn(self.program, [b"cress-launcher", *orders], environment)
        except ValueError:
            return 0  # an environment that no program can have, which the fork reports
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise
            if error.errno != errno.E2BIG:
                # With the orders a command may be too long that is not too long by itself.
                self._say(f"{self.program} cannot be executed any more ({error.strerror}); tasks are started by fork")
                self.program = ""
            return 0


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
    return f"launcher-{platform.machine()}-{zlib.crc32(SOURCE.read_bytes()):08x}"


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
    # ``make setup`` and ``make warm``: an executor says later what is missing.
    find(SOURCE.parent, lambda sentence: print(sentence, file=sys.stderr))  # noqa: T201
