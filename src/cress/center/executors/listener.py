"""The listener: a WebSocket server for executors, on a separate port."""

from __future__ import annotations

import asyncio
import logging
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from cress.center.committing.committer import Committer
from cress.center.connections.bulk import BulkWire
from cress.center.connections.connection_table import Connection
from cress.center.connections.executor_wire import Handshake, Wire
from cress.center.executors.local_executors import Locals, recognise
from cress.center.files.topology import Topology
from cress.center.process.turns import all_in_turns
from cress.center.tls.node_renewal import renew_node
from cress.center.web.request_rates import Admissions
from cress.model.errors import InputError
from cress.model.events import RacksSet
from cress.model.times import SECOND
from cress.protocol.large_messages import LARGE
from cress.protocol.messages import MOST_BYTES, Bulk, ExecData, ExecOver, FileList, FromAgent, Hello, LogData, Refused
from cress.protocol.proof import ProofError
from cress.shell.center.effects import AskEpoch, Close, Effect, Ping, Send, Session
from cress.shell.center.session import decoded, decoding

if TYPE_CHECKING:
    from cress.center.tls.server import CenterTls

# Seconds within which an executor must send its proof and its first message.
HELLO_TIMEOUT = 10.0
# Seconds between two pings to an executor; shorter if terms are short, so that a dead executor is noticed in time.
PING, LEAST_PING = 20.0, 2.0
# WebSocket close codes.
GOING_AWAY, PROTOCOL_ERROR, POLICY, TRY_AGAIN = 1001, 1002, 1008, 1013

REVOKED = Refused(
    what="the certificate of this node was revoked", hint="a new bundle: `cress tls issue NODE`", permanent=True
)

_log = logging.getLogger("cress.executors")


class _Connection(ServerConnection):
    """A connection that counts as signing in until its executor is known."""

    admissions = Admissions(0, 10_000)
    signing_in = 0
    _address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return
        kind = type(self)
        if not kind.admissions.admit(str(peer[0]), kind.signing_in + 1):
            self.transport.abort()
            return
        kind.signing_in += 1
        self._address = str(peer[0])

    def connection_lost(self, exc: Exception | None) -> None:
        self.known()
        super().connection_lost(exc)

    def known(self) -> None:
        """Stop counting this connection as signing in."""
        if self._address:
            type(self).signing_in -= 1
            type(self).admissions.left(self._address)
            self._address = ""


class Listener:
    """Drives the sessions of executors: passes on their messages, and sends those of the center."""

    def __init__(
        self, committer: Committer, token: str, tls: CenterTls | None = None, most_signing_in: int = 10_000
    ) -> None:
        """With ``tls`` executors that connect over the network must show certificates."""
        _Connection.admissions = Admissions(0, most_signing_in)
        self._committer = committer
        self._tls = tls
        if tls is not None:
            tls.when_revoked = self._close_revoked
        self._handshake = Handshake(token)
        self._wires: dict[Session, Wire] = {}
        self._servers: list[Server] = []
        self._locals: asyncio.Task[None] | None = None

    async def start(self, *socks: socket.socket) -> None:
        """Serve on bound sockets."""
        # The library logs every malformed handshake, and a port scan must not fill the log.
        quiet = logging.getLogger("cress.executors.wire")
        quiet.setLevel(logging.CRITICAL)
        ping = max(LEAST_PING, min(PING, self._committer.machine.core.options.term / SECOND / 3))
        for sock in socks:
            server = await serve(
                self._serve,
                sock=sock,
                create_connection=_Connection,
                **self._secured(sock),
                process_request=self._check,
                process_response=self._handshake.answer,
                origins=[None],
                compression=None,
                max_size=MOST_BYTES,
                server_header=None,
                logger=quiet,
                close_timeout=1,
                ping_interval=ping,
                ping_timeout=ping,
            )
            self._servers.append(server)
        self._locals = asyncio.create_task(Locals(self._committer).run(), name="executors of this machine")

    def _secured(self, sock: socket.socket) -> dict[str, Any]:
        """Return the TLS options for a socket; none for a Unix socket."""
        if self._tls is None or sock.family == socket.AF_UNIX:
            return {}
        return {"ssl": self._tls.executors, "ssl_handshake_timeout": HELLO_TIMEOUT}

    def arrange(self, topology: Topology) -> None:
        """Set the racks of nodes whose executors name none."""
        committer = self._committer
        known = committer.machine
        if (known.neighbours, known.distances) != (topology.neighbours, topology.distances):
            committer.post(RacksSet(neighbours=topology.neighbours, distances=topology.distances))
        committer.carry_out(committer.sessions.arrange(topology.racks))

    async def stop(self) -> None:
        """Close all connections."""
        if self._locals is not None:
            self._locals.cancel()
        self._committer.close_all("the center stops")
        for server in self._servers:
            server.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        refusal = self._handshake.check(connection, request)
        committer = self._committer
        # A leader that wakes does not know yet whether it still leads, and an executor that connects now would leave
        # the real leader.
        leads = committer.election.is_confirmed() and not committer.loop.is_replaced and not committer.is_finishing
        if refusal is None and not leads:
            problem = committer.problem or "another center may lead"
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, problem + "\n")
        return refusal

    async def _serve(self, connection: ServerConnection) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT):
                wire = await self._handshake.admit(connection)
                data = await wire.receive()
        except TimeoutError:
            await connection.close(PROTOCOL_ERROR, "no Hello")
        except ProofError as error:
            await connection.close(POLICY, str(error))
        except ConnectionClosed:
            pass
        else:
            await self._converse(wire, data)

    async def _converse(self, wire: Wire, first: str | bytes) -> None:
        if isinstance(wire.connection, _Connection):
            wire.connection.known()
        session, committer = _session(wire), self._committer
        hello: FromAgent | InputError | None
        try:
            hello = await self._decoded(first, session)
        except InputError as error:
            hello = error
        if isinstance(hello, Bulk):
            await self._converse_in_bulk(wire, hello)
            return
        sessions = committer.sessions
        connection = Connection(session)
        committer.connections.add(connection)
        self._wires[session] = wire
        writer = asyncio.create_task(_write(wire, connection), name="orders to an executor")
        renewal = None
        if self._tls is not None and wire.certified is not None:
            renewal = asyncio.create_task(renew_node(self._tls, wire.certificate, connection.put), name="certificates")
        try:
            if isinstance(hello, InputError):
                refused = Refused(what=hello.what, hint=hello.hint, permanent=True)
                committer.carry_out((Send(session, refused), Close(session, "refused", refused=True)))
                return
            if self._is_revoked(wire):
                committer.carry_out((Send(session, REVOKED), Close(session, "revoked", refused=True)))
                return
            local = recognise(hello) if isinstance(hello, Hello) else None
            await self._carry_out(sessions.hello(session, hello, committer.clock.now(), local))
            while True:
                message = await self._decoded(await wire.receive(), session)
                if isinstance(message, (LogData, FileList, ExecData, ExecOver)):
                    connection.heard(message)
                elif message is not None:
                    committer.carry_out(sessions.received(session, message, committer.clock.now()))
        except InputError as error:
            _log.warning("node %s: %s", session.name, error)
            connection.close(Close(session, str(error)))
        except ProofError as error:
            _log.warning("node %s: %s; the connection is closed", session.name, error)
            connection.close(Close(session, str(error), refused=True))
        except ConnectionClosed:
            pass
        finally:
            if renewal is not None:
                renewal.cancel()
            connection.close(Close(session, "gone"))
            committer.carry_out(sessions.gone(session))
            await writer
            committer.connections.remove(connection)
            del self._wires[session]

    async def _converse_in_bulk(self, wire: Wire, hello: Bulk) -> None:
        """Pass on logs and commands over the second connection of an executor."""
        connection = self._committer.connections.with_ticket(hello.name, hello.ticket)
        known = wire.certified is None or hello.name in wire.certified
        if connection is None or connection.ending is not None or not known or self._is_revoked(wire):
            await wire.close(POLICY, "no session of this executor has such a ticket")
            return
        session = connection.session
        bulk = BulkWire(wire, lambda data: decoded(data, session), connection)
        connection.opened(bulk)
        why = ""
        try:
            why = await bulk.serve()
        finally:
            if why:
                _log.warning("node %s: %s", session.name, why)
            connection.closed(bulk, why)

    async def _decoded(self, data: str | bytes, session: Session) -> FromAgent | None:
        """Decode a message; other work has its turn meanwhile. Raises InputError."""
        if len(data) >= LARGE:
            self._committer.large_bytes += len(data)
            committer = self._committer
            message = await all_in_turns(decoding(data, session))
            return await all_in_turns(committer.sessions.examining(message, committer.clock.now()))
        return await all_in_turns(decoding(data, session))

    def _is_revoked(self, wire: Wire) -> bool:
        return self._tls is not None and wire.certified is not None and self._tls.is_revoked(wire.certificate)

    def _close_revoked(self) -> None:
        """Close the connections of executors whose certificates were revoked."""
        for session, wire in self._wires.items():
            connection = self._committer.connections.of(session)
            if connection is not None and self._is_revoked(wire):
                connection.close(Close(session, "its certificate was revoked", refused=True))

    async def _carry_out(self, effects: list[Effect]) -> None:
        """Carry out the effects of a handshake."""
        committer = self._committer
        for effect in effects:
            if isinstance(effect, Ping):
                wire = self._wires.get(effect.session)
                alive = wire is not None and await wire.is_alive()
                now = committer.clock.now()
                committer.carry_out(committer.sessions.pinged(effect.rival, effect.session, now, alive=alive))
            elif isinstance(effect, AskEpoch):
                await committer.compare_epochs(effect.session)
            else:
                committer.carry_out((effect,))
        committer.carry_out(())


def _session(wire: Wire) -> Session:
    return Session(has_sent_token=wire.has_sent_token, certified=wire.certified)


async def _write(wire: Wire, connection: Connection) -> None:
    """Send the messages of a connection until it is to be closed."""
    try:
        while messages := await connection.messages():
            for message in messages:
                await wire.send(message)
        ending = connection.ending
        assert ending is not None
        if ending.abort:
            wire.abort()
        else:
            code = POLICY if ending.refused else TRY_AGAIN if ending.retry else GOING_AWAY
            await wire.close(code, ending.reason[:100])
    except ConnectionClosed:
        pass
