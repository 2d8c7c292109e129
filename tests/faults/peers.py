"""Several centers that share a store: of one cluster, each on a computer of its own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from cress.lifecycle.machine import Machine
from cress.model.times import MILLISECOND, SECOND
from tests.core.promises import promised_state
from tests.faults.center import Conversation
from tests.faults.host import Host
from tests.faults.network import Cable, End, connect
from tests.faults.peer import Peer
from tests.faults.shared_store import Line, Replica, Servers
from tests.faults.world import Violation

if TYPE_CHECKING:
    from tests.faults.agent import Agent
    from tests.faults.cluster import Cluster
    from tests.faults.node import Node

# The state is compared after every so many entries.
EVERY = 4


class Place:
    """A computer on which centers run, one after the other: what lies between it and the servers, its replica."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.host = Host(cluster.world, name, cluster.truth)
        self.line = Line(cluster.world)
        self.replica = Replica()
        self.center: Peer | None = None


class Peers:
    """The centers of a cluster, and all that lies between them and the others."""

    def __init__(self, cluster: Cluster, count: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.servers = Servers(cluster.world, cluster.rules, cluster.store)
        self.places = [Place(cluster, name) for name in "abc"[:count]]
        self.listening: list[Peer] = []  # for executors
        self.deaf: dict[tuple[str, str], int] = {}  # person and place: until when they do not reach each other
        self._states: dict[int, tuple[str, str]] = {}  # by number of the last entry: a digest, and whose it is
        self._last: dict[str, str] = {}  # by node: the place to which it was connected last

    # --- centers ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a center on each computer that has none."""
        for place in self.places:
            if place.center is None and place.host.up:
                cluster = self.cluster
                cluster.centers += 1
                doom = self.world.random.randint(0, 15) if cluster.disturbed and self.world.chance(0.15) else -1
                place.center = Peer(self, place, cluster.centers, doom=doom)

    @property
    def centers(self) -> list[Peer]:
        """All that run."""
        return [place.center for place in self.places if place.center is not None]

    def gone(self, center: Peer) -> None:
        """A center has ended; the operating system starts it again."""
        if center.place.center is center:
            center.place.center = None
        self.stands_by(center)
        self.world.after(self.world.between(SECOND // 10, 5 * SECOND), None, self.start)

    def leads(self, center: Peer) -> None:
        """A center has begun an epoch."""
        self.cluster.center = center
        if center not in self.listening:
            self.listening.append(center)

    def stands_by(self, center: Peer) -> None:
        """A center leads no more. One that slept may have begun an epoch that was over: then another one leads."""
        if center in self.listening:
            self.listening.remove(center)
        if self.cluster.center is center:
            self.cluster.center = self.listening[-1] if self.listening else None

    # --- executors -------------------------------------------------------------------------------------------

    def wire(self, node: Node) -> None:
        """Lay cables from a node to all centers."""
        node.cables = [Cable(self.world, self.world.between(100, 50 * MILLISECOND)) for _ in self.places]
        node.dial_center = self._dial
        node.moved = lambda end: self._other(node, end.peer) is not None

    def _dial(self, node: Node, agent: Agent) -> End | None:
        center = self._other(node, None)
        if center is None:
            return None
        self._last[node.name] = center.place.name
        cable = node.cables[self.places.index(center.place)]
        mine, theirs = connect(cable, agent, node.host, center, center.host)
        mine.peer = center
        Conversation(center, theirs)
        return mine

    def _other(self, node: Node, known: object) -> Peer | None:
        """A center other than this one that listens and answers; the last one only if there is no other."""
        found = [
            each
            for each in self.listening
            if each is not known and each.held is None and node.cables[self.places.index(each.place)].whole
        ]
        found.sort(key=lambda each: each.place.name == self._last.get(node.name))
        return found[0] if found else None

    # --- people ----------------------------------------------------------------------------------------------

    def reach(self, person: str) -> tuple[Peer | None, bool]:
        """The center that takes a call, and whether the call is lost: a person tries any address, and is sent on."""
        place = self.world.aside.choice(self.places)
        for _ in range(2):
            center = place.center
            if self.is_deaf(person, place) or (center is not None and center.held is not None):
                return None, True
            if center is None or center.leads or center.leader is None:
                return center, False
            place = center.leader.place
        return place.center, False

    def is_deaf(self, person: str, place: Place) -> bool:
        """Whether a person and a computer do not reach each other."""
        return self.world.now < self.deaf.get((person, place.name), 0)

    # --- rules -----------------------------------------------------------------------------------------------

    def check_term(self, center: Peer) -> None:
        """Terms are confirmed by the one that no other can have replaced."""
        if self.servers.leader() is not center:
            raise Violation(f"{center.name} confirms a term after its session has ended")

    def compare(self, center: Peer, machine: Machine) -> None:
        """Centers that have the same entries have the same state."""
        number = center.store.last
        if number % EVERY:
            return
        digest = _digest(machine)
        first, whose = self._states.setdefault(number, (digest, center.name))
        if digest != first:
            raise Violation(f"after entry {number}, {center.name} has another state than {whose} had")

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.deaf.clear()
        for place in self.places:
            place.line.mend()
            if not place.host.up:
                place.host.switch_on()
            if place.center is not None:
                place.center.doom = -1
        self.start()

    @property
    def settled(self) -> bool:
        """Whether one leads, and the others have all that it has."""
        return len(self.centers) == len(self.places) and all(
            center.store.last == self.servers.last and not (center.leads and center is not self.cluster.center)
            for center in self.centers
        )


def _digest(machine: Machine) -> str:
    tables = {name: list(table.items()) for name, table in machine.tables.by_name().items()}
    return hashlib.sha256(repr((tables, promised_state(machine.core))).encode()).hexdigest()
