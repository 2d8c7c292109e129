"""A node: a computer, its agent and supervisor, and what starts them again when they are gone."""

from __future__ import annotations

from collections.abc import Callable

from cress.executor.journal import JournalError
from cress.model.node import Device
from cress.model.times import MILLISECOND, SECOND
from tests.faults.agent import Agent
from tests.faults.host import Host
from tests.faults.network import Cable, End, connect
from tests.faults.rules import Rules
from tests.faults.supervisor import Supervisor
from tests.faults.truth import Truth
from tests.faults.world import Died, Mortal, Violation, World


class Node:
    """One node of the cluster. ``dial`` connects an agent to the center, or gives None.

    What is promised about terms needs somebody who stops the tasks: a supervisor that is gone is replaced within the
    margin. So nothing else befalls a node in that time (``calm_until``), short of losing its power.
    """

    def __init__(self, world: World, name: str, cpus: int, truth: Truth, rules: Rules) -> None:
        self.world = world
        self.name = name
        self.cpus = cpus
        self.resource = f"<{cpus}, {2 * cpus}G>"
        self.devices: tuple[Device, ...] = ()
        self.data: tuple[str, ...] = ()
        self.rules = rules
        self.host = Host(world, name, truth)
        self.cable = Cable(world, world.between(100, 50 * MILLISECOND))
        self.bus = Cable(world, 50)
        self.agent: Agent | None = None
        # The second is longer than any term.
        self.ping_interval, self.ping_timeout = world.random.choice(
            ((10 * SECOND, 20 * SECOND), (30 * SECOND, 120 * SECOND))
        )
        self.dial_center: Callable[[Node, Agent], End | None] = lambda _node, _agent: None
        # With several centers, the cable to each of them, and whether another one than that of a connection listens.
        self.cables: list[Cable] = []
        self.moved: Callable[[End], bool] = lambda _end: False
        self.disturbed = False  # while faults happen, what starts may be killed soon
        self._supervisor: Supervisor | None = None
        self.calm_until = 0
        self.host.supervisor_gone = self._supervisor_gone
        self.start_agent()

    # --- agent -----------------------------------------------------------------------------------------------

    def start_agent(self) -> None:
        """The operating system starts the agent."""
        if self.host.up and (self.agent is None or self.agent.gone):
            self.agent = Agent(self)

    def agent_gone(self, *, asked: bool) -> None:
        """And starts it again."""
        self.agent = None
        most = 5 * SECOND if asked and self.supervisor is not None else SECOND // 2
        self.world.after(self.world.between(SECOND // 10, most), None, self.start_agent)

    def kill_agent(self) -> None:
        """Kill it now."""
        if self.agent is not None:
            self.agent.say("is killed")
            self.agent.exit(asked=False)

    def dial(self, agent: Agent) -> End | None:
        """Connect to the center."""
        return self.dial_center(self, agent)

    @property
    def several(self) -> bool:
        """Whether there are several centers."""
        return bool(self.cables)

    @property
    def reachable(self) -> bool:
        """Whether a cable to a center is whole."""
        return any(cable.whole for cable in self.cables or (self.cable,))

    def cut(self, ways: list[bool], length: int, cables: list[Cable] | None = None) -> None:
        """Cut these ways of the cables to centers, all or some, for so long."""
        for cable in cables or self.cables or [self.cable]:
            cable.cut = [old or new for old, new in zip(cable.cut, ways, strict=True)]
            self.world.after(length, None, cable.mend)

    # --- supervisor ------------------------------------------------------------------------------------------

    @property
    def supervisor(self) -> Supervisor | None:
        """The supervisor, if one runs."""
        if self._supervisor is not None and self._supervisor.gone:
            self._supervisor = None
        return self._supervisor

    @property
    def calm(self) -> bool:
        """Whether nothing more may befall it now."""
        return self.world.now < self.calm_until

    def _supervisor_gone(self) -> None:
        self.calm_until = self.world.now + 5 * SECOND
        if self.agent is not None:
            self.agent.go_on()
            self.agent.begin()

    def start_supervisor(self) -> bool:
        """Whether it could be started."""
        doom = self.world.random.randint(0, 12) if self.disturbed and not self.calm and self.world.chance(0.1) else -1
        try:
            self._supervisor = Supervisor(self.host, self.rules, doom=doom)
        except OSError as error:
            self.world.tell(self.name, "the supervisor does not start:", error.strerror)
            return False
        except JournalError as error:
            raise Violation(f"the journal of {self.name} cannot be read any more: {error}") from None
        except Died:
            return False
        return True

    def link(self, agent: Agent, supervisor: Supervisor) -> End:
        """Connect an agent to the supervisor."""
        mine, theirs = connect(self.bus, agent, self.host, supervisor, self.host)
        supervisor.accept(theirs)
        return mine

    def kill_supervisor(self, points: int | None) -> None:
        """Kill it now, or after so many more of its steps."""
        supervisor = self.supervisor
        if supervisor is None:
            return
        if points is not None:
            supervisor.doom = points
            return
        supervisor.say("is killed")
        supervisor.die()

    # --- the computer ----------------------------------------------------------------------------------------

    def lose_power(self, off: int) -> None:
        """The computer is gone for so long."""
        if not self.host.up:
            return
        self.world.tell(self.name, "loses power")
        processes: list[Mortal | None] = [self.agent, self._supervisor]
        for process in processes:
            if process is not None:
                process.gone = True
        self.agent = self._supervisor = None
        self.host.lose_power()
        self.world.after(off, None, self._switch_on)

    def _switch_on(self) -> None:
        if not self.host.up:
            self.host.switch_on()
            self.world.tell(self.name, "is up again")
            self.start_agent()

    def heal(self) -> None:
        """Nothing is wrong here any more."""
        self.disturbed = False
        for cable in (self.cable, *self.cables):
            cable.mend()
        self._switch_on()
        self.host.disk.full = self.host.disk.ill = self.host.breaks_starts = False
        self.host.disk.slow = 2_000
        self.host.strangers.clear()
        if self.supervisor is not None:
            self.supervisor.doom = -1
        self.start_agent()

    @property
    def quiet(self) -> bool:
        """Whether nothing runs here and nothing waits to be confirmed."""
        supervisor = self.supervisor
        if self.host.processes or supervisor is None:
            return not self.host.processes and supervisor is not None
        return not supervisor.manager.tasks and not supervisor.journal.known.ends
