"""Forecasts for jobs with deadlines, from estimates of the job, the running tasks and the queue ahead (note 0023).

A deadline *cannot be met* only if the job ends too late by all optimistic estimates. It is *fine* only if the job ends
in time by all pessimistic ones. A limit bounds a run from above only: without estimates a run may take no time at all.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import NamedTuple

from cress.core.books import Books
from cress.core.groups.running_limits import limit_reached
from cress.core.job_ends import deadline_of, time_for
from cress.core.job_times import longest_left, mean_left, shortest_left, when_late
from cress.core.jobs import JobEntry
from cress.core.kernels.urgency import urgency
from cress.core.openings import EndsBy
from cress.core.placing.kinds import lasting_wants
from cress.core.placing.shape import Shape
from cress.core.urgent_cost import cost_of, worthwhile
from cress.model.estimates import RunEstimate
from cress.model.group import SchedPolicy
from cress.model.job import Job
from cress.model.outlook import Outlook, Promise
from cress.model.times import NEVER

# The share of outcomes in time if the deadline equals the end by the optimistic, the mean or the pessimistic estimate.
_EARLY, _HALF, _FINE = 0.1, 0.5, 0.9
_ALL = 1.0


class TimeLeft(NamedTuple):
    """Estimates of a remaining time (µs): of a job, or of the steps of a dag behind it."""

    shortest: int
    mean: int
    longest: int


def left_of(job: Job, estimate: RunEstimate | None) -> TimeLeft:
    """Return the time for a job that has not started, by the estimate of one task, else by its limit."""
    limit = NEVER if job.time_limit is None else job.time_limit
    times = (0, limit, limit) if estimate is None else (estimate.optimistic, estimate.mean, estimate.pessimistic)
    rounds = -(-job.tasks // job.max_running) if job.max_running else 1
    return TimeLeft(*(min(NEVER, limit, one) * rounds if one < NEVER else NEVER for one in times))


class Behind(NamedTuple):
    """The part of a dag behind a step: the deadline of the dag (µs since the epoch), and the time for its critical
    path.
    """

    deadline: int
    left: TimeLeft


class Starts(NamedTuple):
    """The earliest, the likely and the latest start of a job (µs), as far as known now; ``latest`` is ``None`` if
    unknown.
    """

    earliest: int
    likely: int
    latest: int | None


def outlook(core: Books, job: JobEntry, now: int, behind: Behind | None = None) -> Outlook | None:
    """Return the forecast for a job at ``now`` (µs); for a step, that of its dag.

    ``None`` if it has no deadline, or if the wall clock is unknown.
    """
    if job.deadline >= NEVER:
        return None
    if not job.waiting and not job.later:
        return _told(core, job, now, Starts(now, now, now), behind)
    if job.queued and not job.later and limit_reached(job) is None:
        return _told(core, job, now, _starts(core, job, now), behind)
    # It waits for another job, a release or its own tasks, or some of its tasks are in backoff or wait for tasks of
    # another job. So only the lower bound of its start is known: now.
    return _if_released(_told(core, job, now, Starts(now, now, now), behind))


def _if_released(found: Outlook) -> Outlook:
    """Return the forecast for a job with an unknown start, from the forecast for a start now, which is never worse."""
    late = found.likely_end is not None and found.likely_end > found.deadline
    if found.promise is Promise.CANNOT or late:
        return found
    return Outlook(found.deadline, found.urgency, found.slack, Promise.UNKNOWN, None, found.earliest_end)


def foreseen(core: Books, job: Job, estimate: RunEstimate | None, behind: Behind | None = None) -> Outlook | None:
    """Return the forecast for a job that is not submitted; ``None`` as in ``outlook``.

    Only static clauses that never relax count, so the job does not end earlier than the forecast says.
    """
    shape = _lasting_shape(core, job)
    entry = JobEntry.of(job, core.groups.get(job.group), shape, core.now, estimate=estimate)
    entry.deadline = deadline_of(core, entry)
    if entry.deadline >= NEVER:
        return None
    now = core.now
    # Negative numbers are jobs of the same submit.
    if job.hold or any(number < 0 or number in core.jobs for number, _ in job.after):
        return _if_released(_told(core, entry, now, Starts(now, now, now), behind))
    return _told(core, entry, now, _starts(core, entry, now, asked=True), behind)


def _told(core: Books, job: JobEntry, now: int, starts: Starts, behind: Behind | None) -> Outlook:
    """Return the forecast for a job from its start times and its remaining time, plus that of steps ``behind`` it."""
    offset = core.groups.wall_offset or 0
    due = job.job.deadline if behind is None else behind.deadline
    deadline = due - offset
    to_start = job.waiting or job.later
    left = TimeLeft(shortest_left(job), mean_left(job), longest_left(job)) if to_start else _of_running(job, now)
    urgent = float(urgency(job.deadline, left.longest, left.shortest, when_late(job), now))
    if behind is not None:
        left = TimeLeft(*(min(NEVER, own + more) for own, more in zip(left, behind.left, strict=True)))
    slack = None if left.mean >= NEVER else deadline - now - left.mean
    if now > deadline:
        return Outlook(due, urgent, slack, Promise.CANNOT, 0.0, None)
    earliest = starts.earliest + left.shortest
    if earliest > deadline:
        return Outlook(due, urgent, slack, Promise.CANNOT, 0.0, earliest + offset)
    if starts.latest is None or left.mean >= NEVER:
        return Outlook(due, urgent, slack, Promise.UNKNOWN, None, None)
    likely, latest = starts.likely + left.mean, max(starts.likely + left.mean, starts.latest + left.longest)
    if latest <= deadline:
        # A limit holds for all runs, an estimate for nine of ten.
        chance = _FINE if job.longest < job.limit else _ALL
        return Outlook(due, urgent, slack, Promise.FINE, chance, earliest + offset, likely + offset)
    # Without a lower bound for a run, the share of outcomes in time is unknown.
    known = job.estimate is not None and job.estimate.optimistic > 0
    if behind is not None and behind.left.mean:
        known = known and behind.left.shortest > 0
    share = _chance(earliest, likely, latest, deadline) if known else None
    return Outlook(due, urgent, slack, Promise.AT_RISK, share, earliest + offset, likely + offset)


def _chance(earliest: int, likely: int, latest: int, deadline: int) -> float:
    """Return the share of outcomes in time, for a deadline between the earliest and the latest end.

    The share is linear between the three ends.
    """
    if deadline < likely:
        return _EARLY + (_HALF - _EARLY) * (deadline - earliest) / max(1, likely - earliest)
    return _HALF + (_FINE - _HALF) * (deadline - likely) / max(1, latest - likely)


def _of_running(job: JobEntry, now: int) -> TimeLeft:
    """Return the remaining time of a job without waiting tasks.

    An estimate that was outlived is replaced by the next one, at last by the limit.
    """
    runs = [now - attempt.start for attempt in job.attempts.values()]

    def left(*estimates: int) -> int:
        ends = [(ran, next((estimate for estimate in estimates if ran < estimate), estimates[-1])) for ran in runs]
        # Without a limit nothing is known of a run that has outlived all estimates.
        return max((NEVER if end >= NEVER else max(0, end - ran) for ran, end in ends), default=0)

    last = min(NEVER, job.limit)
    # It may end at any time once it has run for the shortest estimate.
    shortest = max((max(0, job.shortest - ran) for ran in runs), default=0)
    mean, longest = left(job.mean, job.longest, last), left(job.longest, last)
    return TimeLeft(shortest, NEVER if job.mean >= NEVER else mean, NEVER if job.longest >= NEVER else longest)


# --- starts ----------------------------------------------------------------------------------------------------------


def _starts(core: Books, job: JobEntry, now: int, *, asked: bool = False) -> Starts:
    """Return the start times of the rest of a queued job, or of a job that is only ``asked`` about."""
    relaxes = job.constraints is not None and bool(job.constraints.by_time or job.constraints.by_load)
    if not asked and not relaxes:
        return _starts_of(core, job, job.shape, now)
    # Clauses that block it now may relax before it gets room.
    shape = job.shape if asked else _lasting_shape(core, job.job)
    with core.fit.wanted(shape):
        return _starts_of(core, job, shape, now)


def _starts_of(core: Books, job: JobEntry, shape: Shape, now: int) -> Starts:
    """Return the start times of a unit of a shape for a job.

    They account for running tasks, reservations and the queue ahead.
    """
    planned = _planned(core, job, shape)
    if planned is None:
        return Starts(now, now, None)
    ahead, number = job.group.policy.ahead(job)
    earliest = _earliest(core, job, shape, ahead, now)
    attempts = core.attempts.values()
    # Two more estimates of the start: the timeline plans by limits, or by the median of the estimates.
    rooms = {by: core.openings.of(shape, shape.size, by, attempts, now) for by in (EndsBy.MEAN, EndsBy.PESSIMISTIC)}
    likely, latest = (room[-1] if len(room) == shape.size else NEVER for room in rooms.values())
    if likely <= now < planned:
        # Reservations or devices delay it, not amounts.
        likely = planned
    latest = max(planned, latest)
    active = sum(other.quota[0] for other in core.groups if other.jobs or other is job.group)
    number = max(number, 1)
    turn = _in_turn(core, job, shape, ahead, now) if number == len(ahead) else None
    if turn is not None:
        likely = max(likely, turn)
    else:
        work = _mean_work(core, job, ahead, likely, active)
        likely += time_for(core, job.group, work * number // max(1, len(ahead)), active)
    if latest >= NEVER or likely >= NEVER or any(other.longest >= NEVER for other in ahead):
        return Starts(earliest, min(likely, NEVER), None)
    most = sum(other.longest * other.job.total(0) * other.waiting // max(1, other.job.tasks) for other in ahead)
    return Starts(earliest, likely, latest + time_for(core, job.group, most * number // max(1, len(ahead))))


def _in_turn(core: Books, job: JobEntry, shape: Shape, ahead: list[JobEntry], now: int) -> int | None:
    """Return the start of a unit (µs) if the units ahead take their turns as tasks end, all by the means.

    ``None`` if they are not all alike, if late ones may fall back, or if other groups take turns as well: then their
    work tells more.
    """
    if job.group.policy.overtakes or any(other.jobs for other in core.groups if other is not job.group):
        return None
    if len(_surely_first(job, shape, ahead)) < len(ahead):
        return None
    units = sum(min(other.waiting, other.most or other.waiting) for other in ahead)
    times = core.openings.of(shape, units + 1, EndsBy.MEAN, core.attempts.values(), now)
    if not times:
        return None
    heapify(times)
    for other in ahead:
        for _ in range(min(other.waiting, other.most or other.waiting)):
            heapreplace(times, times[0] + max(1, mean_left(other)))
    return times[0]


def _mean_work(core: Books, job: JobEntry, ahead: list[JobEntry], begin: int, quotas: int) -> int:
    """Return the work (µs × millicores) of the jobs ahead for which a job probably waits, by their means."""
    policy = job.group.policy
    if policy.offers_more and not policy.overtakes:
        # A unit that fits beside the head does not wait for the units ahead.
        return 0
    work = 0
    for other in ahead:
        late = begin + time_for(core, job.group, work, quotas) + mean_left(other) > other.deadline
        # A job that would be late comes last.
        if not (late and policy.overtakes and not when_late(job)):
            work += other.waiting_work()
    return work


def _planned(core: Books, job: JobEntry, shape: Shape) -> int | None:
    """Return the time (µs) at which the timeline has room for a unit of a shape; ``None`` if unknown.

    That is the start of its reservation, or else the earliest time beside all reservations.
    """
    reservation = core.reservations.of(job)
    if shape is job.shape and reservation is not None and reservation.rows:
        return reservation.start
    slot = core.timeline.earliest(shape, job.duration, core.now, asker=job.group.asker)
    return None if slot is None else slot.start


def _earliest(core: Books, job: JobEntry, shape: Shape, ahead: list[JobEntry], now: int) -> int:
    """Return a lower bound (µs) for the start of a unit: no task ends earlier than by its optimistic estimate."""
    if _may_take_room(core, job, now):
        return now
    first = _surely_first(job, shape, ahead)
    number = shape.size + sum(min(other.waiting, other.most or other.waiting) for other in first)
    times = core.openings.of(shape, number, EndsBy.OPTIMISTIC, core.attempts.values(), now)
    if shape.size > 1 or not times:
        return times[shape.size - 1] if len(times) >= shape.size else now
    heapify(times)
    falls_back = job.group.policy.overtakes and not when_late(job)
    for other in first:
        for _ in range(min(other.waiting, other.most or other.waiting)):
            end = times[0] + max(1, other.shortest)
            if falls_back:
                # It makes way by then, because it has started, or is late and comes last.
                end = max(times[0], min(end, other.deadline - max(other.shortest, other.least)))
            heapreplace(times, end)
    return times[0]


def _surely_first(job: JobEntry, shape: Shape, ahead: list[JobEntry]) -> list[JobEntry]:
    """Return the jobs ahead that surely start before a job: they have the same shape and at most its duration."""
    group = job.group
    if shape.size > 1 or shape is not job.shape or not group.policy.keeps_order or group.counters:
        return []
    urgent = group.spec.policy is SchedPolicy.URGENCY
    return [
        other
        for other in ahead
        if other.shape is shape
        and other.duration <= job.duration
        and not (urgent and longest_left(other) < longest_left(job))
    ]


def _may_take_room(core: Books, job: JobEntry, now: int) -> bool:
    """Return True if a unit of a job might stop tasks or borrow from them, so that it need not wait for an end.

    True also in doubtful cases.
    """
    group = job.group
    if core.pool.lends:
        return True
    if group.options.preemption != "on":
        return False
    others = [other for other in core.groups if other is not group and other.attempts]
    if any(node.above_quota or node.can_be_preempted() for other in others for node in other.path()):
        return True
    if others and core.groups.kinds:
        return True
    own = [attempt for attempt in group.attempts.values() if attempt.job is not job]
    if group.options.preempt_within != "off" and own:
        return True
    if group.spec.policy is not SchedPolicy.URGENCY:
        return False
    return min((cost_of(attempt, now) for attempt in own), default=NEVER) <= worthwhile(job)


def _lasting_shape(core: Books, job: Job) -> Shape:
    """Return the shape of the first unit of a job under the clauses that never relax."""
    wants = core.asking.as_asked((job,), lasting_wants(job, core.dimensions))
    return core.fit.shape(job.request, job.tasks if job.gang else 1, wants)
