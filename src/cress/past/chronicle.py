"""The chronicle of a recorded log: what happened, one entry each, of everything or of one job, node or group.

Entries are read from the facts of records, and from the reports of executors for exit codes. Nothing is decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import msgspec

from cress.lifecycle.attempts.end_reasons import without_rule
from cress.lifecycle.facts import Configured
from cress.lifecycle.follower import Follower
from cress.lifecycle.inputs import (
    Awaited,
    Cancel,
    ChangeJobs,
    Drain,
    Hold,
    NodeDead,
    NodeJoined,
    NodeLeft,
    Promote,
    Reported,
    Requeue,
    Restarted,
    Scale,
    SetGroup,
    Trigger,
)
from cress.lifecycle.record import Record, has_facts, inputs_of
from cress.model.decisions import Claim, ClaimDropped, Preempt, Start, Stop
from cress.model.errors import InputError
from cress.model.events import (
    GroupsApplied,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeCordoned,
    NodeLost,
    TaskEnded,
)
from cress.model.group import DEFAULT_GROUP
from cress.model.reports import Ended, Started
from cress.past.event_file import EventFile
from cress.past.recorded_log import RecordedLog

JOB, NODE, GROUP = KINDS = ("job", "node", "group")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened at ``at`` (µs of the wall clock); ``job`` is 0 if it is of no job."""

    at: int
    kind: str
    text: str
    job: int = 0
    node: str = ""
    group: str = ""


class Subject(msgspec.Struct, frozen=True):
    """The job, node or group that a story is about."""

    kind: str
    name: str

    def has(self, entry: Entry) -> bool:
        """Return whether an entry is about it."""
        if self.kind == JOB:
            return entry.job == int(self.name)
        return (entry.node if self.kind == NODE else entry.group) == self.name


class _KnownJob(msgspec.Struct):
    name: str
    group: str
    family: int


class Chronicle:
    """Reads a log from ``since`` to ``until`` (µs of the wall clock, excluded); iterate to get its entries in order.

    While it is read, ``jobs``, ``nodes`` and ``groups`` collect what exists. Raises ``InputError`` for damaged files.
    """

    def __init__(self, log: RecordedLog, since: int = 0, until: int | None = None) -> None:
        self._log = log
        self._since, self._until = since, until
        self.jobs: dict[int, _KnownJob] = {}
        self.nodes: set[str] = set()
        self.groups: set[str] = {DEFAULT_GROUP}
        self._attempts: dict[int, tuple[int, int, str]] = {}
        self._why: dict[int, str] = {}
        self._ran: set[int] = set()
        self._closed: dict[str, str] = {}

    def __iter__(self) -> Iterator[Entry]:
        last: int | None = None
        for file in self._log.files(self._since):
            if last is None or file.header.before != last:
                yield from self._begin(file, gap=last is not None)
            last = file.header.before
            for number, record in file:
                last = number
                if self._until is not None and record.utc >= self._until:
                    return
                if not has_facts(record):
                    what = f"record {number} is of release 5, which stored no decisions"
                    raise InputError(what, hint="`cress replay` decides it again", file=str(file.path))
                entries = self._of(record)
                yield from entries if record.utc >= self._since else ()

    def may_be_of(self, entry: Entry, name: str) -> bool:
        """Return whether an entry may be of the subject with this name, of whatever kind; gaps are of all."""
        if name in (entry.node, entry.group) or entry.kind == "gap":
            return True
        known = self.jobs.get(entry.job)
        if known is None:
            return False
        family = self.jobs.get(known.family)
        names = (str(entry.job), known.name, str(known.family), "" if family is None else family.name)
        return name.lstrip("0") in names or name in names

    def _begin(self, file: EventFile, *, gap: bool) -> Iterator[Entry]:
        """Take in the state with which a file begins."""
        try:
            state = Follower.restore(file.header.state)
        except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
            what = f"begins with a state that this release cannot read (cress {file.header.release} wrote it): {error}"
            raise InputError(what, hint="read it with that release", file=str(file.path)) from None
        alive = [live.job for live in state.tables.jobs.values()]
        alive += [family.job for family in state.tables.families.values()]
        for job in alive:
            self.jobs.setdefault(job.id, _KnownJob(job.name, job.group or DEFAULT_GROUP, job.family))
        for number, attempt in state.tables.attempts.items():
            self._attempts[number] = attempt.job, attempt.task, attempt.node
        self.nodes.update(state.tables.nodes)
        self.groups.update(state.core.groups.by_name)
        if gap:
            text = f"the log has a gap before record {file.header.before + 1}"
            yield Entry(at=file.header.created, kind="gap", text=text)

    def _of(self, record: Record) -> list[Entry]:
        """Return the entries of a record."""
        at = record.utc
        found: list[Entry] = []
        inputs = inputs_of(record) if record.facts.core or record.facts.rows else ()
        by, reports = _inputs(inputs)
        attempts = record.facts.rows.get("attempts")
        for number, fields in () if attempts is None else attempts.changed:
            if fields.get("halted_for"):
                self._why[int(number)] = str(fields["halted_for"])
        families = record.facts.rows.get("families")
        touched: set[int] = set()
        for number, row in () if families is None else families.written:
            found += self._family(at, int(number), row)
        for number, fields in () if families is None else families.changed:
            touched.add(int(number))
            if "version" in fields:
                found.append(self._job(at, "updated", int(number), f"updated to version {fields['version']}"))
        for input_ in inputs:
            found += self._of_input(at, input_)
            found += self._of_family(at, input_, touched)
        for report in reports.values():
            if isinstance(report, Started) and report.attempt in self._attempts and report.attempt not in self._ran:
                self._ran.add(report.attempt)
                found.append(self._task(report.at, "program", report.attempt, f"runs as process {report.pid}"))
        for fact in record.facts.core:
            tell = self._TELL.get(type(fact))
            if tell is not None:
                found += tell(self, at, fact, by, reports)
        ended = record.facts.rows.get("ended")
        for number, value in () if ended is None else ended.written:
            if int(number) in self.jobs:
                found.append(self._job(at, "over", int(number), f"the job is over: {_word(value[0])}"))
        return found

    def _family(self, at: int, number: int, row: Any) -> Iterator[Entry]:
        """Yield the submission of a service, database, cron job or dag."""
        job = row.get("job") if isinstance(row, dict) else None
        if not isinstance(job, dict) or number in self.jobs:
            return
        group = job.get("group") or DEFAULT_GROUP
        self.jobs[number] = _KnownJob(job.get("name", ""), group, 0)
        kind, tasks = _word(job.get("type", "")), job.get("tasks", 1)
        what = {"cron": "a cron job", "dag": "a dag"}.get(kind, f"a {kind} of {tasks} task{'s' if tasks != 1 else ''}")
        whole = ", all at once" if job.get("gang") else ""
        held = ", held" if job.get("hold") else ""
        text = f"submitted{_by(job.get('user', ''))} to group {group}: {what}{whole}{held}"
        yield self._job(at, "submitted", number, text)

    def _of_family(self, at: int, input_: Any, touched: set[int]) -> Iterator[Entry]:
        """Yield what users did with a service, database or cron job, if it was accepted and so has changed."""
        match input_:
            case Scale() if input_.job in touched:
                tasks = f"{input_.tasks} task{'s' if input_.tasks != 1 else ''}"
                yield self._job(at, "scaled", input_.job, f"scaled to {tasks}")
            case Promote() if input_.job in touched:
                yield self._job(at, "promoted", input_.job, f"its update goes on{_by(input_.by)}")
            case Trigger() if input_.job in touched:
                yield self._job(at, "triggered", input_.job, f"triggered{_by(input_.by)}")
            case Hold():
                word = "held" if input_.held else "released"
                for number in (input_.job, *input_.more):
                    if number in touched:
                        yield self._job(at, word, number, word + _by(input_.by))

    # --- inputs ------------------------------------------------------------------------------------------------

    def _of_input(self, at: int, input_: Any) -> Iterator[Entry]:
        match input_:
            case Restarted():
                yield Entry(at=at, kind="center", text=f"the center began epoch {input_.epoch}")
            case NodeJoined():
                self.nodes.add(input_.node.name)
                yield Entry(at=at, kind="joined", node=input_.node.name, text="its executor is connected")
            case NodeLeft():
                yield Entry(at=at, kind="left", node=input_.name, text="its executor is no longer connected")
            case NodeDead():
                yield Entry(at=at, kind="dead", node=input_.name, text="it is dead: no task runs there any more")
            case Drain():
                text = f"it is drained{_by(input_.by)}{f': {input_.reason}' if input_.reason else ''}"
                yield Entry(at=at, kind="drain", node=input_.name, text=text)
            case Awaited():
                text = f"{input_.what} is there" if not input_.problem else f"{input_.what}: {input_.problem}"
                yield self._job(at, "awaited", input_.job, text)
            case Requeue():
                for number in input_.jobs:
                    text = f"its running tasks are stopped{_by(input_.by)} and wait again"
                    yield self._job(at, "requeued", number, text)
            case SetGroup():
                changes = ", ".join(f"{key}-" if text is None else f"{key}={text}" for key, text in input_.values)
                yield Entry(at=at, kind="group", group=input_.name, text=f"changed{_by(input_.by)}: {changes}")

    # --- facts -------------------------------------------------------------------------------------------------

    def _submitted(self, at: int, fact: JobSubmitted, by: Any, reports: Any) -> Iterator[Entry]:
        job = fact.job
        self.jobs[job.id] = _KnownJob(job.name, job.group or DEFAULT_GROUP, job.family)
        tasks = "1 task" if job.tasks == 1 else f"{job.tasks} tasks{', all at once' if job.gang else ''}"
        # A job that waits for something outside of the cluster comes after itself.
        behind = fact.behind if fact.behind != job.id else None
        held = ", held" if job.hold else f", after job {behind}" if behind is not None else ""
        held += f", waiting for {' and '.join(map(str, job.wait_for))}" if job.wait_for else ""
        yield self._job(
            at, "submitted", job.id, f"submitted{_by(job.user)} to group {job.group or DEFAULT_GROUP}: {tasks}{held}"
        )

    def _changed(self, at: int, fact: JobChanged, by: Any, reports: Any) -> Iterator[Entry]:
        job = fact.job
        self.jobs[job.id] = _KnownJob(job.name, job.group or DEFAULT_GROUP, job.family)
        yield self._job(at, "updated", job.id, "updated" + by.get(("change", job.id), ""))

    def _held(self, at: int, fact: JobHeld, by: Any, reports: Any) -> Iterator[Entry]:
        word = "held" if fact.held else "released"
        yield self._job(at, word, fact.job, word + _by(by.get(("hold", fact.job), "")))

    def _cancelled(self, at: int, fact: JobCancelled, by: Any, reports: Any) -> Iterator[Entry]:
        who = by.get(("cancel", fact.job)) or by.get(("cancel", self._family_of(fact.job)), "")
        yield self._job(at, "cancelled", fact.job, f"it starts no more tasks, and its tasks are stopped{_by(who)}")

    def _started(self, at: int, fact: Start, by: Any, reports: Any) -> Iterator[Entry]:
        self._attempts[fact.attempt] = fact.job, fact.task, fact.node
        why = ""
        if fact.kept is not None:
            why = _kept(*fact.kept)
        elif fact.claimed:
            why = "; others made room for it"
        elif fact.due:
            why = "; it had waited longest, so it was its turn"
        beside = f", together with job {fact.leader}" if fact.leader is not None else ""
        yield self._task(at, "started", fact.attempt, f"starts on {fact.node}{beside}{why}")

    def _claim(self, at: int, fact: Claim, by: Any, reports: Any) -> Iterator[Entry]:
        nodes = ", ".join(name for name, _ in fact.nodes[:4]) + (", …" if len(fact.nodes) > 4 else "")
        count = len(fact.victims)
        verb = "move" if fact.moves else "stop"
        who = f"1 running task {verb}s" if count == 1 else f"{count} running tasks {verb}"
        text = f"room is kept for it on {nodes}; {who} for it"
        yield self._job(at, "claim", fact.job, text)

    def _dropped(self, at: int, fact: ClaimDropped, by: Any, reports: Any) -> Iterator[Entry]:
        yield self._job(at, "claim", fact.job, "the room that was kept for it is lost; it waits again")

    def _preempted(self, at: int, fact: Preempt, by: Any, reports: Any) -> Iterator[Entry]:
        why = self._why.get(fact.attempt) or f"preempted for job {fact.by}"
        yield self._task(at, "preempted", fact.attempt, f"is told to stop within {_seconds(fact.grace)}: {why}")
        other = self.jobs.get(fact.by)
        if other is not None:
            job, task, node = self._attempts[fact.attempt]
            yield self._job(at, "preempts", fact.by, f"preempts {job}.{task} on {node}")

    def _stopped(self, at: int, fact: Stop, by: Any, reports: Any) -> Iterator[Entry]:
        why = self._why.get(fact.attempt, "")
        yield self._task(at, "stopped", fact.attempt, f"is told to stop{f': {why}' if why else ''}")

    def _ended(self, at: int, fact: TaskEnded, by: Any, reports: Any) -> Iterator[Entry]:
        report = reports.get(fact.attempt)
        text = f"ended: {fact.outcome.value}"
        if isinstance(report, Ended):
            at = report.at or at
            if report.code:
                text += f", exit code {report.code}" if report.code > 0 else f", signal {-report.code}"
            text += f" ({report.error})" if report.error else ""
        # The rule of a preemption was told when it was decided.
        why, _ = without_rule(self._why.pop(fact.attempt, ""))
        text += f"; {why}" if why else ""
        text += "; it runs again" if fact.again or fact.outcome.value in ("preempted", "lost") else ""
        if fact.attempt in self._attempts:
            yield self._task(at, "ended", fact.attempt, text)
            del self._attempts[fact.attempt]
            self._ran.discard(fact.attempt)

    def _node_added(self, at: int, fact: NodeAdded, by: Any, reports: Any) -> Iterator[Entry]:
        self.nodes.add(fact.node.name)
        yield Entry(at=at, kind="added", node=fact.node.name, text="it belongs to the cluster now")

    def _node_changed(self, at: int, fact: NodeChanged, by: Any, reports: Any) -> Iterator[Entry]:
        yield Entry(at=at, kind="changed", node=fact.node.name, text="it has a new description")

    def _node_lost(self, at: int, fact: NodeLost, by: Any, reports: Any) -> Iterator[Entry]:
        yield Entry(at=at, kind="lost", node=fact.name, text="it is lost, and its tasks with it")
        for number, (_, _, node) in list(self._attempts.items()):
            if node == fact.name:
                yield self._task(at, "lost", number, f"is lost with node {node}")
                del self._attempts[number]

    def _cordoned(self, at: int, fact: NodeCordoned, by: Any, reports: Any) -> Iterator[Entry]:
        why = "; its executor is away" if fact.away else f": {fact.reason}" if fact.reason else ""
        text = f"it takes no new tasks{why}" if fact.cordoned else "it takes tasks"
        if self._closed.get(fact.name) == text:
            return
        self._closed[fact.name] = text
        yield Entry(at=at, kind="closed" if fact.cordoned else "open", node=fact.name, text=text)

    def _groups(self, at: int, fact: GroupsApplied, by: Any, reports: Any) -> Iterator[Entry]:
        self.groups.update(group.name for group in fact.groups)
        yield from (
            Entry(at=at, kind="groups", group=group.name, text="the groups are applied; its quota holds from now on")
            for group in fact.groups
        )

    def _configured(self, at: int, fact: Configured, by: Any, reports: Any) -> Iterator[Entry]:
        yield Entry(at=at, kind="options", text="the scheduler has other options from now on")

    # What tells the facts of a kind; others are of no story.
    _TELL: ClassVar[dict[type, Callable[..., Iterator[Entry]]]] = {
        JobSubmitted: _submitted,
        JobChanged: _changed,
        JobHeld: _held,
        JobCancelled: _cancelled,
        Start: _started,
        Claim: _claim,
        ClaimDropped: _dropped,
        Preempt: _preempted,
        Stop: _stopped,
        TaskEnded: _ended,
        NodeAdded: _node_added,
        NodeChanged: _node_changed,
        NodeLost: _node_lost,
        NodeCordoned: _cordoned,
        GroupsApplied: _groups,
        Configured: _configured,
    }

    # --- entries -----------------------------------------------------------------------------------------------

    def _task(self, at: int, kind: str, attempt: int, text: str) -> Entry:
        job, task, node = self._attempts[attempt]
        known = self.jobs.get(job)
        label = f"{job}.{task}" + (f" ({known.name})" if known is not None and known.name else "")
        return Entry(at=at, kind=kind, job=job, node=node, group=self._group(job), text=f"{label} {text}")

    def _job(self, at: int, kind: str, job: int, text: str) -> Entry:
        return Entry(at=at, kind=kind, job=job, group=self._group(job), text=f"{self._label(job)} {text}")

    def _label(self, job: int) -> str:
        known = self.jobs.get(job)
        return f"{job} ({known.name})" if known is not None and known.name else str(job)

    def _group(self, job: int) -> str:
        known = self.jobs.get(job)
        return "" if known is None else known.group

    def _family_of(self, job: int) -> int:
        known = self.jobs.get(job)
        return 0 if known is None else known.family


def subject_of(text: str, chronicle: Chronicle) -> Subject:
    """Return the subject with a name, from all that a chronicle has met. Raises ``InputError``.

    ``job:``, ``node:`` or ``group:`` before the name say which kind is meant.
    """
    kind, colon, name = text.partition(":")
    if not colon or kind not in KINDS:
        kind, name = "", text
    jobs = [number for number, job in chronicle.jobs.items() if job.name == name and not job.family]
    found = []
    if kind in ("", JOB) and name.isdecimal() and int(name) in chronicle.jobs:
        found.append(Subject(JOB, str(int(name))))
    elif kind in ("", JOB) and jobs:
        found.append(Subject(JOB, str(jobs[-1])))
    if kind in ("", NODE) and name in chronicle.nodes:
        found.append(Subject(NODE, name))
    if kind in ("", GROUP) and name in chronicle.groups:
        found.append(Subject(GROUP, name))
    if len(found) > 1:
        meant = " or ".join(f"{one.kind}:{name}" for one in found)
        raise InputError(f"{name!r} may mean several things", hint=meant)
    if not found:
        what = f"the log knows no {kind or 'job, node or group'} {name!r}"
        raise InputError(what, hint="`cress jobs`, `cress nodes` and `cress groups` list them")
    return found[0]


def story(log: RecordedLog, text: str, since: int = 0, until: int | None = None) -> tuple[Subject, list[Entry]]:
    """Return the subject with a name, and its entries in order of time. Raises ``InputError``."""
    chronicle = Chronicle(log, since, until)
    name = text.partition(":")[2] or text
    entries = [entry for entry in chronicle if chronicle.may_be_of(entry, name)]
    subject = subject_of(text, chronicle)
    family = int(subject.name) if subject.kind == JOB else 0
    members = {number for number, job in chronicle.jobs.items() if family and job.family == family}
    found = [entry for entry in entries if subject.has(entry) or entry.job in members or entry.kind == "gap"]
    return subject, sorted(found, key=lambda entry: entry.at)


def _inputs(inputs: Any) -> tuple[dict[tuple[str, int], str], dict[int, Started | Ended]]:
    """Return the users who held or cancelled jobs, and the reports by attempt (the last one of each)."""
    by: dict[tuple[str, int], str] = {}
    reports: dict[int, Started | Ended] = {}
    for input_ in inputs:
        if isinstance(input_, Cancel):
            by["cancel", input_.job] = input_.by
        elif isinstance(input_, Hold):
            by.update({("hold", job): input_.by for job in (input_.job, *input_.more)})
        elif isinstance(input_, ChangeJobs):
            by.update({("change", job): f"{_by(input_.by)}: {input_.what}" for job in input_.jobs})
        elif isinstance(input_, Reported | NodeJoined):
            reports.update({one.attempt: one for one in input_.reports if isinstance(one, Started | Ended)})
    return by, reports


def _by(user: str) -> str:
    return f" by {user}" if user else ""


def _seconds(time: int) -> str:
    return f"{time / 1e6:g} s"


def _kept(how: str, count: int) -> str:
    tasks = f"{count} running task{'s' if count != 1 else ''}"
    words = {
        "preempted": f"; {tasks} left for it",
        "moves": f"; {tasks} moved for it",
        "moved": "; it moved from another node",
        "planned": "; this start was planned",
    }
    return words.get(how, "")


def _word(state: Any) -> str:
    return str(getattr(state, "value", state))
