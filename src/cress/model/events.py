"""Events: what reaches the core. A log of them replays to the same decisions.

Some are inputs of the machine as well (``lifecycle.inputs``). These have the tags under which older releases stored
those inputs; as facts, events are stored under their names.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from cress.model.advance import AdvanceReservation
from cress.model.distances import Distance
from cress.model.estimates import RunEstimate
from cress.model.group import Group
from cress.model.job import Job
from cress.model.node import Allocated, Load, Node
from cress.model.resources import ResourceVector


class Outcome(Enum):
    """The way in which an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    LOST = "lost"
    TIMED_OUT = "timed out"  # it ran for longer than its job's time limit
    OUT_OF_MEMORY = "out of memory"  # it was killed because it used too much memory


# The outcomes that use up a retry. The scheduler does not tell them apart: it is told ``FAILED``.
FAILURES = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY})


class JobSubmitted(msgspec.Struct, frozen=True, tag=True):
    """A job was accepted, by someone who checked its user's rights; it waits from now on.

    It is offered unless its ``hold`` says otherwise, or it comes after the job ``behind``. Without an ``estimate`` its
    tasks are expected to run to their limits.
    """

    job: Job
    behind: int | None = None
    estimate: RunEstimate | None = None


class LeaseUsed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The holder of a lease, the attempt ``lease`` of a job that is a lease, uses these amounts of it by itself; the
    rest is idle.
    """

    lease: int
    amounts: ResourceVector


class RunEstimated(msgspec.Struct, frozen=True, tag=True):
    """The tasks of these jobs that start from now on are expected to run so long: the history tells more than
    before.
    """

    jobs: tuple[int, ...]
    estimate: RunEstimate


class JobCancelled(msgspec.Struct, frozen=True, tag=True):
    """A job is no longer wanted: its waiting tasks are dropped, its running ones are told to stop."""

    job: int


class JobHeld(msgspec.Struct, frozen=True, tag=True):
    """A job is not offered any more, or is again, in its old place; what runs of it goes on."""

    job: int
    held: bool = True


class JobAfter(msgspec.Struct, frozen=True, tag=True):
    """A job is not offered as long as it comes after the job ``behind``; with ``None`` it is."""

    job: int
    behind: int | None = None


class TaskEnded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An attempt ended and has given back what it held.

    ``again`` queues the task again with its original place in the order (a retry), ``after`` microseconds from now. A
    preempted attempt is always queued again, at once, whatever ``again`` and ``after`` say; so is a lost one, unless
    its job says otherwise (``job_failure``) and ``again`` does not.
    """

    attempt: int
    outcome: Outcome = Outcome.SUCCEEDED
    again: bool = False
    after: int = 0


class TaskAdopted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A task runs already on ``node``, without a decision of this scheduler; ``attempt`` is unique for ever.

    It is task ``task`` of job ``job``, or a stranger's with a ``name``, which is charged to nobody. It holds
    ``amounts``, ``devices`` and ``ports`` since ``since`` (µs). ``end`` is when it is expected to end; ``None``: by the
    time limit of its job, for a stranger never. Its end comes as ``TaskEnded``.
    """

    attempt: int
    node: str
    amounts: ResourceVector
    job: int | None = None
    task: int = 0
    name: str = ""
    since: int = 0
    end: int | None = None
    devices: tuple[Allocated, ...] = ()
    ports: tuple[int, ...] = ()


class ForeignUse(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Amounts of a node that others use, beside tasks; replaces what was said. Charged to nobody."""

    name: str
    amounts: ResourceVector


class NodeAdded(msgspec.Struct, frozen=True, tag=True):
    """A node registered, or one that was lost is back."""

    node: Node


class NodeLost(msgspec.Struct, frozen=True, tag=True):
    """A node is gone with everything that ran on it; those tasks are queued again, unless their jobs say otherwise."""

    name: str


class NodeCordoned(msgspec.Struct, frozen=True, tag="Cordon", omit_defaults=True):
    """A node takes no new tasks, or takes them again; tasks that run there go on.

    As an input it is the word of an operator. ``away`` is for the scheduler: the node takes none only because its
    executor is away, for a term at most. What is claimed there is kept for that time.
    """

    name: str
    cordoned: bool
    reason: str = ""
    away: bool = False


class NodeChanged(msgspec.Struct, frozen=True, tag=True):
    """A registered node is described anew: rack, address, attributes, data, dynamic ports, capacity, devices.

    What runs there goes on. A node that has less than is held there takes no tasks until enough of it has ended.
    """

    node: Node


class PortsSeen(msgspec.Struct, frozen=True, tag="Ports", omit_defaults=True):
    """All ports of a node that somebody listens on who is not a task of the cluster there; replaces what was seen."""

    name: str
    ports: tuple[int, ...]


class RacksSet(msgspec.Struct, frozen=True, tag="SetRacks", omit_defaults=True):
    """The whole list of pairs of racks that are neighbours, and of distances; the order within a pair means nothing.

    A distance is an attribute of nodes, two of its values, and a number above 0.
    """

    neighbours: tuple[tuple[str, str], ...]
    distances: tuple[Distance, ...] = ()


class LoadSeen(msgspec.Struct, frozen=True, tag="LoadReported", omit_defaults=True):
    """The measured load of a node is another one than was thought; ``None``: nobody measures it any more."""

    name: str
    load: Load | None


class DataLocated(msgspec.Struct, frozen=True, tag="LocateData", omit_defaults=True):
    """The location of data named by clauses: hosts (name or address), and the share of the data that each has, in
    thousandths.

    Replaces what was known of it. ``problem``: why that is not known; ``None`` for both: it is to be forgotten.
    """

    data: str
    places: tuple[tuple[str, int], ...] | None
    problem: str = ""


class LicencesSet(msgspec.Struct, frozen=True, tag="SetLicences", omit_defaults=True):
    """The whole list of licences of the cluster, and how many there are of each."""

    counts: tuple[tuple[str, int], ...]


class GroupsApplied(msgspec.Struct, frozen=True, tag="ApplyGroups", omit_defaults=True):
    """The whole list of groups from now on. ``moves`` says where the live jobs of a removed group go.

    ``zone`` is the name of the time zone of their timetables; empty: that of the cluster. ``by`` is the user, empty for
    a file of the center; it is not kept in facts.
    """

    groups: tuple[Group, ...]
    moves: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    by: str = ""


class AdvanceReserved(msgspec.Struct, frozen=True, tag="Reserve", omit_defaults=True):
    """An advance reservation is made, or replaces the one of its name.

    The machine chooses its nodes if it names none; the scheduler is told of chosen ones. ``replace`` is for the
    machine, which refuses a reservation whose name is taken without it, or free with it.
    """

    reservation: AdvanceReservation
    replace: bool = False


class AdvanceReservationRemoved(msgspec.Struct, frozen=True, tag="Unreserve", omit_defaults=True):
    """An advance reservation is not kept any more; what runs in it goes on. ``by`` is the user, not kept in facts."""

    name: str
    by: str = ""


class ZoneSet(msgspec.Struct, frozen=True, tag=True):
    """The name of the cluster's time zone; quota timetables follow it unless their groups have one of their own."""

    zone: str


class ClockSet(msgspec.Struct, frozen=True, tag=True):
    """The wall clock at this moment, in microseconds since the epoch (UTC); quota timetables need it."""

    utc: int


Event: TypeAlias = (
    JobSubmitted
    | LeaseUsed
    | RunEstimated
    | JobCancelled
    | JobHeld
    | JobAfter
    | TaskEnded
    | TaskAdopted
    | ForeignUse
    | NodeAdded
    | NodeLost
    | NodeCordoned
    | NodeChanged
    | PortsSeen
    | RacksSet
    | LoadSeen
    | DataLocated
    | LicencesSet
    | GroupsApplied
    | AdvanceReserved
    | AdvanceReservationRemoved
    | ZoneSet
    | ClockSet
)
