"""The sockets of the DNS responder: UDP and TCP at one address, with limits on questions and connections."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from cress.center.dns.zone import Zone, labels_by_group
from cress.center.keeping.name_feed import NameFeed
from cress.center.web.request_rates import Admissions, Buckets
from cress.lifecycle.name_table import PlaceChange
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.center.dns.answers import Answers

PORT = 53
# Seconds until listening is tried again.
RETRY = 1.0
# Seconds for which the names of services are kept.
LOOK = 1.0
# Questions in a second from one address, and from all; answers in a second that are not cached.
ADDRESS_RATE, RATE, NEW_RATE = 1_000, 10_000, 500
# Connections at a time, half of them from one address; seconds for which one may be idle.
MOST_CONNECTIONS, IDLE = 200, 10.0
# Most cached answers, seconds for which they are kept (less if a change comes), and most bytes of one.
MOST_CACHED, CACHED, MOST_CACHED_BYTES = 2_000, 0.1, 4_096
_EVERYBODY = ""


class Bounded:
    """Answers within rate limits; questions beyond them get no answer.

    Answers are cached, so a repeated question is computed once in a while.
    """

    def __init__(self, answers: Answers, clock: Callable[[], float] = time.monotonic) -> None:
        self._answers = answers
        self._clock = clock
        self._addresses, self._all, self._new = (Buckets(rate, 1) for rate in (ADDRESS_RATE, RATE, NEW_RATE))
        self._cache: dict[tuple[bool, bytes], bytes] = {}
        self._cached_at = 0.0

    def __call__(self, wire: bytes, address: str, stream: bool) -> bytes | None:
        """Return the answer for the sender at an address; None if there is none."""
        now = self._clock()
        if self._addresses.take(address, now) or self._all.take(_EVERYBODY, now):
            return None
        if now - self._cached_at > CACHED:
            self.forget()
            self._cached_at = now
        key = (stream, wire[2:])
        known = self._cache.get(key)
        if known is None:
            if self._new.take(_EVERYBODY, now):
                return None
            answer = self._answers.answer(wire, stream=stream)
            if answer is None:
                return None
            known = answer[2:]
            if len(known) <= MOST_CACHED_BYTES and len(self._cache) < MOST_CACHED:
                self._cache[key] = known
        return wire[:2] + known

    def forget(self) -> None:
        """Drop all cached answers after a change."""
        self._cache.clear()


class _Datagrams(asyncio.DatagramProtocol):
    """Questions by UDP."""

    def __init__(self, answer: Bounded) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transport of uvloop is not a subclass.
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        if not addr[1]:
            return
        answer = self._answer(data, str(addr[0]), stream=False)
        if answer is not None and not self._transport.is_closing():
            self._transport.sendto(answer, addr)


class DnsServer:
    """The DNS responder of a running center: UDP and TCP at one address."""

    def __init__(
        self,
        feed: NameFeed,
        address: tuple[str, int],
        domain: str,
        *,
        services: Callable[[], Iterable[tuple[str, str]]],
        is_serving: Callable[[], bool],
    ) -> None:
        """``services`` returns groups and names; ``is_serving`` returns False once another center leads.

        Raises InputError if dnspython is not installed.
        """
        check_library()
        from cress.center.dns.answers import Answers

        self._feed = feed
        self._address = address
        self._services = services
        self._labels: Mapping[str, frozenset[str]] = {}
        self._looked_at = 0.0
        self._zone = Zone(self._service_labels)
        host = ipaddress.ip_address(address[0])
        servers = [] if host.is_unspecified else [str(host)]
        answers = Answers(self._zone, domain, servers, lambda: feed.table.revision.number, is_serving)
        self._bounded = Bounded(answers)
        self._admissions = Admissions(0, MOST_CONNECTIONS)
        self._open: set[asyncio.Task[None]] = set()
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.Server | None = None

    async def run(self, say: Callable[[Exception], None]) -> None:
        """Answer questions until cancelled. If listening fails, report the error and try again."""
        self._load()
        self._feed.when_loaded.append(self._load)
        self._feed.when_changed.append(self._change)
        told = False
        try:
            while True:
                try:
                    await self._listen()
                except (InputError, OSError) as error:
                    if not told:
                        say(error)
                    told = True
                    await asyncio.sleep(RETRY)
                else:
                    await asyncio.Event().wait()
        finally:
            await self._stop()

    async def _listen(self) -> None:
        udp, tcp = bound(self._address)
        loop = asyncio.get_running_loop()
        self._udp, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self._bounded), sock=udp)
        self._tcp = await asyncio.start_server(self._connected, sock=tcp)

    async def _stop(self) -> None:
        """Stop listening, and end the connections."""
        if self._udp is not None:
            self._udp.close()
        if self._tcp is not None:
            self._tcp.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _load(self) -> None:
        self._zone.load(self._feed.table)
        self._bounded.forget()

    def _change(self, changes: list[PlaceChange]) -> None:
        self._zone.change(changes)
        self._bounded.forget()

    def _service_labels(self) -> Mapping[str, frozenset[str]]:
        now = time.monotonic()
        if now - self._looked_at > LOOK or not self._looked_at:
            self._looked_at = now
            self._labels = labels_by_group(self._services())
        return self._labels

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        address = str(writer.get_extra_info("peername")[0])
        admitted = self._admissions.admit(address, len(self._open))
        try:
            if admitted:
                await self._converse(reader, writer, address)
        except (OSError, EOFError, TimeoutError):
            pass
        finally:
            self._open.discard(task)
            if admitted:
                self._admissions.left(address)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        """Answer the questions of a connection one after another (RFC 7766), until one gets no answer."""
        while True:
            async with asyncio.timeout(IDLE):
                size = int.from_bytes(await reader.readexactly(2), "big")
                answer = self._bounded(await reader.readexactly(size), address, stream=True)
                if answer is None:
                    return
                writer.write(len(answer).to_bytes(2, "big") + answer)
                await writer.drain()


def check_library() -> None:
    """Raise InputError if dnspython is not installed."""
    try:
        import dns.message  # noqa: F401
    except ModuleNotFoundError as error:
        hint = "pip install 'cress[dns]'"
        raise InputError(f"{error.name} is not installed", hint=hint, field="--dns") from None


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``ADDRESS:PORT``, ``[ADDRESS]:PORT`` or ``ADDRESS``. Raises InputError."""
    host, port = text, str(PORT)
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if closed and rest else port if closed else ""
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        number = int(port) if port.isascii() and port.isdigit() else -1
        if not 0 <= number <= 65_535:
            raise ValueError  # noqa: TRY301
        return str(ipaddress.ip_address(host)), number
    except ValueError:
        raise InputError(
            f"{text!r} is not an address at which DNS questions can come in",
            hint="an IP address and a port, such as 10.0.0.1:53, 127.0.0.1:5300 or [::1]:5300",
            field="--dns",
        ) from None


def check_dns(address: tuple[str, int] | None) -> None:
    """Raise InputError if the responder could not listen at an address, so that a standby reports it in time."""
    if address is not None:
        check_library()
        for sock in bound(address):
            sock.close()


def bound(address: tuple[str, int]) -> tuple[socket.socket, socket.socket]:
    """Return bound sockets for UDP and TCP, with the same port. Raises InputError."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tcp, udp = socket.socket(family, socket.SOCK_STREAM), socket.socket(family, socket.SOCK_DGRAM)
    try:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind((host, port))
        udp.bind((host, tcp.getsockname()[1]))
    except OSError as error:
        tcp.close()
        udp.close()
        privileged = isinstance(error, PermissionError)
        hint = "a port above 1023, or the capability CAP_NET_BIND_SERVICE" if privileged else "another port or address"
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise InputError(f"cannot listen at {where}: {error.strerror}", hint=hint, field="--dns") from None
    tcp.setblocking(False)
    udp.setblocking(False)
    return udp, tcp
