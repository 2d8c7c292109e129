"""One history: a cluster in which things go wrong for a while, and which has to settle when they stop."""

from __future__ import annotations

from random import Random

import msgspec

from cress.model.times import SECOND
from tests.faults.cluster import Cluster
from tests.faults.faults import Faults
from tests.faults.peer_faults import PeerFaults
from tests.faults.rules import Rules
from tests.faults.world import Violation, World

# How long everything may take to settle, in virtual time.
PATIENCE = 1200 * SECOND


class Outcome(msgspec.Struct):
    """What became of a history: ``violation`` is empty if all is well."""

    seed: int
    violation: str
    world: World
    cluster: Cluster | None
    centers: int

    def story(self, last: int | None = 60) -> str:
        """The last lines of the story, and how to see more of it."""
        return "\n".join(
            [*self.world.lines(last), f"seed {self.seed}: {self.violation or 'all is well'}"]
            + ([f"the whole story: python -m tests.faults {self.seed}{self._centers}"] if self.violation else [])
        )

    @property
    def _centers(self) -> str:
        return "" if self.centers == centers_of(self.seed) else f" --centers {self.centers}"


def centers_of(seed: int) -> int:
    """Return the number of centers in the history of this seed: one in most, two or three that share a store in the
    others.
    """
    return Random(f"centers {seed}").choice((1, 1, 1, 1, 1, 1, 1, 1, 2, 3))


def play(seed: int, rules: Rules | None = None, *, centers: int = 0) -> Outcome:
    """Play the history of this seed, with so many centers if it is said."""
    world = World(seed)
    outcome = Outcome(seed, "", world, None, centers or centers_of(seed))
    rules = rules or Rules()
    with rules.broken():
        _play(outcome, rules)
    return outcome


def _play(outcome: Outcome, rules: Rules) -> None:
    world = outcome.world
    try:
        cluster = outcome.cluster = Cluster(world, rules, outcome.centers)
        end = world.random.choice((20, 60, 120)) * SECOND
        Faults(cluster, end)
        if cluster.peers is not None:
            PeerFaults(cluster, cluster.peers, end)
        world.run(end)
        world.tell("fault", "no more faults")
        cluster.heal()
        world.run(end + PATIENCE, lambda: cluster.settled)
        _check_settled(cluster)
    except Violation as violation:
        outcome.violation = str(violation)


def _check_settled(cluster: Cluster) -> None:
    if not cluster.settled:
        center = cluster.center
        jobs = [] if center is None or center.machine is None else list(center.machine.jobs)
        raise Violation(
            f"it does not settle: jobs {jobs}, people done {[person.done for person in cluster.people]}, "
            f"nodes quiet {[node.quiet for node in cluster.nodes]}"
        )
    assert cluster.center is not None
    assert cluster.center.machine is not None
    cluster.check(cluster.center.machine, thoroughly=True)
    cluster.truth.check_end(cluster.store)
