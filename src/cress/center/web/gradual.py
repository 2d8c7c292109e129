"""HTTP connections whose requests are parsed in parts: other work has its turn in between.

A client may send thousands of small requests, or of small chunks of a body, in one go. The parser calls a function for
each, so what was read at once could hold the event loop for a tenth of a second.
"""

from __future__ import annotations

import asyncio
import time

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Bytes of one part, and seconds for which parts are parsed without a pause.
PART, SLICE = 2_048, 0.002


class _Flow(FlowControl):
    """Flow control that does not resume reading while it is ``held``."""

    held = False

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()


class GradualProtocol(HttpToolsProtocol):
    """A connection that reads on when all that it has read was parsed, and answers one request after another."""

    _rest = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        self.flow = _Flow(transport)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of one or more requests."""
        if self._rest:
            self._rest += data
        elif len(data) <= PART:
            self.parse(data)
        else:
            self._rest = data
            self._go_on()

    def parse(self, data: bytes) -> None:
        """Parse one part."""
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Note the end of an answer."""
        super().on_response_complete()
        if self._rest and not self.pipeline and not self.transport.is_closing():
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Parse further parts, until it takes long or a request has to wait for the answer to the one before."""
        assert isinstance(self.flow, _Flow)
        begun = time.perf_counter()
        rest, done = self._rest, 0
        while done < len(rest) and not self.pipeline:
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                # It is over, or a WebSocket now.
                done = len(rest)
                break
            if time.perf_counter() - begun > SLICE:
                self.loop.call_soon(self._go_on)
                break
            self.parse(rest[done : done + PART])
            done += PART
        self._rest = rest[done:]
        held, self.flow.held = self.flow.held, bool(self._rest)
        if self.flow.held:
            self.flow.pause_reading()
        elif held:
            self.flow.resume_reading()
