"""TLS handshakes of strangers: counted from the first packet on, so that no address keeps the others out.

A server of an event loop shows a connection only after its handshake. Until then nothing counts it, and a client that
opens thousands and says nothing uses up the descriptors. So the loop accepts such connections itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl as tls
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import uvloop

from cress.center.web.sign_ins import network_of

# Connections that are accepted before other work has its turn; seconds without an attempt if no descriptor is left.
AT_ONCE, AGAIN = 32, 0.1
# Connections that the kernel keeps until they are accepted.
BACKLOG = 1_024

H = TypeVar("H")

_log = logging.getLogger("cress.center")


class Handshakes(Generic[H]):
    """The handshakes under way in the order of their beginning; at most ``most``, of all addresses together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._all: dict[H, str] = {}
        self._of: dict[str, dict[H, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[H]:
        return iter(self._all)

    def surplus(self, address: str) -> H | None:
        """Return the handshake that gives way to a new one of this address; None if there is room.

        An address with half of the places gives way itself; else the oldest of all does.
        """
        if len(self._all) < self.most:
            return None
        own = self._of.get(network_of(address), {})
        return next(iter(own if 2 * len(own) >= self.most else self._all))

    def begun(self, address: str, handshake: H) -> None:
        """Note a new handshake."""
        name = network_of(address)
        self._all[handshake] = name
        self._of.setdefault(name, {})[handshake] = None

    def over(self, handshake: H) -> None:
        """Note that a handshake has succeeded or failed, or gives way."""
        name = self._all.pop(handshake, None)
        if name is not None:
            del self._of[name][handshake]
            if not self._of[name]:
                del self._of[name]


class TlsDoor(asyncio.AbstractServer):
    """A server on one socket whose connections speak TLS."""

    def __init__(
        self,
        factory: Callable[[], asyncio.Protocol],
        sock: socket.socket,
        context: tls.SSLContext,
        patience: float | None,
        most: int,
    ) -> None:
        """``patience``: seconds for a handshake; ``most``: handshakes at a time."""
        self._factory, self._sock, self._context, self._patience = factory, sock, context, patience
        self._loop = asyncio.get_running_loop()
        self._handshakes: Handshakes[asyncio.Task[None]] = Handshakes(most)
        # Connections whose handshakes have not begun: the event loop does not own them yet.
        self._fresh: dict[asyncio.Task[None], socket.socket] = {}
        self._again: asyncio.TimerHandle | None = None
        self._serving = False

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The socket, while it is served."""
        return (self._sock,) if self._serving else ()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop."""
        return self._loop

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._serving

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        if not self._serving:
            self._serving = True
            self._loop.add_reader(self._sock, self._accept)

    async def serve_forever(self) -> None:
        """Accept connections until cancelled."""
        await self.start_serving()
        try:
            await asyncio.Event().wait()
        finally:
            self.close()

    def close(self) -> None:
        """Accept nothing more, close the socket, and end the handshakes."""
        if not self._serving:
            return
        self._serving = False
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for handshake in list(self._handshakes):
            handshake.cancel()

    async def wait_closed(self) -> None:
        """Return when the handshakes have ended; open connections are not waited for."""
        under_way = list(self._handshakes)
        if under_way:
            await asyncio.wait(under_way)

    def _accept(self) -> None:
        """Accept some of the connections that wait."""
        for _ in range(AT_ONCE):
            try:
                connection, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            connection.setblocking(False)
            address = str(peer[0])
            giving_way = self._handshakes.surplus(address)
            if giving_way is not None:
                self._handshakes.over(giving_way)
                giving_way.cancel()
            task = self._loop.create_task(self._shake_hands(connection), name="TLS handshake")
            self._fresh[task] = connection
            self._handshakes.begun(address, task)
            task.add_done_callback(self._over)

    def _pause(self, error: OSError) -> None:
        """Accept nothing for a moment, since there is no descriptor, and let the oldest handshake give way."""
        _log.warning("a connection cannot be accepted: %s", error.strerror)
        oldest = next(iter(self._handshakes), None)
        if oldest is not None:
            self._handshakes.over(oldest)
            oldest.cancel()
        self._loop.remove_reader(self._sock)
        self._again = self._loop.call_later(AGAIN, self._loop.add_reader, self._sock, self._accept)

    async def _shake_hands(self, connection: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        del self._fresh[task]
        # Whoever fails is told by TLS; the center has nothing to add.
        with contextlib.suppress(OSError, tls.SSLError, TimeoutError):
            await self._loop.connect_accepted_socket(
                self._factory, connection, ssl=self._context, ssl_handshake_timeout=self._patience
            )

    def _over(self, handshake: asyncio.Task[None]) -> None:
        self._handshakes.over(handshake)
        fresh = self._fresh.pop(handshake, None)
        if fresh is not None:
            fresh.close()
        if not handshake.cancelled() and (error := handshake.exception()) is not None:
            _log.error("a TLS handshake failed", exc_info=error)


class TlsDoors(asyncio.AbstractEventLoop):
    """An event loop whose servers with TLS are doors; ``most_handshakes`` are under way at a time on each."""

    most_handshakes = 10_000

    async def create_server(self, protocol_factory: Any, *args: Any, **more: Any) -> Any:
        """Serve as the loop does, or by a door if ``sock`` and ``ssl`` are given."""
        context, sock = more.get("ssl"), more.get("sock")
        if context is None or sock is None:
            return await super().create_server(protocol_factory, *args, **more)
        sock.setblocking(False)
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.listen(more.get("backlog", BACKLOG))
        door = TlsDoor(protocol_factory, sock, context, more.get("ssl_handshake_timeout"), self.most_handshakes)
        if more.get("start_serving", True):
            await door.start_serving()
        return door


class CenterLoop(TlsDoors, uvloop.Loop):  # type: ignore[misc]
    """The event loop of a center."""
