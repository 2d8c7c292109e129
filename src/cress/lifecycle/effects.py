"""Effects: orders of the machine to the world outside.

Carried out only when the step that they come from is durable.
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
    """Have this attempt started on its node. Sent again when the node joins again without knowing of it.

    ``ports`` are its numbers, in the order of the job's ports. ``hosts``, of a gang: where its tasks are, in their
    order. ``devices`` are those of its node that it has.
    """

    attempt: int
    job: int
    task: int
    node: str
    ports: tuple[int, ...] = ()
    hosts: tuple[Host, ...] = ()
    devices: tuple[Allocated, ...] = ()


class Halt(msgspec.Struct, frozen=True, gc=False):
    """Have this attempt stopped; ``grace`` in microseconds, ``None``: what its job says."""

    attempt: int
    job: int
    node: str
    grace: int | None = None


class CordonChanged(msgspec.Struct, frozen=True):
    """A node is cordoned or rests, or neither any more; ``why`` it does."""

    node: str
    cordoned: bool
    why: str


class Overloaded(msgspec.Struct, frozen=True):
    """The measured load of a node has become too high for new tasks; ``what`` is too high, as text."""

    node: str
    what: str


class Recovered(msgspec.Struct, frozen=True):
    """A connected node is no longer overloaded."""

    node: str


class DataMissing(msgspec.Struct, frozen=True):
    """Data cannot be located, for another reason than before."""

    data: str
    problem: str


class RolledBack(msgspec.Struct, frozen=True):
    """The newest version of a service or database is rolled back."""

    job: int
    why: str


class DeadlineAtRisk(msgspec.Struct, frozen=True):
    """The deadline of a job may not be met; ``text`` is what is foreseen."""

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
    """A run of a cron job was not made for limits of its group; ``text`` is which run, and why."""

    job: int
    name: str
    group: str
    text: str


class LeaseChanged(msgspec.Struct, frozen=True):
    """A lease is about to end (``stopping``), or its holder uses another part of it; ``text`` is why, or what it
    uses.
    """

    attempt: int
    job: int
    task: int
    node: str
    group: str
    stopping: bool
    text: str


class TaskMoved(msgspec.Struct, frozen=True):
    """A task is stopped on its node to run on another one; ``text`` is where and why."""

    attempt: int
    job: int
    task: int
    node: str
    group: str
    by: str
    text: str


class RoundEnded(msgspec.Struct, frozen=True):
    """A round of moves has ended; ``text`` is how."""

    number: int
    by: str
    text: str


Notice: TypeAlias = (
    TaskMoved
    | RoundEnded
    | LeaseChanged
    | CordonChanged
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

    ``more``: deciding was cut short, the next step is due at once. ``replies`` has one entry for each input: the ids of
    submitted jobs, ``None``, or the ``InputError`` that refused it (then it changed nothing). ``attempts`` and ``jobs``
    are what finished, to be stored with the step. ``repeated`` are the places of inputs that say nothing new: submits
    that came a second time, whose ids are those of the first one, and departures of nodes that were not connected.
    ``started`` are the attempts whose start was reported for the first time. ``notices`` are what else people are told.
    ``facts`` are what the step came to, for its record.
    """

    replies: list[tuple[int, ...] | InputError | None] = []
    launches: list[Launch] = []
    halts: list[Halt] = []
    attempts: list[AttemptRecord] = []
    jobs: list[JobRecord] = []
    more: bool = False
    repeated: set[int] = set()
    started: set[int] = set()
    notices: list[Notice] = []
    facts: Facts = msgspec.field(default_factory=Facts)
