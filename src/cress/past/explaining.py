"""The reason why a job waited at a moment of a recorded log: the scheduler of that moment is asked."""

from __future__ import annotations

import msgspec

from cress.lifecycle import replay
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError
from cress.past.recorded_log import RecordedLog
from cress.past.replaying import RecordedSteps


class PastReason(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job after record ``record``, and why its tasks waited; ``reason`` is empty if none did.

    ``queue`` says how many jobs of its group were submitted before it and waited too.
    """

    job: int
    name: str
    record: int
    state: str
    reason: str
    queue: str = ""


def explained_at(log: RecordedLog, job: str, at: int) -> PastReason:
    """Return why a job (its id or name) waited at ``at`` (µs of the wall clock).

    Raises ``InputError`` if the log does not know the job then, or does not reach to that moment.
    """
    steps = RecordedSteps(log, at, at + 1)
    number = 0
    for numbered, _, record in steps:
        assert steps.machine is not None
        replay.stepped(steps.machine, record)
        number = numbered
    machine = steps.machine
    if machine is None or (steps.files[0].header.created > at and not number):
        begins = "has no records before this moment"
        raise InputError(begins, hint="a later --at", file=str(log.path))
    found = _numbered(machine, job, log)
    return _told(machine, found, number or steps.files[0].header.before, at)


def _numbered(machine: Machine, job: str, log: RecordedLog) -> int:
    """Return the id of an unfinished job. Raises ``InputError``."""
    if job.isdecimal():
        if int(job) in machine.jobs or int(job) in machine.families:
            return int(job)
    else:
        alive = [*(one.job for one in machine.jobs.values()), *(one.job for one in machine.families.values())]
        named = [one.id for one in alive if one.name == job]
        if named:
            return named[-1]
    raise InputError(
        f"job {job} neither waited nor ran then",
        hint=f"`cress story {job}` shows when it did",
        file=str(log.path),
    )


def _told(machine: Machine, number: int, record: int, at: int) -> PastReason:
    family = machine.families.get(number)
    live = family if family is not None else machine.jobs[number]
    reason = machine.reason(number, max(machine.now, machine.now + at - machine.utc))
    queue = ""
    if family is not None:
        state = f"{len(family.members)} tasks or steps are not over"
    else:
        job = machine.jobs[number]
        state = f"{job.waiting} tasks waited, {job.running} ran, {job.over} were over"
        group = machine.core.jobs[number].group.name
        ahead = sum(
            other.waiting > 0 and before < number and machine.core.jobs[before].group.name == group
            for before, other in machine.jobs.items()
            if before in machine.core.jobs
        )
        queue = f"{ahead} jobs of group {group} that were submitted before it waited too" if job.waiting else ""
    return PastReason(job=number, name=live.job.name, record=record, state=state, reason=reason, queue=queue)
