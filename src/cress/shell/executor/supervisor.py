"""The supervisor's loop: takes orders, keeps a journal, and reports only data in the journal.

The driver (``cress.executor.supervisor``, or a simulated computer) owns processes, files and the socket. It calls a
method for each event, and ``turn`` at the end of a batch of events. In a turn the reports are written to the journal
before they are sent to the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from cress.model.node import Device
from cress.model.reports import Report
from cress.protocol.messages import (
    MATERIAL_SINCE,
    OLDEST,
    PROTOCOL,
    STRANGERS_SINCE,
    UNSAID,
    AskMaterial,
    FromSupervisor,
    Greeting,
    Inventory,
    Reports,
    Strangers,
)
from cress.protocol.versions import Dialect
from cress.shell.executor.node_devices import NodeDevices
from cress.shell.executor.records import Known, Record
from cress.shell.executor.task_manager import ProcessDriver, Task, TaskManager

# Maximum number of spawns in one turn: more would delay the socket; fewer make more, smaller messages.
SPAWNS_PER_TURN = 32
# Time (µs) for which an ending supervisor waits for the center to confirm its reports.
LAST_WORDS = 1_000_000
# Time (µs) without tasks and without an agent after which a supervisor ends: twice the longest pause before an agent is
# started again. Its journal keeps the ends that no center has confirmed.
ALONE = 60_000_000
# Time (µs) between two attempts to write to a full disk.
RETRY = 500_000


class Journal(Protocol):
    """Durable notes that survive the supervisor; see ``cress.executor.journal``."""

    known: Known
    full: str

    def write(self, records: list[Record]) -> None:
        """Make records durable before returning; OSError: none of them is kept."""

    def note(self, record: Record) -> None:
        """Keep a record for the next flush."""

    def flush(self) -> bool:
        """Write the noted records. Return False if the disk is full; then try again later."""


class Driver(Protocol):
    """Actions that the loop asks of its driver.

    ``spawn``, ``signal``, ``sweep``, ``fit`` and ``say`` as in ``ProcessDriver``.
    """

    def spawn(self, task: Task) -> int:
        """See ``ProcessDriver``."""

    def signal(self, task: Task, number: int) -> None:
        """See ``ProcessDriver``."""

    def sweep(self, task: Task, *, kill: bool) -> bool:
        """See ``ProcessDriver``."""

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        """See ``ProcessDriver``."""

    def say(self, sentence: str) -> None:
        """See ``ProcessDriver``."""

    def reap(self) -> None:
        """Call ``exited`` for every process that has ended so far."""

    def settle(self) -> None:
        """Call ``running`` or ``failed`` for every new process that has become its program or failed to."""

    def ended(self, report: Report) -> None:
        """Free the resources of an attempt that has ended."""

    def strangers(self) -> Strangers:
        """Return the processes that belong to no running attempt for certain."""

    def send(self, message: bytes) -> None:
        """Send a message to the agent that is connected."""

    def hang_up(self) -> None:
        """Close the connection to the agent, and call ``disconnected``."""


class SupervisorLoop(ProcessDriver):
    """The loop of one supervisor. Its driver ends when ``over`` is set."""

    def __init__(
        self,
        journal: Journal,
        driver: Driver,
        key: str = "",
        *,
        manager: Callable[[Known, ProcessDriver, str], TaskManager] = TaskManager,
    ) -> None:
        self.journal = journal
        self.manager = manager(journal.known, self, key)
        self.over = False
        self.connected = False
        self._driver = driver
        self._dialect = Dialect(UNSAID)  # of the agent
        self._reports: list[Report] = []
        self._wanted: list[int] = []  # attempts whose start material is to be requested
        self._told_that_it_leaves = False
        self._last_words: int | None = None
        self._retry_at: int | None = None
        self._alone_since: int | None = None
        self._strangers = Strangers()  # as the agent knows them

    # --- events ------------------------------------------------------------------------------------------------------

    def clock(self, now: int, utc: int) -> None:
        """Set the time (CLOCK_BOOTTIME and the wall clock, in µs) before every other call."""
        self.manager.now, self.manager.utc = now, utc

    def connect(self, inventory: Inventory) -> None:
        """Greet a newly connected agent; ``inventory`` has the facts that stay constant while the supervisor runs."""
        self.connected = True
        # The inventory has all reports: those collected in this turn would be sent twice.
        self._reports = []
        self._strangers = Strangers()
        self._dialect = Dialect(UNSAID)
        known, manager = self.journal.known, self.manager
        message = msgspec.structs.replace(
            inventory,
            protocol=PROTOCOL,
            oldest=OLDEST,
            reports=manager.inventory(),
            bound=manager.bound,
            epoch=known.epoch,
            witness=known.witness,
            cluster=known.cluster,
            ports=manager.ports(),
        )
        self._send(message)

    def disconnected(self) -> None:
        """Note that the agent is gone."""
        self.connected = False

    def receive(self, message: bytes) -> None:
        """Handle a message of the agent; close the connection if it cannot be read."""
        # Processes that have ended so far did so by themselves, not because of an order that is still unread.
        self._driver.reap()
        try:
            order = self._dialect.to_supervisor(message)
        except msgspec.MsgspecError as error:
            self._driver.say(f"the agent sent an invalid message and was disconnected: {error}")
            self._driver.hang_up()
            return
        if isinstance(order, Greeting):
            self._dialect = Dialect(order.protocol)
        elif order is not None:
            self.manager.obey(order)

    def turn(self) -> None:
        """Do the actions that are due, write the journal, then report."""
        self._driver.reap()
        self.manager.tick()
        self.manager.work(SPAWNS_PER_TURN)
        self._driver.settle()
        self.finish_turn()

    def finish_turn(self) -> None:
        """Write the journal, then report; check whether a leaving supervisor is done."""
        manager = self.manager
        complete = self.journal.flush()
        if not complete and self._retry_at is None:
            self._driver.say(f"the journal cannot be written: {self.journal.full}; it is tried again")
        self._retry_at = None if complete else manager.now + RETRY
        if self._reports or (manager.leaving and not self._told_that_it_leaves):
            if self.connected:
                self._send(Reports(reports=tuple(self._reports), leaving=manager.leaving))
            self._reports = []
            self._told_that_it_leaves = manager.leaving
        self._ask()
        self._tell_strangers()
        self._leave_alone(complete=complete)
        if manager.leaving and not manager.tasks:
            if self._last_words is None:
                self._last_words = manager.now + LAST_WORDS
            if not self.journal.known.ends or not self.connected or manager.now >= self._last_words:
                self.over = True

    def _leave_alone(self, *, complete: bool) -> None:
        """End if there have been no tasks and no agent for a while: nobody would end this supervisor later."""
        manager = self.manager
        if self.connected or manager.tasks or not complete:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = manager.now
        elif manager.now - self._alone_since >= ALONE and not self.over:
            self._driver.say(f"there have been no tasks and no agent for {ALONE // 1_000_000} s")
            self.over = True

    def _ask(self) -> None:
        """Request the start material for which attempts wait; without an agent that knows this message, wait for the
        next one.
        """
        if self._wanted and self.connected and self._dialect.version >= MATERIAL_SINCE:
            self._send(AskMaterial(epoch=self.journal.known.epoch, attempts=tuple(self._wanted)))
        self._wanted = []

    def _tell_strangers(self) -> None:
        """Tell the agent which processes belong to no attempt, if that has changed."""
        if not self.connected or self._dialect.version < STRANGERS_SINCE:
            return
        found = self._driver.strangers()
        if found.killed or found.processes != self._strangers.processes:
            self._strangers = found
            self._send(found)

    def _send(self, message: FromSupervisor) -> None:
        data = self._dialect.encode(message)
        if data is not None:
            self._driver.send(data)

    @property
    def busy(self) -> bool:
        """Flag: attempts wait for the next turn."""
        return self.manager.waiting > 0

    def next_due(self) -> int | None:
        """The time of the next turn; None if only an event leads to one."""
        alone = None if self._alone_since is None else self._alone_since + ALONE
        dues = (self.manager.next_due(), self._last_words, self._retry_at, alone)
        return min((due for due in dues if due is not None), default=None)

    # --- operations of the task manager -------------------------------------------------------------------------------

    def write(self, records: list[Record]) -> None:
        """See ``ProcessDriver``."""
        self.journal.write(records)

    def note(self, record: Record) -> None:
        """See ``ProcessDriver``."""
        self.journal.note(record)

    def report(self, report: Report) -> None:
        """See ``ProcessDriver``."""
        self._reports.append(report)
        self._driver.ended(report)

    def spawn(self, task: Task) -> int:
        """See ``ProcessDriver``."""
        return self._driver.spawn(task)

    def signal(self, task: Task, number: int) -> None:
        """See ``ProcessDriver``."""
        self._driver.signal(task, number)

    def sweep(self, task: Task, *, kill: bool) -> bool:
        """See ``ProcessDriver``."""
        return self._driver.sweep(task, kill=kill)

    def want(self, attempts: Sequence[int]) -> None:
        """See ``ProcessDriver``."""
        self._wanted += attempts

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        """See ``ProcessDriver``."""
        self._driver.fit(node_devices, devices)

    def say(self, sentence: str) -> None:
        """See ``ProcessDriver``."""
        self._driver.say(sentence)
