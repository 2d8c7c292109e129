"""Timeouts of API connections: a client that sends slowly, or nothing at all, is disconnected."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterable
from typing import Any

from cress.center.access.callers import peer_of
from cress.center.web.gradual import GradualProtocol
from cress.center.web.idle_connections import LONG, IdleConnections
from cress.center.web.request_rates import Admissions

# Seconds for the first byte of a connection, for the head of a request, and for its body. A slow body gets its answer
# (see ``bodies``) before the connection is closed.
SILENT, HEAD, BODY = 20.0, 10.0, 65.0
# Seconds for the rest of a body that is answered already.
ANSWERED = 2.0
# Connections of one address that may say nothing, or not who they are, for longer than ``SOON`` seconds.
MOST_SILENT, SOON = 256, 1.0
# Seconds after which an idle connection is closed in favour of a new one, when its address has too many.
YOUNG = 0.02
# Most bytes of a head: the address, the headers, line breaks.
MOST_HEAD = 64 * 2**10
# Further connections are closed at once, since files and executors need descriptors too.
MOST_CONNECTIONS = 20_000
SPARE_FILES = 512
MOST_SIGNING_IN = 10_000
LOOK_EVERY = 1.0


class TimedProtocol(GradualProtocol):
    """A connection that is closed at ``due``, on the loop's clock in seconds (None: never).

    Until its caller has signed in, it gives way to others of its address.
    """

    due: float | None = None
    admissions = Admissions(0, MOST_CONNECTIONS)
    idle: IdleConnections[TimedProtocol] = IdleConnections()
    _head = -1  # bytes so far, -1 outside of a head
    ending = 0  # connections that are closed in a moment, since their address has too many
    _address = ""  # of the client; empty on a Unix socket

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        client = self.client
        # Each request of the connection gets a copy.
        self.app_state = {**self.app_state, "abort": transport.abort, "signed_in": self._signed_in}
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is not None:
            self.app_state["peer"] = peer
        self.due = self.loop.time() + SILENT
        if peer is not None or not client:
            return
        if not self.admissions.admit(client[0], len(self.connections), self._make_room(client[0])):
            # Closed without an answer, which would cost more than the request.
            transport.abort()
            return
        self._address = client[0]
        self.idle.opened(client[0], self, self.loop.time())

    def _make_room(self, address: str) -> int:
        """Have an idle connection closed if its address has too many; return the number of those that will be closed.

        When many connections arrive together, all idle ones may be so new that nothing was read from them yet. Then
        one is closed a moment later.
        """
        kind = type(self)
        if self.admissions.is_full(address, len(self.connections), kind.ending):
            if kind.ending >= self.admissions.most:
                return 0
            kind.ending += 1
            self._close_soon(address)
        return kind.ending

    def _close_soon(self, address: str) -> None:
        self.loop.call_later(YOUNG, self._close_oldest, address, self.loop.time() + YOUNG)

    def _close_oldest(self, address: str, due: float) -> None:
        now = self.loop.time()
        if now - due > LONG / 2:
            # The event loop was held up: what others have said meanwhile is not read yet, so they look silent.
            self._close_soon(address)
            return
        type(self).ending -= 1
        found = self.idle.oldest(address, now)
        if found is not None and self.admissions.is_full(address, len(self.connections)):
            found.transport.abort()
            found.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.leave()
        super().connection_lost(exc)

    def leave(self) -> None:
        """Count this connection no longer."""
        self.idle.busy(self._address, self)
        if self._address:
            self.admissions.left(self._address)
            self._address = ""

    def parse(self, data: bytes) -> None:
        """Parse one part of what was received."""
        super().parse(data)
        if self._head >= 0:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Note the first byte of a request."""
        super().on_message_begin()
        self._head = 0
        self.due = self.loop.time() + HEAD

    def on_headers_complete(self) -> None:
        """Note the end of a head."""
        self._head = -1
        if self._address:
            self.idle.asked(self._address, self, self.loop.time())
        self.due = self.loop.time() + BODY
        super().on_headers_complete()

    def _signed_in(self) -> None:
        """Note that the caller of the request under way is known."""
        self.idle.busy(self._address, self)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over: it does not wait for requests any more."""
        self.idle.busy(self._address, self)
        super().handle_websocket_upgrade()

    def on_message_complete(self) -> None:
        """Note the end of a body; from then on the client waits, or is idle between two requests."""
        self.due = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note the end of an answer."""
        is_last = not self.pipeline and self._head < 0
        super().on_response_complete()
        if is_last and self._address and not self.transport.is_closing():
            if self.due is not None:
                # Its body was not wanted, such as that of a caller who is not known.
                self.due = self.loop.time() + ANSWERED
            self.idle.answered(self._address, self, self.loop.time())


async def close_overdue(connections: Callable[[], Iterable[Any]]) -> None:
    """Close overdue connections, every second."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(LOOK_EVERY)
        now = loop.time()
        clients = [getattr(connection, "client", None) for connection in connections()]
        TimedProtocol.admissions.recount(client[0] for client in clients if client and client[0])
        for silent in TimedProtocol.idle.surplus(MOST_SILENT, now - SOON):
            silent.transport.abort()
        for connection in [connection for connection in connections() if isinstance(connection, TimedProtocol)]:
            if connection.due is not None and connection.due <= now:
                connection.transport.close()


def allow_files(rate: int = 0) -> int:
    """Raise the limit of descriptors as far as allowed, and bound the API connections by it.

    ``rate`` bounds the new connections of one address in a second. Return how many executors may sign in at a time.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    free = 4 * MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else max(128, hard - SPARE_FILES)
    TimedProtocol.admissions = Admissions(rate, min(MOST_CONNECTIONS, free // 2))
    return min(MOST_SIGNING_IN, free // 4)
