"""The agent of a node: sessions between center and supervisor, by the rules of ``cress.executor.agent``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cress.executor.strangers import stood_in_the_way
from cress.model.times import SECOND
from cress.protocol.messages import (
    Beat,
    Hello,
    Inventory,
    Ports,
    Refused,
    Reports,
    Shutdown,
    Welcome,
    decode_from_center,
    decode_from_supervisor,
    encode,
)
from tests.faults.network import PING, End
from tests.faults.world import Mortal

if TYPE_CHECKING:
    from tests.faults.node import Node

# As in the program: how long an answer to a hello and a connection may take; when a lost one is tried again.
OPEN_TIMEOUT = 10 * SECOND
RETRY_FIRST, RETRY_MOST = SECOND // 10, 5 * SECOND
# Beats in one term.
BEATS = 6
# Between two looks at the ports.
SCAN = 2 * SECOND


class Agent(Mortal):
    """One run of an agent."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.world, f"{node.name} agent")
        self.node = node
        self.session: Session | None = None
        self.leaving = False
        self.retry = RETRY_FIRST
        self.begin()

    def begin(self) -> None:
        """Hold one session more, unless one is held."""
        if self.session is None:
            self.session = Session(self)

    def over(self, *, welcomed: bool) -> None:
        """A session ended: the next one follows soon."""
        self.session = None
        if self.leaving:
            self.exit()
            return
        if welcomed:
            self.retry = RETRY_FIRST
        self.world.after(int(self.retry * (0.5 + self.world.random.random() / 2)), self, self.begin)
        self.retry = min(2 * self.retry, RETRY_MOST)

    def stop(self, grace: int) -> None:
        """An operator stops the executor, and its tasks with it."""
        self.leaving = True
        if self.session is not None and self.session.welcomed:
            self.session.send_down(Shutdown(grace=grace))
            # What remains to be said is said by then, or by another agent.
            self.world.after(grace + 2 * SECOND, self, self.exit)
            return
        if self.node.supervisor is not None:
            self.node.supervisor.manager.leave(grace)
            self.node.supervisor.wake()
        self.exit()

    def exit(self) -> None:
        """The process ends; the kernel closes what it had open."""
        self.gone = True
        if self.session is not None:
            self.session.close()
            self.session = None
        self.node.agent_gone(asked=self.leaving)


class Session:
    """A connection to each side. When one is gone, the other is closed too."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.node = agent.node
        self.world = agent.world
        self.up: End | None = None
        self.down: End | None = None
        self.welcomed = False
        self.closed = False
        self.ponged = True
        self.told: tuple[int, ...] | None = None  # the ports of strangers, as the center knows them
        self.early: list[bytes] = []  # what the supervisor says before the center has answered
        self.inventory: Inventory | None = None
        self._find_supervisor()

    def _after(self, delay: int, do: Callable[..., None], *arguments: object) -> None:
        self.world.after(delay, self.agent, self._unless_closed, do, arguments)

    def _unless_closed(self, do: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if not self.closed:
            do(*arguments)

    def _connect(self, until: int) -> None:
        if not self.node.cable.whole:
            if self.world.now > until:
                self.end()
            else:
                self._after(SECOND, self._connect, until)
            return
        end = self.node.dial(self.agent)
        if end is None:
            self.end()
            return
        self.up = end
        end.on_message = self._from_center
        end.on_close = self.end
        end.on_pong = self._pong
        self._after(self.node.ping_interval, self._ping)
        self._hello()

    def _find_supervisor(self) -> None:
        supervisor = self.node.supervisor
        if supervisor is None:
            # It reads its journal before it listens.
            self._after(self.world.between(SECOND // 50, SECOND), self._start_supervisor)
            return
        self.down = self.node.link(self.agent, supervisor)
        self.down.on_message = self._take_inventory
        self.down.on_close = self.end

    def _start_supervisor(self) -> None:
        if self.node.supervisor is None and not self.node.start_supervisor():
            self.end()
            return
        self._find_supervisor()

    def _take_inventory(self, message: bytes) -> None:
        inventory = decode_from_supervisor(message)
        assert isinstance(inventory, Inventory)
        assert self.down is not None
        self.inventory = inventory
        self.down.on_message = self._from_supervisor
        self._after(self.node.cable.latency() * 2, self._connect, self.world.now + OPEN_TIMEOUT)

    def _hello(self) -> None:
        assert self.up is not None
        assert self.inventory is not None
        known = self.inventory
        hello = Hello(
            version=known.version,
            name=self.node.name,
            resource=self.node.resource,
            rack=self.node.name.replace("n", "r"),
            boot=known.boot,
            reports=known.reports,
            listening=self._look(),
            sent=self.node.host.boottime(),
            bound=known.bound,
            epoch=known.epoch,
            cluster=known.cluster,
            devices=self.node.devices,
            data=self.node.data,
        )
        self.up.send(encode(hello))
        self._after(OPEN_TIMEOUT, self._unanswered)

    def _look(self) -> tuple[int, ...]:
        """The ports of strangers, which the center is about to be told."""
        self.told = self.node.host.listening()
        return self.told

    def _scan(self) -> None:
        """Tell the center of strangers when they are others than it knows."""
        if self.told != self.node.host.listening():
            assert self.up is not None
            self.up.send(encode(Ports(ports=self._look())))

    def _watch(self) -> None:
        self._scan()
        self._after(SCAN, self._watch)

    def _beat(self, term: int) -> None:
        assert self.up is not None
        self.up.send(encode(Beat(sent=self.node.host.boottime())))
        self._after(term // BEATS, self._beat, term)

    def _unanswered(self) -> None:
        if not self.welcomed:
            self.end()

    def _from_center(self, message: bytes) -> None:
        order = decode_from_center(message)
        if isinstance(order, Refused):
            self.agent.say("is refused:", order.what)
            assert not order.permanent, order.what
            self.end()
            return
        if not self.welcomed:
            assert isinstance(order, Welcome), order
            self.welcomed = True
            self.agent.say("is welcome, epoch", order.epoch)
            self._after(SCAN, self._watch)
            if order.term:
                self._after(order.term // BEATS, self._beat, order.term)
        assert self.down is not None
        self.down.send(message)
        early, self.early = self.early, []
        for each in early:
            self._from_supervisor(each)

    def _from_supervisor(self, message: bytes) -> None:
        if not self.welcomed:
            self.early.append(message)
            return
        reports = decode_from_supervisor(message)
        if isinstance(reports, Reports):
            assert self.up is not None
            taken = stood_in_the_way(reports.reports)
            if taken:
                self._scan()
            self.up.send(message)
            if taken:
                self.told = None

    def send_down(self, order: Shutdown) -> None:
        """An order of the agent's own."""
        assert self.down is not None
        self.down.send(encode(order))

    def _ping(self) -> None:
        assert self.up is not None
        self.ponged = False
        self.up.send(PING)
        self._after(self.node.ping_timeout, self._dead)
        self._after(self.node.ping_interval, self._ping)

    def _pong(self) -> None:
        self.ponged = True

    def _dead(self) -> None:
        if not self.ponged:
            self.agent.say("hears nothing from the center")
            self.end()

    def close(self) -> None:
        """Close both sides."""
        self.closed = True
        for end in (self.up, self.down):
            if end is not None:
                end.close()

    def end(self) -> None:
        """One side is gone."""
        if not self.closed:
            self.close()
            self.agent.over(welcomed=self.welcomed)
