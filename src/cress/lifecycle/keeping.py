"""What must always hold of families and their members; a part of the machine's invariants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cress.lifecycle.families import by_name
from cress.lifecycle.family import Family, Kept
from cress.lifecycle.standing import stand_of
from cress.model.family import Database, Service

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def families(machine: Machine) -> Iterator[str]:
    """Every sentence that should not be true."""
    for number, family in machine.families.items():
        for index, member in family.members.items():
            job = machine.jobs.get(member)
            if job is None:
                yield f"families: member {index} of {number} is job {member}, which is over"
            elif (job.job.family, job.index) != (number, index):
                yield f"families: job {member} is member {job.index} of {job.job.family}, and {index} of {number}"
        if isinstance(family.job.plan, Service | Database) and not family.cancelling:
            yield from _kept(machine, family)
        if number in machine.jobs:
            yield f"families: {number} is a job and a family"
        if family.unmet and family.members and isinstance(family.job.plan, Service | Database):
            yield f"families: {number} has members and comes after jobs that are not over"
    yield from _derived(machine)
    for number, job in machine.jobs.items():
        if job.job.family and number not in machine.families[job.job.family].members.values():
            yield f"families: job {number} is not a member of {job.job.family}"
        if job.job.plan is not None:
            yield f"families: job {number} has a plan and reached the scheduler"


def _derived(machine: Machine) -> Iterator[str]:
    """What is kept up beside the state, and follows from it."""
    if machine.named != by_name(machine):
        yield "families: they are not known by their names"
    for number, found in machine.standings.items():
        for index, stand in found.of.items():
            if index not in found.changed and stand is not stand_of(machine, machine.families[number], index):
                yield f"services: task {index} of {number} is not {stand.value} any more, and nobody said so"


def _kept(machine: Machine, family: Family) -> Iterator[str]:
    number, wanted = family.job.id, family.job.tasks
    if family.unmet:
        return
    if not isinstance(family.state, Kept):
        yield f"services: {number} has begun and knows nothing"
        return
    lives = {index: machine.jobs[each] for index, each in family.members.items() if each in machine.jobs}
    for index, member in lives.items():
        if member.job.tasks != 1 or member.kept is None:
            yield f"services: member {index} of {number} is not a task of it"
        if index >= wanted and not member.ending and isinstance(family.job.plan, Service):
            yield f"services: member {index} of {number} is too many"
        if member.held != family.held and not member.ending:
            yield f"services: {number} is held, or its member {index}, not both"
        for attempt in member.attempts.values():
            if attempt.ready_at is not None and not attempt.started and not member.kept.checked:  # type: ignore[union-attr]
                yield f"services: attempt {attempt.id} is ready and does not run"
    if (
        isinstance(family.job.plan, Service)
        and any(index not in lives for index in range(wanted))
        and not family.reason
    ):
        yield f"services: {number} has fewer members than it should"
