"""The supervisor's end of the socket to the agent: it serves one agent, and a new connection replaces the old one."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from pathlib import Path

from cress.executor.folder import socket_path
from cress.executor.frames import FrameError, Frames, frame

# Bytes that may be queued for an agent; an agent that leaves more unread is disconnected.
MOST_WAITING = 64 * 1024 * 1024


class AgentSocket:
    """Accepts agents and exchanges messages with the latest one.

    ``connected``, ``received`` and ``gone`` are called on these events, ``say`` with messages for the operator.
    """

    def __init__(
        self,
        path: Path,
        selector: selectors.BaseSelector,
        *,
        connected: Callable[[], None],
        received: Callable[[bytes], None],
        gone: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._path = path
        self._selector = selector
        self._on_connected = connected
        self._on_received = received
        self._on_gone = gone
        self._say = say
        self._agent: socket.socket | None = None
        self._frames = Frames()
        self._waiting = bytearray()  # bytes that the agent has not read yet
        self._listener = self._listen()
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def send(self, message: bytes) -> None:
        """Queue a message for the agent; it is sent as the agent reads."""
        self._waiting += frame(message)
        self._flush()

    def hang_up(self) -> None:
        """Close the connection, if there is one."""
        if self._agent is not None:
            self._selector.unregister(self._agent)
            self._agent.close()
            self._agent = None
            self._waiting.clear()
            self._on_gone()

    def close(self) -> None:
        """Stop accepting agents."""
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def detach(self) -> None:
        """Let the kernel close the connection when this process ends, so that the agent notices the end."""
        if self._agent is not None:
            self._agent.detach()

    def _listen(self) -> socket.socket:
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket_path(self._path) as path:
            listener.bind(path)
        self._path.chmod(0o600)
        listener.listen(8)
        listener.setblocking(False)
        return listener

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        self.hang_up()
        connection.setblocking(False)
        self._agent = connection
        self._frames = Frames()
        self._selector.register(connection, selectors.EVENT_READ, self._read)
        self._on_connected()

    def _read(self) -> None:
        agent = self._agent
        if agent is None:
            return
        self._flush()
        try:
            data = agent.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.hang_up()
            return
        try:
            messages = self._frames.feed(data)
        except FrameError as error:
            self._say(f"the agent sent an invalid frame and was disconnected: {error}")
            self.hang_up()
            return
        for message in messages:
            if self._agent is not agent:
                return
            self._on_received(message)

    def _flush(self) -> None:
        if self._agent is None or not self._waiting:
            return
        try:
            sent = self._agent.send(self._waiting)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.hang_up()
            return
        del self._waiting[:sent]
        if len(self._waiting) > MOST_WAITING:
            self._say("the agent no longer reads and was disconnected")
            self.hang_up()
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._waiting else 0)
        if self._selector.get_key(self._agent).events != events:
            self._selector.modify(self._agent, events, self._read)
