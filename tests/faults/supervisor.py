"""The supervisor of a node: the real loop and journal, and a simulated computer in the place of their driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cress.executor.journal import JournalFile
from cress.model.node import Device
from cress.model.reports import Ended, Report, Usage
from cress.model.times import MILLISECOND, SECOND
from cress.protocol.messages import Inventory, Strangers
from cress.shell.executor import supervisor
from cress.shell.executor.node_devices import NodeDevices
from cress.shell.executor.records import Record
from cress.shell.executor.starting import StartError
from cress.shell.executor.task_manager import Task
from tests.faults.host import Host, Process
from tests.faults.network import End
from tests.faults.world import Died, Mortal

if TYPE_CHECKING:
    from tests.faults.rules import Rules

JOURNAL = Path("/executor/journal")
# Small, so that the journal is written anew now and then.
COMPACT_FROM = 2_000
# Longer than any history.
FOR_EVER = 100_000 * SECOND


class Supervisor(Mortal):
    """One run of a supervisor. Raises OSError or JournalError when it cannot begin, as the program exits."""

    def __init__(self, host: Host, rules: Rules, *, doom: int) -> None:
        super().__init__(host.world, f"{host.name} supervisor")
        self.host = host
        self.doom = doom
        if rules.forgets_journal:
            host.disk.names.pop(JOURNAL, None)
        self.journal = _Journal(self)
        self.loop = supervisor.SupervisorLoop(self.journal, self, manager=rules.manager)
        self.manager = self.loop.manager
        self.agent: End | None = None
        self.inbox: deque[bytes] = deque()
        self.children: dict[int, Task] = {}  # by pid
        self.adopted: dict[int, Process] = {}  # by attempt
        self.spawning: dict[int, tuple[Process | None, Task]] = {}  # by attempt; without a process: it failed
        self.seen: dict[int, int] = {}  # codes that are not in the journal yet
        self.busy = False  # a turn is planned, or is waiting for the disk
        self.planned = -1
        host.wake = self.wake
        self._clock()
        self._resume()
        self.loop.finish_turn()
        self.wake()

    # --- the loop --------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something happened."""
        if not self.busy:
            self.busy = True
            self.world.after(self.world.moment(), self, self._hear)

    def _hear(self) -> None:
        try:
            self._clock()
            self.host.disk.took = 0
            while self.inbox:
                self.loop.receive(self.inbox.popleft())
        except Died:
            self.die()
            return
        # A process that waits for the disk does nothing else meanwhile.
        self.world.after(self.host.disk.took, self, self._turn)

    def _turn(self) -> None:
        try:
            self._clock()
            self.loop.turn()
            if self.loop.over:
                self._leave()
        except Died:
            self.die()
            return
        self.busy = False
        if self.gone:
            return
        if self.inbox or self.loop.busy:
            self.wake()
            return
        due = self.loop.next_due()
        if due is not None and due != self.planned:
            self.planned = due
            self.world.after(due - self.host.boottime(), self, self._due, due)

    def _due(self, planned: int) -> None:
        if planned == self.planned:
            self.planned = -1
            self.wake()

    def _clock(self) -> None:
        self.loop.clock(self.host.boottime(), self.host.wall())

    def _leave(self) -> None:
        self.journal.compact()
        self.journal.close()
        self.say("ends, as it was asked to")
        self.die()

    def die(self) -> None:
        """The process is gone; the kernel closes what it had open."""
        self.gone = True
        if self.agent is not None:
            self.agent.close()
        self.host.supervisor_gone()

    # --- children --------------------------------------------------------------------------------------------

    def reap(self) -> None:
        """See ``Driver``."""
        ended, self.host.children_ended = self.host.children_ended, []
        for process, code in ended:
            task = self.children.pop(process.pid, None)
            if task is None or process.parent is not self:
                continue
            if task.attempt in self.spawning:
                self._settle_one(task.attempt)
            if task.attempt in self.manager.tasks:
                self.seen[process.attempt] = code
                self.manager.exited(task.attempt, code, Usage(cpu=1, memory=1))
        for attempt, process in list(self.adopted.items()):
            if process.gone:
                del self.adopted[attempt]
                self.manager.exited(attempt, None, Usage())

    def _resume(self) -> None:
        attempts = self.manager.resume(self.host.boot)
        leaders = {each.attempt: each for each in self.host.processes.values() if each.leader}
        for attempt in attempts:
            start = self.journal.known.running[attempt].start
            if start is not None:
                process = self.host.processes.get(start.pid)
                if process is not None and process.ticks != start.ticks:
                    process = None
            else:
                process = leaders.get(attempt)
            if process is None:
                self.manager.lost(attempt)
            else:
                self.adopted[attempt] = process
                self.manager.adopt(attempt, process.pid, process.ticks)
        self.say("begins, with attempts", sorted(self.manager.tasks))

    def strangers(self) -> Strangers:
        """Nothing hides here."""
        return Strangers()

    def settle(self) -> None:
        """See ``Driver``."""
        for attempt in list(self.spawning):
            if self.world.chance(0.9):
                self._settle_one(attempt)
        if self.spawning:
            self.world.after(MILLISECOND, self, self.wake)

    def _settle_one(self, attempt: int) -> None:
        process, _ = self.spawning.pop(attempt)
        if process is None:
            self.manager.failed(attempt, StartError("no such program"))
        else:
            self.manager.running(attempt, process.ticks)

    # --- what the loop has done for it -----------------------------------------------------------------------

    def spawn(self, task: Task) -> int:
        """See ``Driver``."""
        assert task.run is not None
        self.point("before a start")
        world, host = self.world, self.host
        if host.breaks_starts and world.chance(0.5):
            raise StartError("no more processes", node=True)
        for port in task.context.ports:
            if port in host.strangers:
                raise StartError(f"port {port} is in use on this node", port=port)
        if task.run.command == ("no-such-program",):
            self.spawning[task.attempt] = (None, task)
            self.wake()
            return 0
        process = self._start(task)
        self.children[process.pid] = task
        self.spawning[task.attempt] = (process, task)
        self.point("after a start")
        return process.pid

    def _start(self, task: Task) -> Process:
        world, host, random = self.world, self.host, self.world.random
        key = (task.intent.launch.job, task.intent.launch.task)
        deaf = world.chance(0.1)
        process = host.start(task.attempt, key, leader=True, deaf=deaf)
        process.parent = self
        lasts = world.between(
            *random.choice(((MILLISECOND, SECOND), (SECOND, 20 * SECOND), (10 * SECOND, 60 * SECOND)))
        )
        if task.run is not None and task.run.command == ("serve",) and (host.truth.calm or world.chance(0.6)):
            lasts = FOR_EVER
        code = random.choice((0, 0, 0, 0, 0, 0, 0, 1, 3, -11))
        for _ in range(random.choice((0, 0, 0, 1, 2))):
            # Some children stay when their parent goes, for as long as nobody kills them.
            child = host.start(task.attempt, key, leader=False, deaf=world.chance(0.3))
            if world.chance(0.7):
                world.after(lasts - 1, child, child.exit, 0)
        world.after(lasts, process, _end, process, code)
        process.say("starts as", process.pid, "for task", key)
        return process

    def signal(self, task: Task, number: int) -> None:
        """See ``Driver``."""
        for process in self.host.of(task.attempt):
            process.hear(number)

    def sweep(self, task: Task, *, kill: bool) -> bool:
        """See ``Driver``."""
        left = self.host.of(task.attempt)
        if kill:
            for process in left:
                process.hear(9)
        return not left

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        """See ``Driver``."""

    def ended(self, report: Report) -> None:
        """See ``Driver``."""
        if isinstance(report, Ended):
            self.say("attempt", report.attempt, "is over:", report.cause.value, report.code, report.error)

    def send(self, message: bytes) -> None:
        """See ``Driver``."""
        if self.agent is not None:
            self.agent.send(message)

    def hang_up(self) -> None:
        """See ``Driver``."""
        if self.agent is not None:
            self.agent.close()
            self._agent_gone()

    # --- the agent -------------------------------------------------------------------------------------------

    def accept(self, end: End) -> None:
        """An agent connects; the one before it is dropped."""
        if self.agent is not None:
            self.agent.close()
        self.agent = end
        self.inbox.clear()
        end.on_message = self._received
        end.on_close = self._agent_gone
        self._clock()
        self.loop.connect(Inventory(boot=self.host.boot, pid=1))

    def _agent_gone(self) -> None:
        self.agent = None
        self.loop.disconnected()
        self.wake()

    def _received(self, message: bytes) -> None:
        self.inbox.append(message)
        self.wake()


class _Journal(JournalFile):
    """The real one, on a simulated disk; the supervisor may be killed before and after what it writes."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        super().__init__(JOURNAL, compact_from=COMPACT_FROM, disk=supervisor.host.disk)

    def write(self, records: Sequence[Record]) -> None:
        """See ``JournalFile``."""
        self._supervisor.point("before intents are durable")
        super().write(records)
        self._supervisor.point("after intents are durable")

    def flush(self) -> bool:
        """See ``JournalFile``."""
        supervisor = self._supervisor
        if supervisor.gone:
            return super().flush()
        supervisor.point("before what happened is in the journal")
        complete = super().flush()
        if complete and supervisor.seen:
            over = [attempt for attempt in supervisor.seen if attempt not in supervisor.manager.tasks]
            supervisor.host.truth.seen({attempt: supervisor.seen.pop(attempt) for attempt in over})
        supervisor.point("before what happened is told")
        return complete


def _end(process: Process, code: int) -> None:
    process.exit(code, by_itself=True)
