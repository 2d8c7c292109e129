"""What goes wrong, when, for how long: all from the seed."""

from __future__ import annotations

from collections.abc import Callable

from cress.lifecycle.inputs import Drain, NodeDead
from cress.model.events import NodeCordoned
from cress.model.node import DYNAMIC_PORTS
from cress.model.times import HOUR, MILLISECOND, SECOND
from tests.faults.cluster import Cluster
from tests.faults.network import sever
from tests.faults.node import Node


class Faults:
    """Lets something go wrong now and then, until ``end``. A history has some of the kinds, and some pace."""

    def __init__(self, cluster: Cluster, end: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.end = end
        random = self.world.random
        kinds: list[Callable[[], None]] = [
            self.kill_center,
            self.kill_center_somewhere,
            self.refuse_commit,
            self.fill_store,
            self.kill_agent,
            self.kill_supervisor,
            self.kill_supervisor_somewhere,
            self.kill_both,
            self.cut_cable,
            self.cut_one_way,
            self.drop_connection,
            self.lose_power,
            self.fill_disk,
            self.break_starts,
            self.slow_disk,
            self.pause_center,
            self.pause_agent,
            self.stop_executor,
            self.replace_center,
            self.call_dead,
            self.empty_node,
            self.take_port,
            self.set_clock,
        ]
        self.kinds = random.sample(kinds, random.randint(2, len(kinds)))
        self.pace = self.world.between(SECOND, 10 * SECOND)
        for node in cluster.nodes:
            node.disturbed = True
        self._plan()

    def _plan(self) -> None:
        self.world.after(int(self.world.random.expovariate(1 / self.pace)), None, self._happen)

    def _happen(self) -> None:
        if self.world.now < self.end:
            self.world.random.choice(self.kinds)()
            self._plan()

    def _node(self) -> Node:
        return self.world.random.choice(self.cluster.nodes)

    def _nodes(self) -> list[Node]:
        """A node whose programs may be disturbed, or none."""
        node = self._node()
        return [] if node.calm else [node]

    def _tell(self, what: str, *more: object) -> None:
        self.world.tell("fault", what, *more)

    # --- the center ------------------------------------------------------------------------------------------

    def kill_center(self) -> None:
        """At once."""
        if self.cluster.center is not None:
            self._tell("the center is killed")
            self.cluster.center.die()

    def kill_center_somewhere(self) -> None:
        """Between two of its steps."""
        if self.cluster.center is not None:
            self.cluster.center.doom = self.world.random.randint(0, 12)

    def pause_center(self) -> None:
        """It stands still, its connections stay."""
        if self.cluster.center is not None:
            self.cluster.center.pause(self.world.between(SECOND // 10, 60 * SECOND))

    def replace_center(self) -> None:
        """It stands still, and another one takes its place."""
        if self.world.chance(0.5):
            self.cluster.replace_center(self.world.between(SECOND // 10, 60 * SECOND))

    def refuse_commit(self) -> None:
        """The next commit fails, or seems to."""
        self.cluster.store.fault = self.world.random.choice(("refused", "unanswered"))
        self._tell("the next commit will be", self.cluster.store.fault)

    def fill_store(self) -> None:
        """Nothing can be stored for a while."""
        self._tell("the center's disk is full")
        self.cluster.store.full = True
        self.world.after(self.world.between(SECOND // 10, 20 * SECOND), None, self._empty_store)

    def _empty_store(self) -> None:
        self.cluster.store.full = False

    def set_clock(self) -> None:
        """The wall clock of its computer is set, back by less than what is taken for a correction of cron jobs."""
        peers = self.cluster.peers
        host = self.cluster.host if peers is None else self.world.aside.choice(peers.places).host
        ahead = self.world.random.choice((-1, 1)) * self.world.between(SECOND, HOUR)
        self._tell("the center's wall clock is ahead by", ahead / SECOND)
        host.ahead = ahead

    # --- nodes -----------------------------------------------------------------------------------------------

    def kill_agent(self) -> None:
        """Tasks and supervisor go on."""
        for node in self._nodes():
            node.kill_agent()

    def kill_supervisor(self) -> None:
        """At once. Tasks go on."""
        for node in self._nodes():
            node.kill_supervisor(None)

    def kill_supervisor_somewhere(self) -> None:
        """Between two of its steps."""
        for node in self._nodes():
            node.kill_supervisor(self.world.random.randint(0, 8))

    def kill_both(self) -> None:
        """Agent and supervisor."""
        for node in self._nodes():
            node.kill_supervisor(None)
            node.kill_agent()

    def take_port(self) -> None:
        """On some nodes, somebody who is not a task has a port for a while that tasks like."""
        world = self.world
        port = world.random.choice((80, DYNAMIC_PORTS[0]))
        for host in (node.host for node in self.cluster.nodes):
            used = {port for each in host.processes.values() for port in host.truth.ports.get(each.attempt, ())}
            if host.up and port not in used and world.chance(0.8):
                self._tell("port", port, "of", host.name, "is taken by a stranger")
                host.strangers[port] = world.chance(0.3)
                world.after(world.between(SECOND // 10, 20 * SECOND), None, host.strangers.pop, port, None)

    def stop_executor(self) -> None:
        """An operator stops it, with its tasks; it is started again."""
        for node in self._nodes():
            if node.agent is None or node.agent.leaving:
                continue
            self._tell("the executor is stopped on", node.name)
            node.agent.stop(self.world.between(MILLISECOND, 5 * SECOND))

    def pause_agent(self) -> None:
        """It stands still."""
        for node in self._nodes():
            if node.agent is not None and node.supervisor is not None:
                node.agent.pause(self.world.between(SECOND // 10, 60 * SECOND))

    def lose_power(self) -> None:
        """The whole computer."""
        self._node().lose_power(self.world.between(SECOND, 60 * SECOND))

    def call_dead(self) -> None:
        """An operator sees that a computer is off, and says so."""
        for node in self.cluster.nodes:
            if not node.host.up and self.cluster.center is not None:
                forget = self.world.chance(0.3)
                self._tell(node.name, "is called dead", "and forgotten" if forget else "")
                self.cluster.center.post(NodeDead(name=node.name, forget=forget))

    def empty_node(self) -> None:
        """An operator keeps new tasks off a node, or wants it empty soon."""
        name, center = self._node().name, self.cluster.center
        if center is None:
            return
        if self.world.chance(0.3):
            center.post(NodeCordoned(name=name, cordoned=True, reason="because"))
        else:
            self._tell(name, "is to be empty soon")
            center.post(Drain(name=name, deadline=self.world.between(SECOND // 10, 20 * SECOND)))

    def fill_disk(self) -> None:
        """The journal cannot be written, or not be synced, for a while."""
        disk = self._node().host.disk
        if self.world.chance(0.8):
            disk.full = True
        else:
            disk.ill = True
        self._tell("a disk is full" if disk.full else "a disk is ill")

        def heal() -> None:
            disk.full = disk.ill = False

        self.world.after(self.world.between(SECOND // 10, 20 * SECOND), None, heal)

    def slow_disk(self) -> None:
        """From now on."""
        self._node().host.disk.slow = self.world.between(10 * MILLISECOND, SECOND)

    def break_starts(self) -> None:
        """Half of the programs cannot be started, for a while."""
        host = self._node().host
        host.breaks_starts = True
        self._tell("programs hardly start on", host.name)

        def heal() -> None:
            host.breaks_starts = False

        self.world.after(self.world.between(SECOND // 10, 20 * SECOND), None, heal)

    # --- the network -----------------------------------------------------------------------------------------

    def cut_cable(self) -> None:
        """Nothing passes, for a while."""
        self._cut(self._node(), [True, True])

    def cut_one_way(self) -> None:
        """One way only."""
        self._cut(self._node(), self.world.random.choice(([True, False], [False, True])))

    def _cut(self, node: Node, ways: list[bool]) -> None:
        term = self.cluster.parsed_options.term
        length = self.world.between(*self.world.random.choice(((SECOND // 10, term), (term, 4 * term))))
        self._tell("the cable of", node.name, "is cut:", ways, length / SECOND)
        node.cut(ways, length)

    def drop_connection(self) -> None:
        """A connection is lost with what was on its way; its ends notice it, or not."""
        node = self._node()
        agent = node.agent
        if agent is None or agent.up is None:
            return
        random = self.world.random
        tell_me, tell_them = random.random() < 0.6, random.random() < 0.6
        self._tell("the connection of", node.name, "is dropped; told:", tell_me, tell_them)
        sever(agent.up, tell_me=tell_me, tell_them=tell_them)
