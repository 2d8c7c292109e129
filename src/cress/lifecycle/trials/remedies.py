"""Trials of changes on a copy of the machine: each is made as its user would make it, with all its consequences.

The scheduler alone would not do. A limit of a group refuses a job that the scheduler would start, and the end of a job
lets those start that come after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cress.core.answers.changes import Counterfactual
from cress.lifecycle.inputs import Cancel, ChangeJobs, Hold, Input, NodeJoined, Reported, Submit, Update
from cress.lifecycle.machine import Machine
from cress.lifecycle.slices import Slices
from cress.lifecycle.tables.rows import LiveJob
from cress.model.changeable import CHANGEABLE
from cress.model.decisions import Start
from cress.model.errors import InputError
from cress.model.events import (
    GroupsApplied,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobSubmitted,
    LicencesSet,
    NodeAdded,
    NodeCordoned,
    TaskEnded,
)
from cress.model.job import Job, JobType
from cress.model.reports import Cause, Ended, Report, Started
from cress.model.times import MILLISECOND

# The boot and the process of what runs nowhere.
BOOT, PID = "trial", 1


def helps(machine: Machine, change: Counterfactual) -> bool:
    """Return True if the job starts at once after the change. It consumes ``machine``, a copy."""
    try:
        inputs = list(_inputs(machine, change))
    except InputError:
        return False
    if not inputs:
        return False
    # A job that is submitted anew gets its number from the machine.
    wanted = {change.job} & machine.jobs.keys()
    family = _family(machine, change.job)
    now, utc = machine.now + MILLISECOND, machine.utc + MILLISECOND
    more = True
    while more:
        for _ in _in_parts(machine.stepping(now, utc, inputs)):
            replies = machine.out.replies
            if any(isinstance(reply, InputError) for reply in replies):
                return False
            wanted.update(number for reply in replies if isinstance(reply, tuple) for number in reply)
            # When it has started, the rest of the queue does not matter.
            for fact in machine.told:
                if isinstance(fact, Start) and (
                    fact.job in wanted or (family and _family(machine, fact.job) == family)
                ):
                    return True
        more, inputs = machine.more, []
    return False


def _in_parts(step: Slices[object]) -> Iterator[None]:
    """Pause where a step pauses, and after its end."""
    yield from step
    yield


def _family(machine: Machine, number: int) -> int:
    """Return the service or database of a job; 0 if it is of none."""
    live = machine.jobs.get(number)
    return live.job.family if live is not None and live.kept is not None else 0


def _inputs(machine: Machine, change: Counterfactual) -> Iterator[Input]:
    """Yield the inputs that make a change. Raises ``InputError`` if nobody can make it."""
    changed = [event for event in change.events if isinstance(event, JobChanged)]
    if changed:
        yield _changed(machine, changed[0].job)
    ends: dict[str, list[Report]] = {}
    for event in change.events:
        match event:
            case JobChanged():
                pass
            case JobSubmitted(job=job):
                yield Submit(jobs=(msgspec.structs.replace(job, id=0, family=0),))
            case JobCancelled(job=number):
                yield Cancel(job=_of_its_own(machine, number).job.id)
            case JobHeld(job=number, held=held):
                live = machine.jobs[number]
                yield Hold(job=live.job.id if live.kept is None else live.job.family, held=held)
            case NodeAdded(node=added):
                yield NodeJoined(node=added, boot=BOOT)
            case TaskEnded(attempt=attempt):
                _end(machine, attempt, ends)
            case NodeCordoned(name=node) if change.kind == "back":
                yield _back(machine, node)
            case NodeCordoned() | GroupsApplied() | LicencesSet():
                yield event
            case _:
                raise InputError(f"nobody can make the change {change.kind!r}")
    for name, reports in ends.items():
        yield Reported(node=name, reports=tuple(reports))


def _of_its_own(machine: Machine, number: int) -> LiveJob:
    """Return a job that is no step and no member. Raises ``InputError`` for others."""
    live = machine.jobs[number]
    if live.job.family and (live.kept is not None or machine.families[live.job.family].job.type is JobType.DAG):
        raise InputError(f"job {number} is part of job {live.job.family}")
    return live


def _changed(machine: Machine, new: Job) -> Input:
    """Return the update that gives a job, or the service or database of a member, the values of ``new``."""
    live = machine.jobs[new.id]
    rows = [row for row in CHANGEABLE.values() if getattr(new, row.field) != getattr(live.job, row.field)]
    if live.kept is None:
        return ChangeJobs(jobs=(new.id,), values=new, keys=tuple(row.key for row in rows))
    family = machine.families[live.job.family]
    values = {row.field: getattr(new, row.field) for row in rows}
    spec = msgspec.structs.replace(family.job, id=0, **values)
    return Update(job=family.job.id, spec=spec, same_as=family.template)


def _end(machine: Machine, attempt: int, ends: dict[str, list[Report]]) -> None:
    """Add the report that a task has succeeded to those of its node."""
    live = machine.attempts[attempt]
    report = Ended(
        attempt=attempt, cause=Cause.EXITED, code=0, started=live.started or machine.utc, at=machine.utc + MILLISECOND
    )
    ends.setdefault(live.node, []).append(report)


def _back(machine: Machine, name: str) -> Input:
    """Return the arrival of a node that was away; what it ran goes on."""
    live = machine.nodes[name]
    reports = tuple(
        Started(attempt=attempt.id, at=attempt.started or attempt.placed, pid=PID) for attempt in machine.on_node(name)
    )
    return NodeJoined(node=live.node, boot=live.boot, reports=reports, terms=live.terms)
