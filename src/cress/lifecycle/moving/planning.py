"""Plans of moves from the state of a machine: the units for which room may be made, and the plan, computed on a copy
that it consumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from cress.core.groups.guarantees import Guarantees
from cress.core.jobs import JobEntry
from cress.core.moving.plan import Budget, Goal, MovePlan
from cress.core.moving.planner import GOALS, plan_moves, plan_place
from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.lifecycle.context import Context
from cress.lifecycle.jobs import members
from cress.lifecycle.jobs.reasons import reason
from cress.lifecycle.moving.movable import candidates
from cress.lifecycle.moving.prevention import prevented
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError, NotAccepted
from cress.model.options import Options
from cress.model.times import HOUR

# The reasons for waiting that a move can remove.
_FOR_ROOM = frozenset({Verdict.NO_ROOM, Verdict.NO_ROOM_TOGETHER, Verdict.DRAINING})

# An hour of a core or a device, in thousandths times µs.
HOUR_OF_WORK = 1000 * HOUR


# Limits of an automatic round: the number of different waiting units for which it tries to make room, and the number of
# jobs that it examines for them.
MOST_TRIED, MOST_LOOKED_AT = 2, 200


class PlanPurpose(msgspec.Struct, frozen=True):
    """The purpose of a plan: ``goals``, or room for the next unit of ``job``; and its maximum of moves and lost work.

    ``by_itself``: an automatic round, within the budget of the options.
    """

    goals: tuple[Goal, ...] = ()
    job: int = 0
    budget: Budget = Budget()
    by_itself: bool = False


def budget_of(options: Options) -> Budget:
    """Return the budget of an automatic round."""
    return Budget(moves=options.rebalance_moves, lost=round(options.rebalance_lost * HOUR_OF_WORK))


def made(context: Context, wanted: PlanPurpose) -> MovePlan:
    """Return a plan. It consumes the context, which must be a copy, such as that of a forked process."""
    if wanted.by_itself:
        return made_by_itself(context, context.core)
    found = candidates(context)
    if wanted.job:
        plan = plan_place(context.core.books, found, wanted.job, wanted.budget)
        return plan if plan.place else msgspec.structs.replace(plan, prevented=prevented(context, plan, wanted.budget))
    return plan_moves(context.core.books, found, wanted.goals, wanted.budget)


def made_by_itself(context: Context, copy: Scheduler) -> MovePlan:
    """Return the plan of an automatic round: room for a unit that waits for it, else all goals.

    It consumes ``copy``, a copy of the context's scheduler.
    """
    found, budget = candidates(context), budget_of(copy.options)
    for job in list(_that_wait_for_room(copy)):
        plan = plan_place(copy.books, found, job.job.id, budget)
        if plan.moves:
            return plan
    return plan_moves(copy.books, found, GOALS, budget)


def _that_wait_for_room(core: Scheduler) -> Iterator[JobEntry]:
    """Yield the first jobs whose next units wait for room, by the order of groups and of their jobs;
    similar jobs once.
    """
    guarantees = Guarantees(core.groups, core.cluster)
    seen: set[int] = set()
    jobs = (job for group in core.groups.in_order() for job in group.policy)
    for job in islice(jobs, MOST_LOOKED_AT):
        if len(seen) == MOST_TRIED:
            return
        if job.shape.row in seen or job.has_claimed or not job.queued or job.shares_node:
            continue
        veto = core.veto(job.job.id)
        if veto is None or veto.never or veto.kind not in _FOR_ROOM or guarantees.forbid(job):
            continue
        seen.add(job.shape.row)
        yield job


def waiting_unit(context: Context, number: int) -> int:
    """Return the job with the unit for which room may be made: itself, or the first waiting member of a service.

    Raises InputError for a job that never existed, NotAccepted for one that does not wait for room.
    """
    job = _live(context, number)
    core = context.core
    own = job.job.id
    entry = core.jobs[own]
    veto = core.veto(own)
    if veto is None:
        raise NotAccepted(
            f"job {number} does not wait: all its unfinished tasks run",
            hint="see `cress jobs --state waiting`",
            field="for",
        )
    why = reason(context, own)
    if veto.never:
        raise NotAccepted(f"job {number} can never run here: {why}", hint="no move changes that", field="for")
    if entry.has_claimed:
        raise NotAccepted(f"room is being made for job {number} already: {why}", hint="wait", field="for")
    if veto.kind is Verdict.BEHIND:
        raise NotAccepted(
            f"job {number} is not the next of its group: {why}",
            hint=f"make room for job {veto.behind} first",
            field="for",
        )
    if not entry.queued or entry.shares_node or veto.kind not in _FOR_ROOM:
        raise NotAccepted(
            f"job {number} does not wait for room: {why}", hint="moving tasks would not let it start", field="for"
        )
    if Guarantees(core.groups, core.cluster).forbid(entry):
        raise NotAccepted(
            (
                f"job {number} is larger than the quota of group {entry.group.name}, and the guarantees of other "
                "groups leave no room for it"
            ),
            hint="a larger quota, or a smaller job",
            field="for",
        )
    return own


def _live(context: Context, number: int) -> LiveJob:
    family = context.families.get(number)
    if family is not None:
        waiting = [member for member in members.of(context, family) if member.waiting and not member.ending]
        if not waiting:
            raise NotAccepted(f"job {number} does not wait: all its tasks run", hint="see `cress job`", field="for")
        return min(waiting, key=lambda member: member.index)
    job = context.jobs.get(number)
    if job is None and not 0 < number < context.next_job:
        raise InputError(f"there is no job {number}", hint="see `cress jobs`", field="for")
    if job is None or job.ending:
        raise NotAccepted(
            f"job {number} has ended or is ending", hint="room can be made only for a waiting job", field="for"
        )
    return job
