"""Reasons of waiting tasks of a job, as sentences for people."""

from __future__ import annotations

from typing import NamedTuple

from cress.core.diagnostics.sentences import sentence
from cress.core.placing.vetoes import Verdict
from cress.core.tables.measured_load import say_busy
from cress.lifecycle.context import Context
from cress.lifecycle.jobs.awaited_times import say_awaited
from cress.lifecycle.tables.family_rows import Family, ReplicaState
from cress.lifecycle.tables.rows import LiveJob
from cress.model.job import Condition, Job
from cress.model.reports import Cause, Ended
from cress.model.times import DAY, HOUR, MINUTE, SECOND
from cress.model.units import DURATION_LIMIT, format_duration

# The kind of a reason that is none of the scheduler.
NO_EXECUTOR = "no_executor"
# The kind of reason while no node takes tasks.
CLOSED = Verdict.NO_NODE.value
# The kind of reason of a placed task that starts when a job that it uses is ready.
USES = "uses"
# Precision of times: a tenth of a second; for longer ones a second, a minute, an hour.
_TENTH = 100_000
_COARSE = ((HOUR, SECOND), (DAY, MINUTE), (DURATION_LIMIT, HOUR))
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"))


class Told(NamedTuple):
    """Reason why tasks of a job wait: the sentence, and its kind, the anchor of its row in docs/waiting.md."""

    kind: str = ""
    text: str = ""


def told(context: Context, number: int, now: int | None = None) -> Told:
    """Return why tasks of a job wait, with the kind of the reason; empty if none does.

    ``now`` (µs, the machine's clock), if it is later than the step.
    """
    job = context.jobs.get(number)
    veto = context.core.veto(number)
    if job is None or veto is None:
        return Told()
    of_scheduler = veto.kind.value.replace(" ", "-")
    if veto.kind is Verdict.HELD:
        return Told(of_scheduler, held(job.job.counted_as, job.held_by))
    if veto.kind is Verdict.AFTER:
        return Told(of_scheduler, comes_after(context, job))
    if veto.kind is Verdict.AFTER_TASKS:
        return Told(of_scheduler, after_tasks(context, job))
    if veto.kind is Verdict.BACKOFF and veto.until is not None:
        wait = lasting(veto.until - max(context.now, now or 0))
        if job.kept is None:
            return Told(of_scheduler, f"a task failed and is retried in {wait}")
        return Told(of_scheduler, again_in(context.families[job.job.family], job.index, wait))
    if not any(node.connected for node in context.nodes.values()):
        return Told(NO_EXECUTOR, "no executor is connected")
    if not context.core.cluster.usable_count:
        busy_there = say_busy(context.core.loads.busy(context.core.loads.overloaded_nodes()))
        return Told(CLOSED, "; ".join(("every node is closed to new tasks" + _first_closed(context), *busy_there)))
    return Told(of_scheduler, sentence(veto))


def reason(context: Context, number: int, now: int | None = None) -> str:
    """Return why tasks of a job wait, as a sentence; empty if none does. ``now`` as in ``told``."""
    return told(context, number, now).text


def held(number: int, by: str) -> str:
    """Return the sentence about a held job, and how to release it; ``by`` is empty if the user is unknown."""
    return f"held{f' by {by}' if by else ''} until it is released (cress release {number})"


def again_in(family: Family, index: int, wait: str) -> str:
    """Return the sentence about a task of a service or database that ended."""
    how = family.state.ends.get(index, "") if isinstance(family.state, ReplicaState) else ""
    return f"ended{f' ({how})' if how else ''} and is restarted in {wait}"


def how(report: Ended, job: Job) -> str:
    """Return the way in which an attempt ended, in a few words; empty if unknown."""
    if report.cause is Cause.TIME_LIMIT and job.time_limit is not None:
        return f"time limit of {format_duration(job.time_limit)} exceeded"
    if report.cause is Cause.MEMORY and report.usage.memory:
        return f"{report.error or 'out of memory'} (peak {max(1, report.usage.memory >> 20):,}M)"
    return report.error or exit_of(report)


def exit_of(report: Ended) -> str:
    """Return the exit code or signal of an attempt, in words; empty if unknown."""
    if report.code is None:
        return ""
    return f"exit code {report.code}" if report.code >= 0 else f"signal {-report.code}"


def lasting(left: int) -> str:
    """Format a remaining time (µs) for people: ``8.7s``, ``1m13s``, ``2h15m``."""
    left = max(0, left)
    if left <= 10 * SECOND:
        return format_duration(-(-left // _TENTH) * _TENTH)
    smallest = next(unit for limit, unit in _COARSE if left <= limit)
    left, parts = -(-left // smallest), []
    for unit, word in _UNITS:
        if unit >= smallest:
            number, left = divmod(left, unit // smallest)
            parts += [f"{number}{word}"] if number else []
    return "".join(parts)


def comes_after(context: Context, job: LiveJob | Family) -> str:
    """Return the reason of a job with open dependencies."""
    unmet = job.unmet_as_whole if isinstance(job, LiveJob) else job.unmet
    if not unmet:
        assert isinstance(job, LiveJob), "only jobs with tasks wait for things outside"
        more = f", and {len(job.awaits) - 1} more" if len(job.awaits) > 1 else ""
        return f"waiting for {say_awaited(context, job, job.awaits[0])}{more}"
    more = f", and {len(unmet) - 1} more" if len(unmet) > 1 else ""
    return f"waiting for {_named(context, unmet[0][0])}{more}"


def after_tasks(context: Context, job: LiveJob) -> str:
    """Return the reason of a job each of whose tasks waits for the same task of another one."""
    first = next((number for number, condition in job.unmet if condition is Condition.TASKS), None)
    # At a pause of a step the other job may have ended, and this one is told in a moment.
    return f"waiting for the same tasks of {'another job' if first is None else _named(context, first)} to succeed"


def _named(context: Context, number: int) -> str:
    # At a pause of a step it may have ended, and the job that waits is told in a moment.
    found = context.jobs.get(number) or context.families.get(number)
    name = found.job.name if found is not None else ""
    return f"job {number}{f' ({name})' if name else ''}"


def _first_closed(context: Context) -> str:
    """Return why the first connected but closed node takes no tasks."""
    cluster = context.core.cluster
    for name, node in context.nodes.items():
        overcommitted = cluster.index[name] in cluster.overdrawn
        why = node.why or ("overcommitted: its tasks use more than it offers" if overcommitted else "")
        if node.connected and why:
            return f"; {name}: {why}"
    return ""
