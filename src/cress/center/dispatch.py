"""Orders to executors: grouped by node, put on the wire in order, dropped for nodes that are not connected.

A lost order needs no care here: when its node joins again the machine orders anew what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from cress.center.commands import Command
from cress.lifecycle.effects import Halt, Launch
from cress.model.node import Node
from cress.model.run import Run
from cress.protocol import messages
from cress.protocol.execution import ExecStart
from cress.protocol.messages import ExecData, ExecOver, Gang, Launches, LogData, ReadLog, Stop, Stops, encode

# An executor that reads nothing while this many bytes wait for it is taken for gone.
MOST_WAITING = 64 * 2**20


class Away(Exception):
    """The node is not connected."""


class Connection:
    """One executor: what waits to be sent to it, and the answers that are awaited from it.

    ``terms``: it runs what it runs from term to term; ``granted`` is the end of the last one, on the engine's clock
    (0: none yet). ``leaving``: it is granted no more. ``rack`` is what the executor itself says about it.
    """

    def __init__(self, name: str, rack: str = "") -> None:
        self.name = name
        self.rack = rack
        self.terms = False
        self.granted = 0
        self.leaving = False
        self.closed = False
        self.reason = ""
        self._orders: list[bytes] = []
        self._waiting = 0
        self._ready = asyncio.Event()
        self._answers: dict[int, asyncio.Future[LogData]] = {}
        self._commands: dict[int, Command] = {}
        self._next = 1

    def put(self, message: messages.FromCenter) -> None:
        """Send a message after those before it."""
        if self.closed:
            return
        data = encode(message)
        self._orders.append(data)
        self._waiting += len(data)
        if self._waiting > MOST_WAITING:
            self.close("it reads too slowly")
        self._ready.set()

    def close(self, reason: str) -> None:
        """Nothing more will be sent; whoever sends closes the wire."""
        self.closed = True
        self.reason = self.reason or reason
        self._ready.set()
        for future in self._answers.values():
            if not future.done():
                future.set_exception(Away(f"node {self.name} is away"))
        self._answers.clear()
        for command in self._commands.values():
            command.lost(f"node {self.name} is away: the command was ended there")
        self._commands.clear()

    async def orders(self) -> list[bytes]:
        """What is to be sent next; empty when the connection is to be closed."""
        while not self._orders and not self.closed:
            self._ready.clear()
            await self._ready.wait()
        orders, self._orders, self._waiting = self._orders, [], 0
        return orders

    async def read_log(
        self, attempt: int, stream: str, offset: int, *, limit: int, wait: int, patience: float
    ) -> LogData:
        """Ask for a part of what an attempt wrote. Raises Away, also without an answer for ``patience`` seconds."""
        if self.closed:
            raise Away(f"node {self.name} is away")
        number = self._next
        self._next += 1
        future: asyncio.Future[LogData] = asyncio.get_running_loop().create_future()
        self._answers[number] = future
        try:
            self.put(ReadLog(id=number, attempt=attempt, stream=stream, offset=offset, limit=limit, wait=wait))
            async with asyncio.timeout(patience + wait / 1000):
                return await future
        except TimeoutError:
            raise Away(f"node {self.name} does not answer") from None
        finally:
            self._answers.pop(number, None)

    def answered(self, data: LogData) -> None:
        """The answer to a question; of one that nobody waits for any more, nothing."""
        future = self._answers.pop(data.id, None)
        if future is not None and not future.done():
            future.set_result(data)

    def run_inside(self, attempt: int, start: ExecStart) -> Command:
        """Have a command run in an attempt; to be closed. Raises Away."""
        if self.closed:
            raise Away(f"node {self.name} is away")
        number, self._next = self._next, self._next + 1
        command = self._commands[number] = Command(self, number, attempt, start)
        return command

    def forget_command(self, number: int) -> None:
        """Nobody asks for a command any more."""
        self._commands.pop(number, None)

    def told(self, message: ExecData | ExecOver) -> None:
        """The executor says something about a command."""
        command = self._commands.get(message.id)
        if command is not None:
            command.told(message)


class Dispatcher:
    """The connected executors by name, and the orders to them."""

    def __init__(
        self, run_of: Callable[[int], Run | None], node_of: Callable[[str], Node | None] = lambda _name: None
    ) -> None:
        self.connections: dict[str, Connection] = {}
        self._run_of = run_of
        self._node_of = node_of

    def carry_out(self, epoch: int, launches: Iterable[Launch], halts: Iterable[Halt]) -> None:
        """Send these orders, one message of each kind for a node."""
        starts: dict[str, list[Launch]] = {}
        for launch in launches:
            starts.setdefault(launch.node, []).append(launch)
        for name, orders in starts.items():
            connection = self.connections.get(name)
            if connection is not None:
                self._launch(connection, epoch, orders)
        stops: dict[str, list[Stop]] = {}
        for halt in halts:
            if halt.node in self.connections:
                stops.setdefault(halt.node, []).append(Stop(halt.attempt, self._grace(halt)))
        for name, each in stops.items():
            self.connections[name].put(Stops(epoch=epoch, stops=tuple(each)))

    def _launch(self, connection: Connection, epoch: int, orders: list[Launch]) -> None:
        runs = {job: run for job in dict.fromkeys(order.job for order in orders) if (run := self._run_of(job))}
        gangs = {order.job: order.hosts for order in orders if order.hosts}
        node = self._node_of(connection.name)
        connection.put(
            Launches(
                epoch=epoch,
                runs=tuple(runs.values()),
                # One without a run is refused by the executor with a reason, which is better than waiting for ever.
                launches=tuple(
                    messages.Launch(each.attempt, each.job, each.task, each.ports, each.devices) for each in orders
                ),
                gangs=tuple(Gang(job, hosts) for job, hosts in gangs.items()),
                address=node.address if node is not None else "",
                rack=node.rack if node is not None else "",
            )
        )

    def _grace(self, halt: Halt) -> int:
        if halt.grace is not None:
            return halt.grace
        run = self._run_of(halt.job)
        return 0 if run is None else run.stop_grace

    def signal(self, epoch: int, node: str, attempt: int, number: int) -> bool:
        """Send a signal to an attempt; whether its node is connected."""
        connection = self.connections.get(node)
        if connection is None:
            return False
        connection.put(messages.Signal(epoch=epoch, attempt=attempt, number=number))
        return True

    def connection(self, node: str) -> Connection:
        """The connection to a node; raises Away."""
        found = self.connections.get(node)
        if found is None:
            raise Away(f"node {node} is away")
        return found

    def drop_all(self, reason: str) -> None:
        """Close every connection; the executors come again."""
        connections, self.connections = self.connections, {}
        for connection in connections.values():
            connection.close(reason)
