"""Events for people and programs: derived from the machine's steps, numbered; the latest are kept for readers who
resume.

The numbers follow the order of the steps: a state that is read again from the store's log gives equal numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cress.lifecycle.attempts.end_reasons import without_rule
from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import (
    Cancel,
    ChangeJobs,
    Configure,
    Declare,
    Drain,
    Hold,
    Input,
    NodeDead,
    NodeJoined,
    NodeLeft,
    Promote,
    Rebalance,
    Reported,
    Requeue,
    Restarted,
    Scale,
    SetGroup,
    Submit,
    Trigger,
    Update,
)
from cress.lifecycle.jobs.reasons import lasting
from cress.lifecycle.machine import Machine
from cress.lifecycle.tables.rows import LiveAttempt
from cress.model.decisions import Preempt
from cress.model.events import AdvanceReservationRemoved, AdvanceReserved, GroupsApplied, LicencesSet
from cress.model.group import DEFAULT_GROUP
from cress.model.job import JobType
from cress.model.records import AttemptRecord
from cress.model.reports import Report, Started
from cress.model.step_values import in_reason
from cress.model.times import SECOND
from cress.protocol.cluster_views import EventView
from cress.shell.center.event_ring import EventRing
from cress.shell.center.observations import of_licences, of_notice

# Numbers of events kept in memory, and over a clean stop or a snapshot.
KEPT, SAVED = 20_000, 2_000
# Maximum number of a reservation's nodes that an event names.
MOST_NAMED = 10


class _SavedEvents(msgspec.Struct, frozen=True, array_like=True):
    last: int
    events: tuple[EventView, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_SavedEvents).decode
_decode_list = msgspec.msgpack.Decoder(list[EventView]).decode


# In these families the members are the tasks.
_TASKS = (JobType.SERVICE.value, JobType.DATABASE.value)


class Events:
    """The latest events; ``last`` is the number of the newest."""

    def __init__(self) -> None:
        self.last = 0
        self._ring = EventRing(KEPT)

    @property
    def first(self) -> int:
        """The number of the oldest kept event; one more than ``last`` if there is none."""
        return self.last + 1 - len(self._ring)

    def save(self) -> bytes:
        """Return the state for ``load``, to be stored with a snapshot."""
        latest = self._ring.some(len(self._ring) - SAVED, SAVED)
        return _encode(_SavedEvents(self.last, tuple(latest)))

    def load(self, data: bytes | None) -> None:
        """Continue from the stored state."""
        saved = _decode(data) if data is not None else _SavedEvents(0, ())
        self.last = saved.last
        self._ring.clear()
        self._ring.add(saved.events)

    def skip_to(self, last: int) -> None:
        """Forget the events and continue after number ``last``: readers who resume are told of a gap."""
        self.last = last
        self._ring.clear()

    def step(self, machine: Machine, inputs: Sequence[Input], step: StepResult) -> None:
        """Add the events of a step."""
        self.add(self.derive(machine, inputs, step))

    def derive(self, machine: Machine, inputs: Sequence[Input], step: StepResult) -> list[EventView]:
        """Return the events of a step with their numbers, to be added when the step is stored."""
        events = list(_derived(machine, inputs, step))
        for number, event in enumerate(events, self.last + 1):
            event.number = number
        return events

    def add(self, events: Sequence[EventView]) -> None:
        """Add events that follow the last one."""
        if events:
            self.last = events[-1].number
            self._ring.add(events)

    @staticmethod
    def encode(events: Sequence[EventView]) -> bytes:
        """Return events in the form that is stored with their step: as many as are kept over a restart."""
        return _encode(events[-SAVED:]) if events else b""

    def replay(self, stored: bytes) -> None:
        """Add events that ``encode`` wrote."""
        if stored:
            self.add(_decode_list(stored))

    def after(self, number: int, most: int) -> list[EventView]:
        """Return at most ``most`` of the kept events after ``number``, in order."""
        return self._ring.some(number + 1 - self.first, most)


class _Groups:
    """The groups of jobs after a step."""

    def __init__(self, machine: Machine, step: StepResult) -> None:
        self._jobs = machine.core.jobs
        self._families = machine.families
        self._over = {record.id: record.group for record in step.jobs}

    def __call__(self, job: int) -> str:
        if job in self._over:
            return self._over[job]
        known = self._jobs.get(job)
        if known is None and job in self._families:
            return self._families[job].job.group or DEFAULT_GROUP
        return known.group.name if known is not None else ""


def _derived(machine: Machine, inputs: Sequence[Input], step: StepResult) -> Iterator[EventView]:
    groups, starting = _Groups(machine, step), set(step.started)
    for place, (input_, reply) in enumerate(zip(inputs, step.replies, strict=True)):
        if not isinstance(reply, Exception) and place not in step.repeated:
            yield from _of_input(machine, input_, reply or (), groups)
            if starting and isinstance(input_, (Reported, NodeJoined)):
                yield from _started(machine, input_.reports, starting, groups, step)
    at = machine.utc / SECOND
    for notice in step.notices:
        yield of_notice(machine, at, notice)
    yield from _of_tasks(machine, step, groups)
    for job in step.jobs:
        if job.family and job.type in _TASKS:
            # It was a task of a service or database, not a submitted job.
            continue
        yield EventView(
            at=at,
            kind="job.ended",
            job=job.id,
            group=job.group,
            name=job.name,
            user=job.user,
            state=job.state.value,
            text="" if in_reason(job.reason) else job.reason,
        )


def _of_input(machine: Machine, input_: Input, ids: tuple[int, ...], groups: _Groups) -> Iterator[EventView]:
    at = machine.utc / SECOND
    match input_:
        case Submit() | Cancel() | Update() | Scale() | Hold() | ChangeJobs() | Requeue() | Promote() | Trigger():
            yield from _of_job(machine, input_, ids, groups)
        case GroupsApplied():
            yield EventView(at=at, kind="groups.applied", user=input_.by)
        case SetGroup():
            changes = ", ".join(f"{key}-" if text is None else f"{key}={text}" for key, text in input_.values)
            yield EventView(at=at, kind="group.changed", group=input_.name, user=input_.by, text=changes)
        case Configure():
            yield EventView(at=at, kind="config.changed", user=input_.by, text=input_.what)
        case Rebalance():
            text = f"{len(input_.moves)} moves" + (f" for job {input_.job}" if input_.job else "")
            yield EventView(at=at, kind="rebalance.begun", user=input_.by, text=text)
        case AdvanceReserved() | AdvanceReservationRemoved():
            yield _of_reservation(machine, input_)
        case Declare():
            yield EventView(at=at, kind="dimensions.declared", text=", ".join(input_.dimensions))
        case LicencesSet():
            yield of_licences(machine, input_.counts)
        case NodeJoined():
            yield EventView(at=at, kind="node.joined", node=input_.node.name)
        case NodeLeft():
            yield EventView(at=at, kind="node.left", node=input_.name)
        case NodeDead():
            yield EventView(at=at, kind="node.forgotten" if input_.forget else "node.dead", node=input_.name)
        case Drain():
            left = _time_left(input_.deadline)
            text = f"{input_.reason}; {left}" if input_.reason else left
            yield EventView(at=at, kind="node.draining", node=input_.name, user=input_.by, text=text)
        case Restarted():
            yield EventView(at=at, kind="center.started", text=f"epoch {input_.epoch}")


def _time_left(deadline: int | None) -> str:
    """Return what a drain means for running tasks."""
    if deadline is None:
        return "running tasks go on to their end"
    return f"running tasks are stopped in {lasting(deadline)}"


def _of_reservation(machine: Machine, input_: AdvanceReserved | AdvanceReservationRemoved) -> EventView:
    at = machine.utc / SECOND
    if isinstance(input_, AdvanceReservationRemoved):
        return EventView(at=at, kind="reservation.removed", user=input_.by, name=input_.name)
    spec = input_.reservation
    made = "reservation.changed" if input_.replace else "reservation.made"
    text = ", ".join(_nodes_of(machine, spec.name))
    return EventView(at=at, kind=made, user=spec.by, group=spec.group, name=spec.name, text=text)


def _nodes_of(machine: Machine, name: str) -> list[str]:
    """Return the first nodes of a reservation."""
    kept = machine.core.advance_reservations.by_name.get(name)
    names = [] if kept is None else list(kept.spec.nodes)
    return names[:MOST_NAMED] + ([f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else [])


def _of_job(
    machine: Machine,
    input_: Submit | Cancel | Update | Scale | Hold | ChangeJobs | Requeue | Promote | Trigger,
    ids: tuple[int, ...],
    groups: _Groups,
) -> Iterator[EventView]:
    at = machine.utc / SECOND
    match input_:
        case Submit():
            for number, job in zip(ids, input_.jobs, strict=True):
                group = job.group or DEFAULT_GROUP
                yield EventView(at=at, kind="job.submitted", job=number, group=group, name=job.name, user=job.user)
        case Cancel():
            group = groups(input_.job)
            if group:
                yield EventView(at=at, kind="job.cancelling", job=input_.job, group=group, user=input_.by)
        case Update():
            spec, name = input_.spec, input_.spec.name
            family = machine.families.get(input_.job)
            text = f"version {family.version}" if family is not None else ""
            group = groups(input_.job)
            yield EventView(
                at=at, kind="job.updated", job=input_.job, group=group, name=name, user=spec.user, text=text
            )
        case Scale():
            group, text = groups(input_.job), f"{input_.tasks} tasks"
            yield EventView(at=at, kind="job.scaled", job=input_.job, group=group, text=text)
        case Hold():
            kind = "job.held" if input_.held else "job.released"
            for number in (input_.job, *input_.more):
                yield EventView(at=at, kind=kind, job=number, group=groups(number), user=input_.by)
        case Trigger():
            group = groups(input_.job)
            text = f"{len(ids)} run{'s' * (len(ids) != 1)}: {', '.join(map(str, ids[:MOST_NAMED]))}"
            yield EventView(at=at, kind="job.triggered", job=input_.job, group=group, user=input_.by, text=text)
        case Promote():
            yield EventView(at=at, kind="job.promoted", job=input_.job, group=groups(input_.job), user=input_.by)
        case ChangeJobs() | Requeue():
            kind, text = ("job.updated", input_.what) if isinstance(input_, ChangeJobs) else ("job.requeued", "")
            for number in input_.jobs:
                yield EventView(at=at, kind=kind, job=number, group=groups(number), user=input_.by, text=text)


def _of_tasks(machine: Machine, step: StepResult, groups: _Groups) -> Iterator[EventView]:
    for fact in machine.told:
        attempt = machine.attempts.get(fact.attempt) if isinstance(fact, Preempt) else None
        if isinstance(fact, Preempt) and attempt is not None:
            rule = without_rule(attempt.halted_for)[1]
            told = f"for job {fact.by}" + (rule and f": {rule}")
            yield _of_task("task.preempted", machine.utc, fact.attempt, attempt, groups, text=told)
    for record in step.attempts:
        yield _of_task(
            "task.ended",
            record.ended,
            record.attempt,
            record,
            groups,
            state=record.outcome.value,
            code=record.code,
            text=record.error,
        )
    for launch in step.launches:
        attempt = machine.attempts.get(launch.attempt)
        # An order repeated to a node that came back is not news.
        if attempt is not None and attempt.placed == machine.utc:
            text = "" if attempt.leader is None else f"together with job {attempt.leader}"
            yield _of_task("task.placed", machine.utc, launch.attempt, attempt, groups, text=text)


def _started(
    machine: Machine, reports: Iterable[Report], starting: set[int], groups: _Groups, step: StepResult
) -> Iterator[EventView]:
    """Yield the starts of attempts that were not reported yet, and remove them from ``starting``."""
    ended = {record.attempt: record for record in step.attempts if record.attempt in starting}
    for report in reports:
        if not isinstance(report, Started) or report.attempt not in starting:
            continue
        starting.discard(report.attempt)
        known = machine.attempts.get(report.attempt) or ended.get(report.attempt)
        if known is not None:
            yield _of_task("task.started", report.at, report.attempt, known, groups)


def _of_task(
    kind: str,
    utc: int,
    attempt: int,
    where: LiveAttempt | AttemptRecord,
    groups: _Groups,
    *,
    state: str = "",
    code: int | None = None,
    text: str = "",
) -> EventView:
    """Return the event of an attempt at ``utc``, in µs."""
    return EventView(
        at=utc / SECOND,
        kind=kind,
        job=where.job,
        task=where.task,
        attempt=attempt,
        node=where.node,
        group=groups(where.job),
        state=state,
        code=code,
        text=text,
    )
