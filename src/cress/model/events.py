"""Events: messages to the core. A log of them replays to the same decisions.

Some events are inputs of the machine as well (``lifecycle.inputs``). These have the tags under which older releases
stored those inputs. As facts, events are stored under their names.
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

# The reason with which ``NodeCordoned`` closes a node whose executor is away.
AWAY = "its executor is not connected"


class Outcome(Enum):
    """The result of an attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    LOST = "lost"
    TIMED_OUT = "timed out"  # it ran longer than its job's time limit
    OUT_OF_MEMORY = "out of memory"  # it was killed for using too much memory


# Outcomes that use up a retry. The scheduler sees all of them as ``FAILED``.
FAILURES = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY})


class JobSubmitted(msgspec.Struct, frozen=True, tag=True):
    """A job was accepted after its user's rights were checked; it waits from now on.

    It is offered unless ``hold`` is set or it comes after the job ``behind``. Without an ``estimate`` its tasks are
    expected to run to their limits. ``by_task``: each of its tasks waits until ``TasksReleased`` names it.
    """

    job: Job
    behind: int | None = None
    estimate: RunEstimate | None = None
    by_task: bool = False


class LeaseUsed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The holder of a lease (the attempt ``lease`` of a job whose tasks are leases) uses these amounts of it; the rest
    is idle.
    """

    lease: int
    amounts: ResourceVector


class RunEstimated(msgspec.Struct, frozen=True, tag=True):
    """New run time estimates for the tasks of these jobs that start from now on."""

    jobs: tuple[int, ...]
    estimate: RunEstimate


class JobCancelled(msgspec.Struct, frozen=True, tag=True):
    """A job was cancelled: its waiting tasks are dropped, its running tasks are told to stop."""

    job: int


class JobHeld(msgspec.Struct, frozen=True, tag=True):
    """A job is held, or released in its old place in the order; its running tasks go on."""

    job: int
    held: bool = True


class JobChanged(msgspec.Struct, frozen=True, tag=True):
    """A job has a new description; its id, user, tasks and parts stay.

    A change of its group, its request or its constraints comes only while none of its tasks runs.
    """

    job: Job


class JobAfter(msgspec.Struct, frozen=True, tag=True):
    """A job waits for the end of the job ``behind`` and is not offered; ``None``: it is offered."""

    job: int
    behind: int | None = None


class TasksReleased(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """These ``tasks`` of a job that starts task by task may start now; the ``dropped`` ones never will."""

    job: int
    tasks: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()


class TaskEnded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An attempt ended and has returned its resources.

    ``again`` requeues the task (a retry) in its original place in the order, ``after`` µs from now. A preempted attempt
    is always requeued at once, whatever ``again`` and ``after`` say. So is a lost one, unless its job has
    ``job_failure`` off and ``again`` is false.
    """

    attempt: int
    outcome: Outcome = Outcome.SUCCEEDED
    again: bool = False
    after: int = 0


class TaskAdopted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A task already runs on ``node`` without a decision of this scheduler; ``attempt`` is never used twice.

    It is task ``task`` of job ``job``, or an outsider's with a ``name``, which is charged to no group. It holds
    ``amounts``, ``devices`` and ``ports`` since ``since`` (µs). ``end`` is its expected end; ``None``: by the time
    limit of its job, never for an outsider. Its end comes as ``TaskEnded``.
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
    """Amounts of a node that are used from outside the cluster; replaces the earlier ones. Charged to no group."""

    name: str
    amounts: ResourceVector


class NodeAdded(msgspec.Struct, frozen=True, tag=True):
    """A node registered, or a lost node is back."""

    node: Node


class NodeLost(msgspec.Struct, frozen=True, tag=True):
    """A node is gone with all its tasks; these are requeued unless their jobs exclude it."""

    name: str


class NodeCordoned(msgspec.Struct, frozen=True, tag="Cordon", omit_defaults=True):
    """A node takes no new tasks, or takes them again; its running tasks go on.

    As an input it is the order of an operator. ``away`` is for the scheduler: the node is closed only because its
    executor is away, for at most a term. Claims on the node are kept for that time.
    """

    name: str
    cordoned: bool
    reason: str = ""
    away: bool = False


class NodeChanged(msgspec.Struct, frozen=True, tag=True):
    """A registered node has a new description: rack, address, attributes, data, dynamic ports, capacity, devices.

    Its running tasks go on. A node with less capacity than its tasks hold takes no new ones until enough of them have
    ended.
    """

    node: Node


class PortsSeen(msgspec.Struct, frozen=True, tag="Ports", omit_defaults=True):
    """The foreign ports of a node, on which programs outside the cluster listen; replaces the earlier list."""

    name: str
    ports: tuple[int, ...]


class RacksSet(msgspec.Struct, frozen=True, tag="SetRacks", omit_defaults=True):
    """The whole list of pairs of neighbouring racks, and of distances; the order within a pair has no meaning.

    A distance consists of an attribute of nodes, two of its values, and a number above 0.
    """

    neighbours: tuple[tuple[str, str], ...]
    distances: tuple[Distance, ...] = ()


class LoadSeen(msgspec.Struct, frozen=True, tag="LoadReported", omit_defaults=True):
    """The measured load of a node has changed; ``None``: it is no longer measured."""

    name: str
    load: Load | None


class DataLocated(msgspec.Struct, frozen=True, tag="LocateData", omit_defaults=True):
    """The location of data named by clauses: hosts (name or address), and each host's share of the data in thousandths.

    Replaces the earlier location. ``problem``: why the location is unknown; ``None`` for both: forget the data.
    """

    data: str
    places: tuple[tuple[str, int], ...] | None
    problem: str = ""


class LicencesSet(msgspec.Struct, frozen=True, tag="SetLicences", omit_defaults=True):
    """The whole list of licences of the cluster, with the number of each."""

    counts: tuple[tuple[str, int], ...]


class GroupsApplied(msgspec.Struct, frozen=True, tag="ApplyGroups", omit_defaults=True):
    """The whole list of groups from now on. ``moves`` maps a removed group to the group that gets its unfinished jobs.

    ``zone`` is the time zone of the timetables; empty: that of the cluster. ``by`` is the user, empty for a file of the
    center; facts do not keep it.
    """

    groups: tuple[Group, ...]
    moves: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    by: str = ""


class AdvanceReserved(msgspec.Struct, frozen=True, tag="Reserve", omit_defaults=True):
    """An advance reservation is made, or replaces the one with its name.

    The machine chooses its nodes if it names none; the scheduler gets chosen ones. ``replace`` is for the machine,
    which refuses a taken name without it, and a free name with it.
    """

    reservation: AdvanceReservation
    replace: bool = False


class AdvanceReservationRemoved(msgspec.Struct, frozen=True, tag="Unreserve", omit_defaults=True):
    """An advance reservation is removed; tasks that run in it go on. ``by`` is the user, not kept in facts."""

    name: str
    by: str = ""


class ZoneSet(msgspec.Struct, frozen=True, tag=True):
    """The name of the cluster's time zone, for quota timetables of groups without a zone of their own."""

    zone: str


class ClockSet(msgspec.Struct, frozen=True, tag=True):
    """The present wall clock in µs since the epoch (UTC), which quota timetables need."""

    utc: int


Event: TypeAlias = (
    JobSubmitted
    | LeaseUsed
    | RunEstimated
    | JobCancelled
    | JobHeld
    | JobChanged
    | JobAfter
    | TasksReleased
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
