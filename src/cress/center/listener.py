"""The door for executors: a WebSocket server on a port of its own."""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
from http import HTTPStatus

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from cress.center.dispatch import Connection
from cress.center.engine import Engine, Reply
from cress.center.local import Locals, recognise
from cress.center.offers import data_of, node_of
from cress.center.topology import Topology
from cress.lifecycle.inputs import DataFound, LoadReported, NodeJoined, NodeLeft, Ports, Reported, SetRacks
from cress.lifecycle.load import is_news, sane
from cress.model.errors import InputError, NotAccepted
from cress.model.node import Node
from cress.model.reports import Ended, Report
from cress.model.times import SECOND
from cress.protocol import messages
from cress.protocol.messages import (
    Beat,
    Data,
    Durable,
    ExecData,
    ExecOver,
    FromAgent,
    Hello,
    LogData,
    Refused,
    Reports,
    Term,
    Welcome,
    decode_from_agent,
    encode,
)

# Seconds that an executor has for its first message, and for the answer to a ping.
HELLO_TIMEOUT = 10.0
ALIVE_TIMEOUT = 2.0
# Seconds between two pings to an executor; less where terms are short, so that one that is gone is not waited for.
PING, LEAST_PING = 20.0, 2.0
MOST_BYTES = 64 * 2**20
# WebSocket close codes.
GOING_AWAY, PROTOCOL_ERROR, POLICY, TRY_AGAIN = 1001, 1002, 1008, 1013

_log = logging.getLogger("cress.executors")


class Listener:
    """Takes executors in, hands their reports to the engine, sends them their orders."""

    def __init__(self, engine: Engine, token: str) -> None:
        self._engine = engine
        self._token = f"Bearer {token}".encode()
        self._sockets: dict[str, ServerConnection] = {}
        self._topology = Topology()
        self._server: Server | None = None
        self._locals: asyncio.Task[None] | None = None

    async def start(self, sock: socket.socket) -> None:
        """Serve on a bound socket."""
        # The library tells of every garbled handshake; a port scan must not fill the log.
        quiet = logging.getLogger("cress.executors.wire")
        quiet.setLevel(logging.CRITICAL)
        ping = max(LEAST_PING, min(PING, self._engine.machine.core.options.term / SECOND / 3))
        self._server = await serve(
            self._serve,
            sock=sock,
            process_request=self._check,
            origins=[None],
            compression=None,
            max_size=MOST_BYTES,
            server_header=None,
            logger=quiet,
            close_timeout=1,
            ping_interval=ping,
            ping_timeout=ping,
        )
        self._locals = asyncio.create_task(Locals(self._engine).run(), name="executors of this machine")

    def arrange(self, topology: Topology) -> None:
        """Racks are as this says from now on, for executors that do not say their own."""
        engine = self._engine
        if engine.machine.neighbours != topology.neighbours:
            engine.post(SetRacks(neighbours=topology.neighbours))
        before, self._topology = self._topology, topology
        for name, connection in engine.dispatcher.connections.items():
            if not connection.rack and before.racks.get(name, "") != topology.racks.get(name, ""):
                # It comes again at once, and is in its new rack then; its tasks do not notice.
                connection.close("its rack is another one now")

    async def stop(self) -> None:
        """Close every connection."""
        if self._locals is not None:
            self._locals.cancel()
        self._engine.dispatcher.drop_all("the center stops")
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        given = request.headers.get_all("Authorization")
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("utf-8", "surrogateescape"), self._token):
            return connection.respond(HTTPStatus.UNAUTHORIZED, "wrong token or none\n")
        if self._engine.problem:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, self._engine.problem + "\n")
        return None

    async def _serve(self, wire: ServerConnection) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT):
                data = await wire.recv()
            try:
                hello = _decoded(data)
                node = self._node(hello)
            except InputError as error:
                await _refuse(wire, error, permanent=True)
                return
            assert isinstance(hello, Hello)
            try:
                self._in_charge(hello)
                await self._only_one(node.name)
            except InputError as error:
                await _refuse(wire, error, permanent=False)
                return
        except TimeoutError:
            await wire.close(PROTOCOL_ERROR, "no Hello")
        except ConnectionClosed:
            pass
        else:
            await self._converse(wire, hello, node)

    def _in_charge(self, hello: Hello) -> None:
        """Raise NotAccepted if another center has given orders to this executor since this one began."""
        ours = self._engine.epoch
        if hello.epoch > ours:
            sentence = f"this center (epoch {ours}) is not in charge any more: node {hello.name} has had orders"
            sentence += f" from another one (epoch {hello.epoch})"
            self._engine.step_back(sentence)
            raise NotAccepted(sentence, hint="the address of the center that is in charge; this one is to be stopped")

    def _node(self, hello: FromAgent) -> Node:
        node = node_of(hello, self._engine.machine.core.dimensions, self._topology.racks)
        assert isinstance(hello, Hello)
        if hello.cluster and self._engine.cluster and hello.cluster != self._engine.cluster:
            raise InputError(
                "the executor's directory belongs to another cluster, whose tasks may still run there",
                hint="another directory for it, or the center of that cluster",
            )
        return node

    async def _only_one(self, name: str) -> None:
        """Raise InputError if an executor of this name is connected and alive; one that is not makes room."""
        other = self._sockets.get(name)
        if other is None:
            return
        try:
            async with asyncio.timeout(ALIVE_TIMEOUT):
                await (await other.ping())
        except (ConnectionClosed, TimeoutError):
            _log.warning("node %s is connected a second time, the first connection was dead", name)
            connection = self._engine.dispatcher.connections.get(name)
            if connection is not None:
                connection.close("another connection took its place")
            self._leave(name, other, connection)
            other.transport.abort()
        else:
            raise InputError(f"a node of the name {name!r} is connected already", hint="a name of its own")

    async def _converse(self, wire: ServerConnection, hello: Hello, node: Node) -> None:
        connection = Connection(hello.name, hello.rack)
        engine = self._engine
        if self._sockets.get(hello.name) is not None:
            await wire.close(TRY_AGAIN, "two at once")
            return
        self._sockets[hello.name] = wire
        local = recognise(hello)
        connection.terms = local is None
        writer = asyncio.create_task(_write(wire, connection), name=f"orders to {hello.name}")

        def joined(reply: Reply) -> None:
            if isinstance(reply, InputError):
                connection.put(Refused(what=reply.what, hint=reply.hint))
                connection.close("refused")
            elif not connection.closed:
                engine.dispatcher.connections[hello.name] = connection
                name, term = engine.settings.cluster, self._grant(connection)
                kinds = engine.machine.core.dimensions.custom
                welcome = Welcome(
                    epoch=engine.epoch, cluster=engine.cluster, name=name, sent=hello.sent, term=term, kinds=kinds
                )
                connection.put(welcome)
                _durable(connection, engine.epoch, hello.reports)

        try:
            terms = connection.terms and hello.bound
            joining = NodeJoined(
                node=node, boot=hello.boot, reports=hello.reports, terms=terms, local=local, ports=hello.listening
            )
            if not engine.post(joining, joined):
                connection.close("the center cannot store it; try again")
            async for data in wire:
                self._heard(connection, _decoded(data))
        except InputError as error:
            _log.warning("node %s: %s", hello.name, error)
            connection.close(str(error))
        except ConnectionClosed:
            pass
        finally:
            connection.close("gone")
            self._leave(hello.name, wire, connection)
            await writer

    def _heard(self, connection: Connection, message: FromAgent) -> None:
        engine = self._engine
        if isinstance(message, Beat):
            # Without the engine: that a disk is slow is no reason to stop a task.
            if connection.granted and not connection.leaving:
                connection.put(Term(epoch=engine.epoch, sent=message.sent, term=self._grant(connection)))
        elif isinstance(message, Reports):
            if message.leaving:
                # Before the ends of its tasks: they must not start again there.
                connection.leaving = True
                engine.post(NodeLeft(name=connection.name, granted=connection.granted))
            self._reported(connection, message.reports)
        elif isinstance(message, messages.Ports):
            engine.post(Ports(name=connection.name, ports=message.ports))
        elif isinstance(message, messages.Load):
            load = engine.loads[connection.name] = sane(message.load)
            if is_news(engine.machine, connection.name, load):
                engine.post(LoadReported(name=connection.name, load=load))
        elif isinstance(message, Data):
            engine.post(DataFound(name=connection.name, data=data_of(connection.name, message.data)))
        elif isinstance(message, LogData):
            connection.answered(message)
        elif isinstance(message, (ExecData, ExecOver)):
            connection.told(message)

    def _grant(self, connection: Connection) -> int:
        """Grant a term from now on; what the executor may use of it, from its own question on. 0: none holds."""
        if not connection.terms:
            return 0
        options = self._engine.machine.core.options
        connection.granted = self._engine.clock.now() + options.term
        return options.term - options.term_margin

    def _reported(self, connection: Connection, reports: tuple[Report, ...]) -> None:
        def stored(reply: Reply) -> None:
            if not isinstance(reply, InputError):
                _durable(connection, self._engine.epoch, reports)

        if reports and not self._engine.post(Reported(node=connection.name, reports=reports), stored):
            connection.close("the center cannot store it; try again")

    def _leave(self, name: str, wire: ServerConnection, connection: Connection | None) -> None:
        if self._sockets.get(name) is wire:
            del self._sockets[name]
            engine = self._engine
            engine.loads.pop(name, None)
            if connection is not None and engine.dispatcher.connections.get(name) is connection:
                del engine.dispatcher.connections[name]
            # Even if it was never welcomed: its NodeJoined may be on its way.
            granted = 0 if connection is None else connection.granted
            engine.post(NodeLeft(name=name, granted=granted))


def _durable(connection: Connection, epoch: int, reports: tuple[Report, ...]) -> None:
    ended = tuple(report.attempt for report in reports if isinstance(report, Ended))
    if ended:
        connection.put(Durable(epoch=epoch, attempts=ended))


async def _refuse(wire: ServerConnection, error: InputError, *, permanent: bool) -> None:
    await wire.send(encode(Refused(what=error.what, hint=error.hint, permanent=permanent)))
    await wire.close(POLICY, "refused")


async def _write(wire: ServerConnection, connection: Connection) -> None:
    """Put the orders on the wire until the connection is to be closed."""
    try:
        while orders := await connection.orders():
            for order in orders:
                await wire.send(order)
        await wire.close(GOING_AWAY, connection.reason[:100])
    except ConnectionClosed:
        pass


def _decoded(data: str | bytes) -> FromAgent:
    try:
        if isinstance(data, str):
            raise InputError("a text message", hint="msgpack in binary messages")
        message: FromAgent = decode_from_agent(data)
    except msgspec.MsgspecError as error:
        raise InputError(f"a message cannot be read: {error}", hint="an executor of this version of cress") from None
    return message
