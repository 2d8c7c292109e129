"""A fork of the present process that is kept, and answers questions about the state of the moment it was made.

To fork costs more than to answer, if the state is large. So many questions share one fork.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable

from cress.center.process.forks import PR_SET_PDEATHSIG

# Seconds after which a fork that does not answer is given up.
PATIENCE = 60.0
# The name of a thread that waits for the end of a fork.
ENDING = "fork that ends"
_STDERR = 2
# The center goes first. With 10 a question waits three times as long where other programs keep the processors busy.
NICE = 5
# The length of a message comes before it; this one says that there is no answer.
_WIDTH = 4
_NONE = 2 ** (8 * _WIDTH) - 1


class KeptFork:
    """A fork that answers questions by ``answer``, one after the other, until it is closed. Raises OSError.

    It ends with this process at the latest.
    """

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        libc, parent = ctypes.CDLL(None), os.getpid()
        ours, theirs = socket.socketpair()
        try:
            self._pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if self._pid:
            theirs.close()
            ours.settimeout(PATIENCE)
            self._socket = ours
            return
        # It must not affect this process: it keeps no other descriptor open and runs no destructor.
        try:
            gc.disable()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.closerange(3, theirs.fileno())
            os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
            os.nice(NICE)
            if os.getppid() == parent:
                _serve(theirs, answer)
        finally:
            os._exit(0)

    def ask(self, question: bytes) -> bytes | None:
        """Return the answer to a question; ``None`` if the fork has failed or hangs. Runs in a thread."""
        try:
            self._socket.sendall(len(question).to_bytes(_WIDTH) + question)
            return _received(self._socket)
        except OSError:
            return None

    def close(self) -> None:
        """End the fork."""
        self._socket.close()
        # It may be in the middle of an answer that nobody waits for.
        os.kill(self._pid, signal.SIGKILL)
        # To return the memory of a large state takes the kernel a while, for which nobody should wait.
        threading.Thread(target=os.waitpid, args=(self._pid, 0), name=ENDING, daemon=True).start()


def _serve(connection: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    while (question := _received(connection)) is not None:
        try:
            data = answer(question)
        except Exception:  # noqa: BLE001 – the next question may have an answer
            os.write(_STDERR, traceback.format_exc().encode())
            connection.sendall(_NONE.to_bytes(_WIDTH))
        else:
            connection.sendall(len(data).to_bytes(_WIDTH) + data)


def _received(connection: socket.socket) -> bytes | None:
    """Return the next message; ``None`` if there is none, or at the end."""
    size = _exactly(connection, _WIDTH)
    number = _NONE if size is None else int.from_bytes(size)
    return None if number == _NONE else _exactly(connection, number)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts, left = [], size
    while left:
        part = connection.recv(left)
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
