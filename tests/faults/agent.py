"""The agent of a node: the real loop, and simulated connections in the place of its driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cress.model.times import SECOND
from cress.protocol.messages import Hello, Inventory, decode_from_supervisor
from cress.shell.executor import agent
from cress.shell.executor.agent_effects import (
    BeforeReports,
    CloseBoth,
    ConnectCenter,
    ConnectSupervisor,
    Effect,
    Exit,
    LookAround,
    Registered,
    Say,
    ScanPorts,
    ToCenter,
    ToSupervisor,
)
from tests.faults.network import PING, End
from tests.faults.world import Mortal

if TYPE_CHECKING:
    from tests.faults.node import Node

# As in the program: how long a connection may take; when a lost one is tried again.
OPEN_TIMEOUT = 10 * SECOND
RETRY = (SECOND // 10, 5 * SECOND)
# Time between two looks for another center.
LOOK = SECOND // 5
# How long a slow look at the node may take.
SLOW_LOOK = 3 * SECOND


class Agent(Mortal):
    """One run of an agent."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.world, f"{node.name} agent")
        self.node = node
        center = "one,another" if node.several else "the center"
        self.loop = agent.Agent(center, retry=RETRY, chance=self.world.random.random, quiet=True)
        self.up: End | None = None
        self.down: End | None = None
        self._session = 0  # what belongs to an earlier one is not done any more
        self._planned = -1
        self._ponged = True
        self.begin()

    @property
    def leaving(self) -> bool:
        """Whether it was asked to stop."""
        return self.loop.leaving

    def begin(self) -> None:
        """Hold one session more, unless one is held."""
        self._happen(self.loop.begin)

    def stop(self, grace: int) -> None:
        """An operator stops the executor, and its tasks with it."""
        self._happen(lambda: self.loop.leave(grace, keep=False))

    def exit(self, *, asked: bool) -> None:
        """The process ends; the kernel closes what it had open."""
        self.gone = True
        self._close()
        self.node.agent_gone(asked=asked)

    # --- events and effects ----------------------------------------------------------------------------------

    def _happen(self, event: Callable[..., list[Effect]], *arguments: Any) -> None:
        if self.gone:
            return
        self.loop.now = self.node.host.boottime()
        effects = event(*arguments)
        due = self.loop.next_due()
        if due is not None and due != self._planned:
            self._planned = due
            self.world.after(due - self.loop.now, self, self._tick, due)
        for effect in effects:
            self._carry_out(effect)

    def _tick(self, planned: int) -> None:
        if planned == self._planned:
            self._planned = -1
            self._happen(self.loop.tick)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case ToCenter(message):
                if self.up is not None:
                    self.up.send(message)
            case ToSupervisor(message):
                if self.down is not None:
                    self.down.send(message)
            case BeforeReports(_, without):
                self._happen(self.loop.reports_ready, None if without is None else self.node.host.listening())
            case ScanPorts():
                self._happen(self.loop.ports_scanned, self.node.host.listening())
            case ConnectSupervisor(start):
                self._find_supervisor(start)
            case ConnectCenter():
                self._after(self.node.cable.latency() * 2, self._connect, self.world.now + OPEN_TIMEOUT)
            case LookAround():
                self._look_around()
            case Registered(welcome):
                self.say("is welcome, epoch", welcome.epoch)
            case Say(sentence):
                assert self.loop.phase is not agent.Phase.STOPPING or self.leaving, sentence
                self.say(sentence)
            case CloseBoth():
                self._close()
            case Exit():
                self.exit(asked=True)
            case _:
                pass  # of its own services there are none here

    def _after(self, delay: int, do: Callable[..., None], *arguments: object) -> None:
        self.world.after(delay, self, self._unless_over, self._session, do, arguments)

    def _unless_over(self, session: int, do: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if session == self._session:
            do(*arguments)

    def _close(self) -> None:
        self._session += 1
        for end in (self.up, self.down):
            if end is not None:
                end.close()
        self.up = self.down = None

    # --- the supervisor --------------------------------------------------------------------------------------

    def _find_supervisor(self, start: bool) -> None:
        supervisor = self.node.supervisor
        if supervisor is None:
            if start:
                # It reads its journal before it listens.
                self._after(self.world.between(SECOND // 50, SECOND), self._start_supervisor)
            else:
                self._happen(self.loop.supervisor_failed, "no supervisor runs")
            return
        self.down = self.node.link(self, supervisor)
        self.down.on_message = self._take_inventory
        self.down.on_close = lambda: self._happen(self.loop.supervisor_closed)

    def _start_supervisor(self) -> None:
        if self.node.supervisor is None and not self.node.start_supervisor():
            self._happen(self.loop.supervisor_failed, "the supervisor did not start")
            return
        self._find_supervisor(start=True)

    def _take_inventory(self, message: bytes) -> None:
        inventory = decode_from_supervisor(message)
        assert isinstance(inventory, Inventory)
        assert self.down is not None
        self.down.on_message = lambda message: self._happen(self.loop.from_supervisor, message)
        self._happen(self.loop.supervisor_connected, inventory)

    # --- the center ------------------------------------------------------------------------------------------

    def _connect(self, until: int) -> None:
        end = None
        if not self.node.reachable:
            if self.world.now <= until:
                self._after(SECOND, self._connect, until)
                return
        else:
            end = self.node.dial(self)
        if end is None:
            self._happen(self.loop.center_failed, "the center cannot be reached")
            return
        self.up = end
        if self.node.several:
            self._after(LOOK, self._look_for_another)
        end.on_message = lambda message: self._happen(self.loop.from_center, message)
        end.on_close = lambda: self._happen(self.loop.center_closed, "it is gone")
        end.on_pong = self._pong
        self._after(self.node.ping_interval, self._ping)
        self._happen(self.loop.center_connected)

    def _look_for_another(self) -> None:
        """Leave the center when another one has begun to listen."""
        assert self.up is not None
        if self.node.moved(self.up):
            self.say("leaves its center for another one")
            self._happen(self.loop.center_closed, "another center leads")
        else:
            self._after(LOOK, self._look_for_another)

    def _look_around(self) -> None:
        if self.node.rules.slow_looks:
            self._after(self.world.aside.randint(0, SLOW_LOOK), self._looked_around)
        else:
            self._looked_around()

    def _looked_around(self) -> None:
        self._happen(self.loop.looked_around, self._hello(), self.node.host.listening())

    def _hello(self) -> Hello:
        return Hello(
            version=0,
            name=self.node.name,
            resource=self.node.resource,
            rack=self.node.name.replace("n", "r"),
            boot="",
            devices=self.node.devices,
            data=self.node.data,
        )

    def _ping(self) -> None:
        assert self.up is not None
        self._ponged = False
        self.up.send(PING)
        self._after(self.node.ping_timeout, self._dead)
        self._after(self.node.ping_interval, self._ping)

    def _pong(self) -> None:
        self._ponged = True

    def _dead(self) -> None:
        if not self._ponged:
            self.say("hears nothing from the center")
            self._happen(self.loop.center_closed, "no pong")
