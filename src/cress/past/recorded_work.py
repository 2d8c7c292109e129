"""Recorded work: what happened in a log, as jobs, attempts and nodes with their times; nothing is decided again.

Only the facts of the core are read: jobs as they were submitted, starts and ends of attempts, nodes, groups, options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from cress.lifecycle.facts import Configured, Widened
from cress.lifecycle.follower import Follower
from cress.lifecycle.inputs import NodeJoined, Reported
from cress.lifecycle.record import Record, has_facts, inputs_of
from cress.model.decisions import Start
from cress.model.errors import InputError
from cress.model.events import (
    AWAY,
    GroupsApplied,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobSubmitted,
    LicencesSet,
    NodeAdded,
    NodeChanged,
    NodeCordoned,
    NodeLost,
    Outcome,
    RacksSet,
    TaskEnded,
)
from cress.model.group import DEFAULT_GROUP, Group
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.reports import Ended
from cress.model.resources import Dimensions
from cress.past.event_file import EventFile
from cress.past.recorded_log import Gap, RecordedLog


@dataclass(slots=True)
class RecordedAttempt:
    """One attempt; times in µs of the wall clock, from its decision to its end; ``again``: its task was run again."""

    id: int
    task: int
    node: str
    placed: int
    ended: int | None = None
    outcome: Outcome | None = None
    again: bool = False


@dataclass(slots=True)
class RecordedJob:
    """One job as the scheduler knew it. Times in µs of the wall clock.

    ``submitted`` is the time since which it could start: its submission, or its release if it was submitted held.
    ``tasks`` are those that were not over at the beginning of the log, for jobs from before.
    """

    job: Job
    submitted: int
    tasks: int
    held: bool = False
    cancelled: int | None = None
    before: bool = False
    attempts: list[RecordedAttempt] = field(default_factory=list)

    @property
    def started(self) -> int | None:
        """The time of its first start; ``None`` before."""
        return min((attempt.placed for attempt in self.attempts), default=None)

    @property
    def ended(self) -> int | None:
        """The end of its last attempt, if no attempt runs and as many tasks are over as it has; else ``None``."""
        over = sum(attempt.ended is not None and not attempt.again for attempt in self.attempts)
        if over < self.tasks or any(attempt.ended is None for attempt in self.attempts):
            return None
        return max(attempt.ended or 0 for attempt in self.attempts)


@dataclass(slots=True)
class RecordedNode:
    """One node, as it was described last, and its spans (µs of the wall clock; ``None``: to the end of the log).

    It was in the cluster in its ``spans``. In ``cordons`` it took no new tasks by order; in ``aways`` its executor was
    not connected.
    """

    node: Node
    spans: list[tuple[int, int | None]] = field(default_factory=list)
    aways: list[tuple[int, int | None]] = field(default_factory=list)
    cordons: list[tuple[int, int | None]] = field(default_factory=list)


@dataclass
class RecordedWork:
    """The jobs by id, the nodes by name, and the configuration, of the time from ``since`` to ``until`` (µs)."""

    dimensions: Dimensions = field(default_factory=Dimensions)
    options: Options = field(default_factory=Options)
    groups: tuple[Group, ...] = ()
    zone: str = ""
    licences: tuple[tuple[str, int], ...] = ()
    racks: RacksSet = field(default_factory=lambda: RacksSet(()))
    jobs: dict[int, RecordedJob] = field(default_factory=dict)
    nodes: dict[str, RecordedNode] = field(default_factory=dict)
    families: dict[int, str] = field(default_factory=dict)
    since: int = 0
    until: int = 0
    regrouped: int = 0
    gaps: list[Gap] = field(default_factory=list)


def recorded_work(log: RecordedLog, since: int = 0, until: int | None = None) -> RecordedWork:
    """Read what happened from ``since`` to ``until`` (µs of the wall clock, excluded).

    Raises ``InputError`` for damaged files, those of a newer release, and records without facts.
    """
    reader = _Reader(since)
    last: int | None = None
    for file in log.files(since):
        if last is None or file.header.before != last:
            if last is not None:
                reader.work.gaps.append(Gap(last, file.header.before + 1, file.path))
            reader.begin(file)
        last = file.header.before
        for number, record in file:
            last = number
            if until is not None and record.utc >= until:
                return reader.result(until)
            if not has_facts(record):
                what = f"record {number} is of release 5, which stored no decisions"
                raise InputError(what, hint="`cress replay` decides it again", file=str(file.path))
            reader.take(record)
    return reader.result(None)


class _Reader:
    """Takes in records in order."""

    def __init__(self, since: int) -> None:
        self.work = RecordedWork()
        self._since = since
        self._attempts: dict[int, RecordedAttempt] = {}
        self._utc = 0
        self._ends: dict[int, int] = {}
        # Groups that were removed, as they were last.
        self._removed: dict[str, Group] = {}

    def begin(self, file: EventFile) -> None:
        """Take in the state with which a file begins."""
        work = self.work
        try:
            state = Follower.restore(file.header.state)
        except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
            what = f"begins with a state that this release cannot read (cress {file.header.release} wrote it): {error}"
            raise InputError(what, hint="read it with that release", file=str(file.path)) from None
        core, tables, utc = state.core, state.tables, max(state.utc, 0) or file.header.created
        work.dimensions, work.options = core.dimensions, core.options
        work.groups, work.zone = core.groups.configured, core.groups.own_zone or str(core.groups.cluster_zone)
        work.licences = tuple(core.relations.licences.counts.items())
        work.since = work.since or utc
        self._utc = utc
        for number, live in tables.jobs.items():
            if number not in work.jobs:
                over = live.succeeded + live.failed + live.cancelled
                work.jobs[number] = RecordedJob(
                    live.job, live.submitted, live.job.tasks - over, held=live.held, before=True
                )
        for number, attempt in tables.attempts.items():
            if number not in self._attempts and attempt.job in work.jobs:
                self._start(number, attempt.job, attempt.task, attempt.node, attempt.placed)
        for name, family in ((family.job.name, family) for family in tables.families.values()):
            work.families[family.job.id] = name
        there = {name for name, index in core.cluster.index.items() if not core.cluster.lost[index]}
        for name, node in tables.nodes.items():
            if name in there:
                known = work.nodes.setdefault(name, RecordedNode(node.node))
                _open(known.spans, utc)
                if not node.connected:
                    _open(known.aways, utc)
                elif node.closed:
                    _open(known.cordons, utc)

    def take(self, record: Record) -> None:
        """Take in the facts of a record."""
        self._utc = utc = record.utc
        self._ends = _ends(record)
        for fact in record.facts.core:
            take = self._TAKE.get(type(fact))
            if take is not None:
                take(self, fact, utc)
        families = record.facts.rows.get("families")
        if families is not None:
            for number, row in families.written:
                job = row.get("job")
                if isinstance(job, dict):
                    self.work.families[int(number)] = job.get("name", "")

    def result(self, until: int | None) -> RecordedWork:
        """Return the work, without what was over before ``since``."""
        work = self.work
        work.until = min(self._utc, until) if until is not None else self._utc
        if self._since > work.since:
            work.since = self._since
            gone = [
                number for number, job in work.jobs.items() if (job.ended or job.cancelled or work.until) < self._since
            ]
            for number in gone:
                del work.jobs[number]
        there = {group.name for group in work.groups}
        named = {job.job.group or DEFAULT_GROUP for job in work.jobs.values()} - there
        # A group that was removed without a place for its jobs, since all had ended, is simulated as it was.
        work.groups += tuple(
            msgspec.structs.replace(group, parent=group.parent if group.parent in there else "")
            for name, group in self._removed.items()
            if name in named
        )
        return work

    # --- facts -----------------------------------------------------------------------------------------------

    def _submitted(self, fact: JobSubmitted, utc: int) -> None:
        self.work.jobs[fact.job.id] = RecordedJob(fact.job, utc, fact.job.tasks, held=fact.job.hold)

    def _changed(self, fact: JobChanged, utc: int) -> None:
        job = self.work.jobs.get(fact.job.id)
        if job is not None:
            job.job = fact.job

    def _held(self, fact: JobHeld, utc: int) -> None:
        job = self.work.jobs.get(fact.job)
        if job is not None:
            if job.held and not fact.held and not job.attempts:
                job.submitted = utc
            job.held = fact.held

    def _cancelled(self, fact: JobCancelled, utc: int) -> None:
        job = self.work.jobs.get(fact.job)
        if job is not None and job.cancelled is None:
            job.cancelled = utc

    def _started(self, fact: Start, utc: int) -> None:
        self._start(fact.attempt, fact.job, fact.task, fact.node, utc)

    def _start(self, number: int, job: int, task: int, node: str, utc: int) -> None:
        attempt = self._attempts[number] = RecordedAttempt(number, task, node, utc)
        if job in self.work.jobs:
            self.work.jobs[job].attempts.append(attempt)

    def _ended(self, fact: TaskEnded, utc: int) -> None:
        attempt = self._attempts.pop(fact.attempt, None)
        if attempt is not None:
            attempt.ended, attempt.outcome = max(self._ends.get(fact.attempt, utc), attempt.placed), fact.outcome
            attempt.again = fact.again or fact.outcome in (Outcome.PREEMPTED, Outcome.LOST)

    def _node(self, fact: NodeAdded | NodeChanged, utc: int) -> None:
        node = fact.node
        known = self.work.nodes.setdefault(node.name, RecordedNode(node))
        known.node = node
        _open(known.spans, utc)

    def _lost(self, fact: NodeLost, utc: int) -> None:
        known = self.work.nodes.get(fact.name)
        if known is not None:
            _close(known.spans, utc)
            _close(known.cordons, utc)
            _close(known.aways, utc)
            for number, attempt in list(self._attempts.items()):
                if attempt.node == fact.name:
                    attempt.ended, attempt.outcome, attempt.again = utc, Outcome.LOST, True
                    del self._attempts[number]

    def _cordoned(self, fact: NodeCordoned, utc: int) -> None:
        known = self.work.nodes.get(fact.name)
        if known is None:
            return
        away = fact.cordoned and (fact.away or fact.reason == AWAY)
        (_open if away else _close)(known.aways, utc)
        (_open if fact.cordoned and not away else _close)(known.cordons, utc)

    def _grouped(self, fact: GroupsApplied, _: int) -> None:
        if fact.groups != self.work.groups:
            self.work.regrouped += bool(self.work.jobs)
        there = {group.name for group in fact.groups}
        self._removed.update((group.name, group) for group in self.work.groups if group.name not in there)
        moves = dict(fact.moves)
        for job in self.work.jobs.values() if moves else ():
            # Those that had ended as well: a group that is gone has no quota to simulate them with.
            if (job.job.group or DEFAULT_GROUP) in moves:
                job.job = msgspec.structs.replace(job.job, group=moves[job.job.group or DEFAULT_GROUP])
        self.work.groups, self.work.zone = fact.groups, fact.zone or self.work.zone

    def _configured(self, fact: Configured, _: int) -> None:
        self.work.options = fact.options

    def _widened(self, fact: Widened, _: int) -> None:
        self.work.dimensions = Dimensions(fact.dimensions)

    def _licences(self, fact: LicencesSet, _: int) -> None:
        self.work.licences = fact.counts

    def _racks(self, fact: RacksSet, _: int) -> None:
        self.work.racks = fact

    _TAKE: ClassVar[dict[type, Callable[..., None]]] = {
        JobSubmitted: _submitted,
        JobChanged: _changed,
        JobHeld: _held,
        JobCancelled: _cancelled,
        Start: _started,
        TaskEnded: _ended,
        NodeAdded: _node,
        NodeChanged: _node,
        NodeLost: _lost,
        NodeCordoned: _cordoned,
        GroupsApplied: _grouped,
        Configured: _configured,
        Widened: _widened,
        LicencesSet: _licences,
        RacksSet: _racks,
    }


def _ends(record: Record) -> dict[int, int]:
    """Return the ends (µs of the wall clock) that executors reported, by attempt: reports may come much later."""
    if not any(isinstance(fact, TaskEnded) for fact in record.facts.core):
        return {}
    found = (input_ for input_ in inputs_of(record) if isinstance(input_, Reported | NodeJoined))
    return {
        report.attempt: min(report.at, record.utc)
        for input_ in found
        for report in input_.reports
        if isinstance(report, Ended)
    }


def _open(spans: list[tuple[int, int | None]], utc: int) -> None:
    """Begin a span, unless one is open."""
    if not spans or spans[-1][1] is not None:
        spans.append((utc, None))


def _close(spans: list[tuple[int, int | None]], utc: int) -> None:
    """End the last span, if it is open."""
    if spans and spans[-1][1] is None:
        spans[-1] = (spans[-1][0], utc)
