"""The passing of time: what is due by itself, such as quotas, backoffs, relaxations and ends of reservations."""

from __future__ import annotations

from heapq import heappop

from cress.core.books import Books
from cress.core.charging import recharge, refresh_quotas_now
from cress.core.future.advance_reservations import Kept
from cress.model.errors import InputError


def advance(core: Books, now: int) -> None:
    """Advance the time to ``now`` (µs), and apply everything due by then: quotas, queue keys, backoffs,
    relaxations.
    """
    if now < core.now:
        raise went_back(core.now, now)
    core.now = now
    groups = core.groups
    if groups.tree.clock is not None:
        groups.advance(now)
    loosens = now >= groups.next_quota_change
    if loosens:
        _follow_timetables(core, now)
    reserved = core.advance_reservations
    if now >= reserved.next_change:
        ended = reserved.over(now)
        end_reservations(core, ended)
        loosens = loosens or bool(ended)
    for group in groups.timed:
        loosens = group.policy.pass_time(now) or loosens
    if loosens:
        core.cluster.loosened += 1
    expected = core.expected.heap
    if expected and expected[0][0] <= now:
        for attempt in core.expected.outlived(now):
            core.expected.expect_last_end(attempt)
    while core.later and core.later[0][0] <= now:
        _, number, task = heappop(core.later)
        core.end_backoff(core.jobs[number], task)
    if core.relaxing.times and core.relaxing.times[0][0] <= now:
        for job in core.relaxing.due(now):
            core.shapes.look_at(job)


def end_reservations(core: Books, ended: list[tuple[Kept, int, int]]) -> None:
    """Mark for a stop the tasks that must end with an occurrence of an advance reservation.

    The next ``decide`` proposes their stops.
    """
    for kept, start, _ in ended:
        group = core.groups.by_name.get(kept.spec.group)
        for attempt in core.advance_reservations.stops_at_end(kept, start, group.attempts.values() if group else ()):
            core.let_stop(attempt)
            core.advance_reservations.ending[attempt.id] = kept.spec.name


def _follow_timetables(core: Books, now: int) -> None:
    """Set every quota by its timetable.

    If past borrowing counts, each change takes effect at its own time.
    """
    if core.groups.tree.clock is not None:
        while core.groups.next_quota_change < now:
            moment = core.groups.next_quota_change
            core.groups.tree.clock.now = moment
            if core.groups.refresh_quotas(moment):
                recharge(core)
        core.groups.tree.clock.now = now
    refresh_quotas_now(core)


def went_back(before: int, now: int) -> InputError:
    """Return the error for a time before the last one."""
    return InputError(f"time went back from {before} to {now} µs", hint="a clock that never does")
