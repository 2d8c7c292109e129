"""Leases of outside holders: their terms, the holder's own use, and their return."""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.effects import Halt, LeaseChanged, LeaseResized
from cress.lifecycle.inputs import ReleaseLeases, RenewLeases, UseLease
from cress.lifecycle.jobs.jobs import cancel, end_inside
from cress.lifecycle.jobs.outcomes import RELEASED
from cress.lifecycle.jobs.reasons import lasting
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.lifecycle.tables.timers import TERM
from cress.model.decisions import LeaseReduced, Stop
from cress.model.errors import InputError, NotAccepted
from cress.model.events import LeaseUsed
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.vectors import format_vector

NOT_RENEWED = "nothing was heard of the holder for its term"
_RECLAIMED = "the workload whose lease it borrowed from needs it back"
_IDLE = "its lease was idle, its group is above its quota, and another group needs it"


def take(context: Context, input_: UseLease | RenewLeases | ReleaseLeases) -> None:
    """Handle an input of the holder of leases. Raises ``InputError`` for a job whose tasks are not leases."""
    job = _lease(context, input_.job)
    if isinstance(input_, UseLease):
        _use(context, job, input_)
    elif isinstance(input_, ReleaseLeases):
        _release(context, job, input_)
    if not job.ending:
        _renew(context, job)


def _lease(context: Context, number: int) -> LiveJob:
    job = context.leases.get(number)
    if job is not None:
        return job
    if number in context.jobs or number in context.families:
        raise NotAccepted(f"job {number} is not a lease", hint="see `cress leases`")
    raise NotAccepted(f"lease {number} has ended", hint="see `cress leases`")


# --- terms ------------------------------------------------------------------------------------------------------------


def set_term(context: Context, job: LiveJob) -> None:
    """Begin the term of a lease anew, if it has one."""
    if job.job.term:
        context.timers.set(TERM, str(job.job.id), context.now + job.job.term)


def restarted(context: Context) -> None:
    """Restart all terms: holders could not reach the center while it was away."""
    for job in context.leases.values():
        if not job.ending:
            set_term(context, job)


def _renew(context: Context, job: LiveJob) -> None:
    """Restart the terms of all leases of this user in the workload."""
    for lease in context.leases.values():
        if _workload(lease) == _workload(job) and not lease.ending:
            set_term(context, lease)


def _workload(job: LiveJob) -> tuple[str, str, str]:
    return job.job.group or DEFAULT_GROUP, job.job.workload, job.job.user


# --- use --------------------------------------------------------------------------------------------------------------


def begin(context: Context, attempt: LiveAttempt) -> None:
    """Tell the scheduler how much of a starting lease its holder uses, if it is not all."""
    spec = context.jobs[attempt.job].job
    if spec.is_lease and spec.uses is not None and attempt.id in context.core.pool.leases:
        _tell(context, attempt.id, spec.uses)
        # The rest should be lent at once.
        context.more = True


def _use(context: Context, job: LiveJob, word: UseLease) -> None:
    attempt = next((live for live in job.attempts.values() if live.task == word.task), None)
    if attempt is None or attempt.halted:
        raise NotAccepted(f"lease {job.job.id}.{word.task} is not held now", hint="see `cress leases`")
    dimensions = context.core.dimensions
    amounts = dimensions.padded(word.amounts)
    for name, amount, held in zip(dimensions.names, amounts, job.job.request, strict=True):
        if not 0 <= amount <= held:
            raise InputError(f"more {name} than the lease has", hint="see `cress leases`", field="amounts")
    if attempt.id not in context.core.pool.leases:
        raise NotAccepted(
            f"lease {job.job.id}.{word.task} has no idle parts: it has a whole disk, or the policy of its "
            "group plans ahead"
        )
    _tell(context, attempt.id, amounts)
    _note(context, attempt, f"uses {format_vector(amounts, dimensions)}", stopping=False)


def _tell(context: Context, lease: int, amounts: tuple[int, ...]) -> None:
    context.observe(LeaseUsed(lease, context.core.dimensions.padded(amounts)))


# --- jobs inside ------------------------------------------------------------------------------------------------------


def check_inside(context: Context, job: Job) -> None:
    """Raise ``NotAccepted`` if a job is to run inside a lease that has ended or is ending."""
    if job.inside is None:
        return
    number, task = job.inside
    lease = context.leases.get(number)
    held = () if lease is None or lease.ending else lease.attempts.values()
    if not any(attempt.task == task and not attempt.halted for attempt in held):
        raise NotAccepted(f"lease {number}.{task} is not held now", hint="see `cress leases`")


# --- ends -------------------------------------------------------------------------------------------------------------


def _release(context: Context, job: LiveJob, word: ReleaseLeases) -> None:
    by = f"released by {word.by}" if word.by else "released"
    if job.ending:
        return
    held = {attempt.task: attempt for attempt in job.attempts.values()}
    if word.tasks is None and job.waiting:
        cancel(context, job.job.id, by)
        _leave_nothing(context, job)
        return
    for task in held if word.tasks is None else word.tasks:
        if task not in held:
            raise NotAccepted(
                f"lease {job.job.id}.{task} is not held now",
                hint=f"release {job.job.id} as a whole, or a lease that is held",
            )
    for task in held if word.tasks is None else word.tasks:
        attempt = held[task]
        if attempt.halted == RELEASED:
            continue
        attempt.halted, attempt.halted_for = RELEASED, by
        context.out.halts.append(Halt(attempt.id, attempt.job, attempt.node))
        end_inside(context, job.job.id, by, task)
    _leave_nothing(context, job)


def _leave_nothing(context: Context, released: LiveJob) -> None:
    """Return what the center keeps idle for a workload at once, if the last of its leases was released."""
    group, workload, _ = _workload(released)
    for job in context.leases.values():
        if _workload(job)[:2] != (group, workload) or job.ending:
            continue
        if job.waiting or any(attempt.halted != RELEASED for attempt in job.attempts.values()):
            return
    kept = context.core.pool.workloads.get((group, workload))
    if kept is not None:
        context.core.propose(
            LeaseReduced(lease.id) for lease in kept.leases.values() if lease.holder is None and not lease.tasks
        )
        context.more = True


def reclaims(context: Context, fact: Stop, attempt: LiveAttempt) -> bool:
    """Note why a task that returns borrowed amounts, or an idle lease, stops; return whether it is one of these."""
    job, known = context.jobs[attempt.job], context.core.attempts[attempt.id]
    if job.ending or job.job.gang:
        return False
    if job.job.is_lease:
        attempt.halted, attempt.halted_for = "preempted", _IDLE
        return True
    if any(part.lease is not None for part in known.parts):
        attempt.halted, attempt.halted_for = "reclaimed", _RECLAIMED
        attempt.grace = max(0, fact.end - context.now)
        return True
    return False


def note_stops(context: Context) -> None:
    """Tell the holders of leases that are stopped in this step the reason and the remaining time."""
    for halt in context.out.halts if context.leases else ():
        attempt = context.attempts.get(halt.attempt)
        if attempt is None or attempt.job not in context.leases or attempt.halted_at:
            continue
        attempt.halted_at = context.utc
        job = context.leases[attempt.job]
        why = job.reason if job.ending else attempt.halted_for
        left = lasting(job.job.stop_grace if halt.grace is None else halt.grace)
        _note(context, attempt, f"{why}; it is stopped in {left}" if why else f"it is stopped in {left}", stopping=True)


def note_sizes(context: Context) -> None:
    """Tell how much the leases hold that hold another amount since the last step."""
    core = context.core
    for number in core.pool.take_resized():
        lease, holder = core.pool.leases.get(number), core.attempts.get(number)
        amounts = core.pool.size(lease) if lease is not None else () if holder is None else holder.amounts
        where = lease if lease is not None else holder
        if where is None:
            continue
        job = holder.job.job if holder is not None and holder.job.job.is_lease else None
        context.noticed.lease(
            LeaseResized(
                number,
                None if job is None else job.id,
                None if job is None or holder is None else holder.task,
                lease.workload.name if lease is not None else "" if job is None else job.workload,
                core.cluster.names[where.node],
                lease.workload.group.name if lease is not None else "" if holder is None else holder.job.group.name,
                f"holds {format_vector(amounts, core.dimensions)}",
            )
        )


def _note(context: Context, attempt: LiveAttempt, text: str, *, stopping: bool) -> None:
    group = context.jobs[attempt.job].job.group or DEFAULT_GROUP
    context.noticed.lease(
        LeaseChanged(attempt.id, attempt.job, attempt.task, attempt.node, group, stopping=stopping, text=text)
    )
