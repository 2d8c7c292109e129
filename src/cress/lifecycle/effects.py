"""Effects: orders of the machine to the world outside.

They are carried out only once their step is durable.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cress.lifecycle.facts import Facts
from cress.model.errors import InputError
from cress.model.node import Allocated
from cress.model.records import AttemptRecord, JobRecord
from cress.model.run import Host


class Launch(msgspec.Struct, frozen=True, gc=False):
    """Start this attempt on its node. Sent again when the node rejoins without knowing the attempt.

    ``ports`` are its numbers, in the order of the job's ports. ``hosts``, for a gang: the places of its tasks, in their
    order. ``devices`` are its devices on the node. ``restarts`` is the number of times that the task ran before.
    """

    attempt: int
    job: int
    task: int
    node: str
    ports: tuple[int, ...] = ()
    hosts: tuple[Host, ...] = ()
    devices: tuple[Allocated, ...] = ()
    restarts: int = 0


class Halt(msgspec.Struct, frozen=True, gc=False):
    """Stop this attempt; ``grace`` in µs, ``None``: that of its job."""

    attempt: int
    job: int
    node: str
    grace: int | None = None


class NewLimit(msgspec.Struct, frozen=True, gc=False):
    """Give this attempt another time limit in µs; ``None``: none."""

    attempt: int
    job: int
    node: str
    limit: int | None


class CordonChanged(msgspec.Struct, frozen=True):
    """The cordon or rest of a node has changed; ``why`` is the new reason."""

    node: str
    cordoned: bool
    why: str


class NodeDrained(msgspec.Struct, frozen=True):
    """A node that an operator drains is empty."""

    node: str


class Overloaded(msgspec.Struct, frozen=True):
    """The measured load of a node has become too high for new tasks; ``what`` names the resource, as text."""

    node: str
    what: str


class Recovered(msgspec.Struct, frozen=True):
    """A connected node is no longer overloaded."""

    node: str


class DataMissing(msgspec.Struct, frozen=True):
    """Data cannot be located, for a new reason."""

    data: str
    problem: str


class RolledBack(msgspec.Struct, frozen=True):
    """The newest version of a service or database is rolled back."""

    job: int
    why: str


class DeadlineAtRisk(msgspec.Struct, frozen=True):
    """The deadline of a job may not be met; ``text`` is the forecast."""

    job: int
    name: str
    group: str
    text: str


class DeadlineMissed(msgspec.Struct, frozen=True):
    """The deadline of a job has passed before its success."""

    job: int
    name: str
    group: str
    text: str


class RunSkipped(msgspec.Struct, frozen=True):
    """A run of a cron job was skipped because of limits of its group; ``text`` names the run and the limit."""

    job: int
    name: str
    group: str
    text: str


class LeaseChanged(msgspec.Struct, frozen=True):
    """A lease is about to end (``stopping``), or its holder uses another part of it; ``text`` is the
    reason or the use.
    """

    attempt: int
    job: int
    task: int
    node: str
    group: str
    stopping: bool
    text: str


class LeaseResized(msgspec.Struct, frozen=True):
    """A lease holds another amount; ``job`` and ``task`` are its holder, ``None`` if the center keeps it."""

    attempt: int
    job: int | None
    task: int | None
    workload: str
    node: str
    group: str
    text: str


class TaskMoved(msgspec.Struct, frozen=True):
    """A task is stopped on its node to run on another one; ``text`` is the target and the reason."""

    attempt: int
    job: int
    task: int
    node: str
    group: str
    by: str
    text: str


class RoundEnded(msgspec.Struct, frozen=True):
    """A round of moves has ended; ``text`` is the result."""

    number: int
    by: str
    text: str


Notice: TypeAlias = (
    TaskMoved
    | RoundEnded
    | LeaseChanged
    | LeaseResized
    | CordonChanged
    | NodeDrained
    | Overloaded
    | Recovered
    | DataMissing
    | RolledBack
    | DeadlineAtRisk
    | DeadlineMissed
    | RunSkipped
)


class StepResult(msgspec.Struct):
    """The result of one step.

    ``more``: deciding was cut short, and the next step is due at once. ``replies`` has one entry for each input: the
    ids of submitted jobs, ``None``, or the ``InputError`` that refused it (then it changed nothing). ``attempts`` and
    ``jobs`` have finished, and are stored with the step. ``repeated`` are the places of inputs without news: repeated
    submits, whose ids are those of the first one, and departures of nodes that were not connected. ``started`` are the
    attempts whose start was reported for the first time. ``notices`` are further news for people. ``facts`` are the
    facts of the step, for its record.
    """

    replies: list[tuple[int, ...] | InputError | None] = []
    launches: list[Launch] = []
    halts: list[Halt] = []
    limits: list[NewLimit] = []
    attempts: list[AttemptRecord] = []
    jobs: list[JobRecord] = []
    more: bool = False
    repeated: set[int] = set()
    started: set[int] = set()
    notices: list[Notice] = []
    facts: Facts = msgspec.field(default_factory=Facts)
