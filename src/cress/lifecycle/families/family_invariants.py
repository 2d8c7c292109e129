"""Invariants of families and their members, a part of the machine's invariants."""

from __future__ import annotations

from collections.abc import Iterator

from cress.lifecycle.context import Context
from cress.lifecycle.jobs.replica_status import status_of
from cress.lifecycle.tables.family_rows import Family, ReplicaState
from cress.model.family import Database, Service


def families(context: Context) -> Iterator[str]:
    """Yield the broken invariants as sentences."""
    for number, family in context.families.items():
        for index, member in family.members.items():
            job = context.jobs.get(member) or context.families.get(member)
            if job is None:
                yield f"families: member {index} of {number} is job {member}, which is over"
            elif (job.job.family, job.index) != (number, index):
                yield f"families: job {member} is member {job.index} of {job.job.family}, and {index} of {number}"
        if isinstance(family.job.plan, Service | Database) and not family.cancelling:
            yield from _kept(context, family)
        if number in context.jobs:
            yield f"families: {number} is a job and a family"
        if family.unmet and family.members and isinstance(family.job.plan, Service | Database):
            yield f"families: {number} has members and comes after jobs that are not over"
    yield from _derived(context)
    for number, job in context.jobs.items():
        if job.job.family and number not in context.families[job.job.family].members.values():
            yield f"families: job {number} is not a member of {job.job.family}"
        if job.job.plan is not None:
            yield f"families: job {number} has a plan and reached the scheduler"


def _derived(context: Context) -> Iterator[str]:
    """Check the indices, which follow from the state."""
    if context.named != context.by_name():
        yield "families: they are not known by their names"
    for number, family in context.families.items():
        for name in family.state.nodes.values() if isinstance(family.state, ReplicaState) else ():
            if number not in context.homes.get(name, ()):
                yield f"databases: {number} is bound to node {name}, and not entered there"
    for number, found in context.replica_indices.items():
        for index, status in found.of.items():
            if index not in found.changed and status is not status_of(context, context.families[number], index):
                yield f"services: task {index} of {number} is not {status.value} any more, and nobody said so"


def _kept(context: Context, family: Family) -> Iterator[str]:
    number, wanted = family.job.id, family.job.tasks
    if family.unmet:
        return
    if not isinstance(family.state, ReplicaState):
        yield f"services: {number} has begun and knows nothing"
        return
    lives = {index: context.jobs[member] for index, member in family.members.items() if member in context.jobs}
    for index, member in lives.items():
        if member.job.tasks != 1 or member.kept is None:
            yield f"services: member {index} of {number} is not a task of it"
        if index >= wanted + family.state.surging and not member.ending and isinstance(family.job.plan, Service):
            yield f"services: member {index} of {number} is too many"
        if member.held != family.held and not member.ending:
            yield f"services: {number} is held, or its member {index}, not both"
        for attempt in member.attempts.values():
            if attempt.ready_at is not None and not attempt.started and not member.kept.checked:  # type: ignore[union-attr]
                yield f"services: attempt {attempt.id} is ready and does not run"
    if (
        isinstance(family.job.plan, Service)
        and any(index not in lives and index not in family.state.lost for index in range(wanted))
        and not family.reason
    ):
        yield f"services: {number} has fewer members than it should"
