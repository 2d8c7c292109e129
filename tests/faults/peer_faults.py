"""What goes wrong between several centers, their store, executors and people; from a chance of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.model.times import SECOND

if TYPE_CHECKING:
    from tests.faults.cluster import Cluster
    from tests.faults.peers import Peers, Place

# The clocks of computers go faster or slower by at most this part.
DRIFT = 0.02


class PeerFaults:
    """Lets something go wrong now and then, until ``end``."""

    def __init__(self, cluster: Cluster, peers: Peers, end: int) -> None:
        self.cluster, self.peers, self.world, self.end = cluster, peers, cluster.world, end
        self.random = cluster.world.aside
        kinds = [self.cut_line, self.cut_line_one_way, self.cut_cable, self.lose_calls, self.pause, self.kill]
        self.kinds = self.random.sample(kinds, self.random.randint(1, len(kinds)))
        self.pace = self.random.choice((3, 10, 30)) * SECOND
        if self.random.random() < 0.5:
            for place in peers.places:
                place.host.pace = 1 + self.random.uniform(-DRIFT, DRIFT)
        self._plan()

    def _plan(self) -> None:
        self.world.after(int(self.random.expovariate(1 / self.pace)), None, self._happen)

    def _happen(self) -> None:
        if self.world.now < self.end:
            self.random.choice(self.kinds)()
            self._plan()

    def _place(self) -> Place:
        """Where the leader is, more often than not."""
        center = self.cluster.center
        leaders = [place for place in self.peers.places if center is not None and place.center is center]
        return self.random.choice(leaders if leaders and self.random.random() < 0.6 else self.peers.places)

    def _length(self) -> int:
        return self.world.between(SECOND // 10, 5 * self.peers.servers.session)

    def cut_line(self) -> None:
        """A center does not reach the servers of the store for a while."""
        place, length = self._place(), self._length()
        self.world.tell("fault", "the line between center", place.name, "and the servers is cut:", length / SECOND)
        place.line.cut(0, length)
        place.line.cut(1, length)

    def cut_line_one_way(self) -> None:
        """What a center asks does not arrive, or what it is answered does not."""
        place, length, way = self._place(), self._length(), self.random.choice((0, 1))
        self.world.tell("fault", "the line of center", place.name, "is cut", ("there", "back")[way], length / SECOND)
        place.line.cut(way, length)

    def cut_cable(self) -> None:
        """A node does not reach one of the centers."""
        node, place, length = self.random.choice(self.cluster.nodes), self._place(), self._length()
        self.world.tell("fault", "the cable between", node.name, "and center", place.name, "is cut:", length / SECOND)
        cable = node.cables[self.peers.places.index(place)]
        node.cut(self.random.choice(([True, True], [True, False], [False, True])), length, [cable])

    def lose_calls(self) -> None:
        """A person does not reach one of the centers."""
        person, place, length = self.random.choice(self.cluster.people), self._place(), self._length()
        self.world.tell("fault", person.name, "does not reach center", place.name, length / SECOND)
        self.peers.deaf[person.name, place.name] = self.world.now + length

    def pause(self) -> None:
        """A center sleeps, and wakes as if nothing had been."""
        center = self._place().center
        if center is not None:
            center.pause(self._length())

    def kill(self) -> None:
        """A center is killed at once, or between two of its steps."""
        center = self._place().center
        if center is None:
            return
        if self.random.random() < 0.5:
            center.doom = self.random.randint(0, 12)
            return
        self.world.tell("fault", center.name, "is killed")
        center.die()
