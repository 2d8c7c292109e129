"""A whole cluster from a seed: its center, its nodes, its people."""

from __future__ import annotations

from cress.lifecycle.inputs import Hold
from cress.lifecycle.machine import Machine
from cress.model.events import GroupsApplied, NodeCordoned
from cress.model.group import Group, Quota
from cress.model.option_text import parse_assignments
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import MILLISECOND, SECOND
from tests.faults.agent import Agent
from tests.faults.center import Center, Conversation
from tests.faults.given import Given
from tests.faults.host import Host
from tests.faults.network import End, connect
from tests.faults.node import Node
from tests.faults.outside import GPU, Outside
from tests.faults.owners import Owner
from tests.faults.peer import Peer
from tests.faults.peers import Peers
from tests.faults.people import Person
from tests.faults.rules import Rules
from tests.faults.store import SimulatedStore
from tests.faults.truth import Truth
from tests.faults.world import World

OPTIONS = (
    "grace=2s",
    "backoff_most=10s",
    "cooling=2s",
    "cooling_above_quota=5s",
    "max_per_round=0.5",
    "drain_after=30s",
)
TERMS = (("term=8s", "term_margin=2s"), ("term=20s", "term_margin=3s"), ("term=60s", "term_margin=5s"))


class Cluster:
    """Everything there is. ``center`` is the one that people and agents reach, None while there is none."""

    def __init__(self, world: World, rules: Rules, centers: int) -> None:
        random = world.random
        self.world = world
        self.rules = rules
        self.dimensions = Dimensions((GPU,))
        self.truth = Truth(world, Given(world, self.dimensions))
        self.options = (*OPTIONS, *random.choice(TERMS))
        self.parsed_options = parse_assignments(self.options, Options())
        self.most_records = random.choice((5, 20, 60))
        self.commit_time = world.between(MILLISECOND, 20 * MILLISECOND)
        self.check_every = 16
        self.pause = random.choice((SECOND, 5 * SECOND, 15 * SECOND))
        self.loses_calls = True
        self.disturbed = True
        self.jobs_made = 0
        self.outside = Outside(self)
        self.wishes = world.chance(0.6)  # whether jobs say something about their nodes
        self.sent: set[int] = set()  # attempts that were ordered, for a rule that is broken
        self.store = SimulatedStore()
        self.store.fenced = not rules.no_fencing
        self.truth.store = self.store
        self.host = Host(world, "center", self.truth)
        self.center: Center | None = None
        self.centers = 0
        self.peers = Peers(self, centers) if centers > 1 else None
        self.nodes = [self._node(number) for number in range(random.randint(1, 4))]
        # Whether there are services and the like. They leave room, so that what is bound to a node finds some there.
        self.owned = world.chance(0.4)
        self.room = min(node.cpus for node in self.nodes)
        self.people = [Person(self, number) for number in range(random.randint(1, 4))]
        self.people += [Owner(self, number) for number in range(random.randint(1, 2))] if self.owned else []
        self.start_center()
        world.after(3 * SECOND, None, self._apply_groups)
        world.after(20 * SECOND, None, self._look_after)

    def _node(self, number: int) -> Node:
        cpus = self.world.random.choice((2, 3, 4))
        node = Node(self.world, f"n{number}", cpus, self.truth, self.rules)
        node.devices, node.data = self.outside.fit_out(node.name)
        self.truth.capacity[node.name] = cpus
        node.dial_center = self._dial
        if self.peers is not None:
            self.peers.wire(node)
        return node

    def _apply_groups(self) -> None:
        groups = tuple(Group(name=name, quota=Quota(scalar=1000), users=("*",)) for name in ("a", "b"))
        if self.center is None or not self.center.post(GroupsApplied(groups=groups)):
            self.world.after(SECOND, None, self._apply_groups)

    def _look_after(self) -> None:
        """An operator opens nodes again that somebody, or too many failed starts, have closed."""
        center = self.center
        if center is not None and center.machine is not None and not center.problem:
            for name, node in center.machine.nodes.items():
                if node.closed and node.connected:
                    center.post(NodeCordoned(name=name, cordoned=False))
            if all(person.done for person in self.people):
                # Nobody may know of a job that was submitted without a key, and whose answer was lost.
                for number, job in center.machine.jobs.items():
                    if job.held:
                        center.post(Hold(job=number, held=False))
        self.world.after(20 * SECOND, None, self._look_after)

    # --- the center ------------------------------------------------------------------------------------------

    def start_center(self) -> None:
        """Start one, if there is none."""
        if self.peers is not None:
            self.peers.start()
            return
        if self.center is not None or not self.host.up:
            return
        self.centers += 1
        doom = self.world.random.randint(0, 15) if self.disturbed and self.world.chance(0.15) else -1
        self.center = Center(self, self.centers, doom=doom)

    def center_gone(self, center: Center) -> None:
        """It is started again."""
        if isinstance(center, Peer):
            center.peers.gone(center)
            return
        if self.center is center:
            self.center = None
            self.world.after(self.world.between(SECOND // 10, 5 * SECOND), None, self.start_center)

    def replace_center(self, pause: int) -> None:
        """The center stands still, another one takes over; then it goes on."""
        if self.center is not None and not self.center.problem:
            self.center.pause(pause)
            if self.peers is not None:
                return
            # By then it has noticed it, even if it has had nothing to store.
            self.world.after(pause + self.world.between(SECOND // 100, SECOND), None, self.center.still_leads)
            self.center = None
            self.start_center()

    def _dial(self, node: Node, agent: Agent) -> End | None:
        center = self.center
        if center is None or center.problem:
            return None
        mine, theirs = connect(node.cable, agent, node.host, center, self.host)
        Conversation(center, theirs)
        return mine

    def reach(self, person: str) -> tuple[Center | None, bool]:
        """The center that takes a person's call, if any, and whether the call is lost."""
        if self.peers is not None:
            return self.peers.reach(person)
        return self.center, self.center is not None and self.center.held is not None

    def check(self, machine: Machine, *, thoroughly: bool, number: int | None = None) -> None:
        """Whether all that the center believes is in order. One that is at record ``number`` may be behind."""
        if number not in (None, self.store.number):
            return
        self.truth.check_center(machine, self.store, thoroughly=thoroughly)

    # --- the end ---------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.disturbed = self.loses_calls = False
        self.truth.calm = True
        self.store.full, self.store.fault = False, ""
        self.commit_time = 5 * MILLISECOND
        if not self.host.up:
            self.host.switch_on()
        if self.center is not None:
            self.center.doom = -1
        if self.peers is not None:
            self.peers.heal()
        self.start_center()
        for node in self.nodes:
            node.heal()

    @property
    def settled(self) -> bool:
        """Whether everything is over, and everybody knows it."""
        center = self.center
        return (
            center is not None
            and not center.problem
            and center.machine is not None
            and not center.machine.jobs
            and not center.machine.families
            and all(person.done for person in self.people)
            and all(node.quiet for node in self.nodes)
            and (self.peers is None or self.peers.settled)
        )
