"""A computer: its processes, its disk, its clocks; and the programs of tasks that run on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.model.times import MILLISECOND, SECOND
from cress.shell.executor.task_manager import SIGKILL, SIGTERM
from tests.faults.disk import SimulatedDisk
from tests.faults.network import End
from tests.faults.world import WALL, Mortal, World

if TYPE_CHECKING:
    from tests.faults.truth import Truth

# Few, so that they are used again and again.
PIDS = 60


class Process(Mortal):
    """A process of a task. ``leader``: the first one of its attempt. ``deaf``: it does not care for SIGTERM."""

    def __init__(self, host: Host, attempt: int, key: tuple[int, int], pid: int, *, leader: bool, deaf: bool) -> None:
        super().__init__(host.world, f"{host.name}/{attempt}")
        self.host = host
        self.attempt = attempt
        self.key = key
        self.pid = pid
        self.ticks = host.ticks()
        self.leader = leader
        self.deaf = deaf
        self.parent: Mortal | None = None
        self.ended_by_itself = False

    def exit(self, code: int, *, by_itself: bool = False) -> None:
        """The process ends."""
        self.gone = True
        self.ended_by_itself = by_itself
        del self.host.processes[self.pid]
        if self.leader:
            self.say("exits with", code)
            self.host.truth.exited(self, code)
            if self.parent is not None and not self.parent.gone:
                self.host.children_ended.append((self, code))
                self.host.wake()
            else:
                self.host.wake()

    def hear(self, number: int) -> None:
        """A signal."""
        world = self.world
        if number == SIGKILL:
            world.after(world.moment(), self, self.exit, -SIGKILL)
        elif number == SIGTERM and not self.deaf:
            # Some clean up first, and a few of those say that all is well.
            code = 0 if world.chance(0.05) else -SIGTERM
            world.after(world.between(MILLISECOND // 10, SECOND // 2), self, self.exit, code)


class Host:
    """A computer. ``boot`` is what it calls the time since it was switched on; it may be ``up`` or not."""

    def __init__(self, world: World, name: str, truth: Truth) -> None:
        self.world = world
        self.name = name
        self.truth = truth
        self.boots = 1
        self.up = True
        self.booted = -world.random.randint(0, 1000 * SECOND)
        self.disk = SimulatedDisk(world)
        self.processes: dict[int, Process] = {}
        self.children_ended: list[tuple[Process, int]] = []
        self.ends: list[End] = []
        self.ahead = 0  # of its wall clock, in µs
        self.pace = 1.0  # of its clock
        self.breaks_starts = False
        self.strangers: dict[int, bool] = {}  # ports that somebody has who is not a task, and whether he listens
        self.wake = _nothing  # the supervisor, if any, looks at its children
        self.supervisor_gone = _nothing  # and whoever has to know that it is gone
        self._pid = 0

    @property
    def boot(self) -> str:
        """The boot id."""
        return f"{self.name}-{self.boots}"

    def boottime(self) -> int:
        """CLOCK_BOOTTIME in microseconds."""
        return int((self.world.now - self.booted) * self.pace)

    def wall(self) -> int:
        """The wall clock in microseconds."""
        return WALL + self.world.now + self.ahead

    def ticks(self) -> int:
        """Hundredths of seconds since the computer was switched on."""
        return self.boottime() * 100 // SECOND

    def start(self, attempt: int, key: tuple[int, int], *, leader: bool, deaf: bool) -> Process:
        """A new process, with a pid that no living one has."""
        while True:
            self._pid = self._pid % PIDS + 1
            if self._pid not in self.processes:
                break
        process = Process(self, attempt, key, self._pid, leader=leader, deaf=deaf)
        self.processes[process.pid] = process
        self.truth.started(process)
        return process

    def of(self, attempt: int) -> list[Process]:
        """The living processes of an attempt, found by their environment."""
        return [each for each in self.processes.values() if each.attempt == attempt]

    def listening(self) -> tuple[int, ...]:
        """The ports of strangers who listen: the others are seen by nobody."""
        return tuple(sorted(port for port, listens in self.strangers.items() if listens))

    def lose_power(self) -> None:
        """Everything is gone but what is durable on the disk."""
        self.up = False
        self.truth.power_lost(self)
        for process in list(self.processes.values()):
            process.gone = True
        self.processes.clear()
        self.strangers.clear()
        self.children_ended.clear()
        for end in list(self.ends):
            end.vanish()
        self.disk.lose_power()

    def switch_on(self) -> None:
        """Begin anew."""
        self.up = True
        self.boots += 1
        self.booted = self.world.now
        self.disk.full = self.disk.ill = self.breaks_starts = False


def _nothing() -> None:
    pass
