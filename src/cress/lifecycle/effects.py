"""Effects: orders of the machine to the world outside. Carried out only when the step that they come from is durable."""

from __future__ import annotations

import msgspec

from cress.lifecycle.facts import Facts
from cress.model.errors import InputError
from cress.model.node import Allocated
from cress.model.records import AttemptRecord, JobRecord
from cress.model.run import Host


class Launch(msgspec.Struct, frozen=True, gc=False):
    """Have this attempt started on its node. Sent again when the node joins again without knowing of it.

    ``ports`` are its numbers, in the order of the job's ports. ``hosts``, of a gang: where its tasks are, in their order.
    ``devices`` are those of its node that it has.
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


class Step(msgspec.Struct):
    """The result of one step.

    ``more``: deciding was cut short, the next step is due at once. ``replies`` has one entry for each input: the ids of
    submitted jobs, ``None``, or the ``InputError`` that refused it (then it changed nothing). ``attempts`` and ``jobs``
    are what finished, to be stored with the step. ``repeated`` are the places of submits that came a second time: their
    ids are those of the first one, and nothing of them is new. ``facts`` are what the step came to, for its record.
    """

    replies: list[tuple[int, ...] | InputError | None] = []
    launches: list[Launch] = []
    halts: list[Halt] = []
    attempts: list[AttemptRecord] = []
    jobs: list[JobRecord] = []
    more: bool = False
    repeated: set[int] = set()
    facts: Facts = msgspec.field(default_factory=Facts)
