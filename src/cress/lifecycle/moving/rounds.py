"""Rounds: moves are made one after the other, each when the one before has arrived; a failure ends the round.

One step of the machine promises the moves (claims of the targets, stops of the tasks) and notes them in the row of the
round, so a center that takes over continues the round.
"""

from __future__ import annotations

from collections.abc import Sequence

from cress.core.moving import steps
from cress.core.moving.plan import Goal, Move
from cress.core.moving.room import promised
from cress.lifecycle.context import Context
from cress.lifecycle.effects import RoundEnded, TaskMoved
from cress.lifecycle.inputs import Rebalance, StopMoves
from cress.lifecycle.jobs.reasons import lasting
from cress.lifecycle.moving.movable import why_not
from cress.lifecycle.tables.rounds import MOST_ROUNDS, Round
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.lifecycle.tables.timers import MOVES
from cress.model.decisions import ClaimDropped
from cress.model.errors import InputError, NotAccepted
from cress.model.family import Service
from cress.model.group import DEFAULT_GROUP
from cress.model.times import MINUTE

# The word for an attempt that is stopped to run elsewhere.
MOVED = "moved"
# Time (µs) within which a task without a readiness check must run on its target.
PATIENCE = 5 * MINUTE

_WHY = {
    Goal.SPREAD: "to spread its tasks over nodes",
    Goal.DEVICES: "to free a device of node {node}",
    Goal.NODES: "to free node {node}",
}


def present(context: Context) -> Round | None:
    """Return the round that is under way."""
    rounds = context.tables.rounds
    last = rounds.get(next(reversed(rounds), 0))
    return last if last is not None and not last.ended else None


def take(context: Context, word: Rebalance | StopMoves) -> None:
    """Begin a round, or end the present one after its step under way."""
    if isinstance(word, Rebalance):
        _begin(context, word)
        return
    now = present(context)
    if now is None:
        raise NotAccepted("nothing is being moved", hint="see `cress rebalance`")
    now.stopping = word.by or "the center"


def _begin(context: Context, word: Rebalance) -> None:
    now, rounds = present(context), context.tables.rounds
    number = next(reversed(rounds), 0)
    if now is not None:
        raise NotAccepted(
            f"round {number} is under way: {len(now.done)} of {_size(now)} moves are done",
            hint="wait for its end, or `cress rebalance --stop`",
        )
    if not word.moves:
        raise InputError("there is nothing to move", hint="see `cress rebalance`", field="moves")
    if len({move.attempt for move in word.moves}) < len(word.moves):
        raise InputError("a task is moved twice", hint="each once", field="moves")
    for move in word.moves:
        attempt = context.attempts.get(move.attempt)
        if attempt is None or (attempt.job, attempt.task, attempt.node) != (move.job, move.task, move.node):
            raise _changed(f"task {move.task} of job {move.job} no longer runs on node {move.node}")
        if move.to not in context.nodes or move.to == move.node:
            raise InputError(
                f"node {move.to!r} is not a valid target", hint="another node of the cluster", field="moves"
            )
    moves, together = word.moves, 0
    if word.job:
        if any(name not in context.nodes or count < 1 for name, count in word.place):
            raise InputError(
                f"the place of job {word.job} is not valid", hint="names of nodes and numbers of tasks", field="place"
            )
        moves, together = _with_job_last(context, moves)
    first = Round(begun=context.utc, by=word.by, job=word.job, place=word.place, together=together, left=moves)
    problem = _problem_of(context, first, _next_step(first))
    if problem:
        raise _changed(problem)
    rounds[number + 1] = first
    for old in list(rounds)[:-MOST_ROUNDS]:
        del rounds[old]


def _changed(what: str) -> NotAccepted:
    return NotAccepted(f"the cluster has changed: {what}", hint="plan again: `cress rebalance`")


def _with_job_last(context: Context, moves: Sequence[Move]) -> tuple[tuple[Move, ...], int]:
    """Return the moves with a last step that makes room for a job, and its number of moves: at most one task of each
    service.
    """
    seen: set[int] = set()
    early: list[Move] = []
    late: list[Move] = []
    # From the end, so that the tasks of a service move in the order of the plan.
    for move in reversed(moves):
        job = context.jobs[move.job]
        of = job.job.family if job.kept is not None else 0
        (early if of and of in seen else late).append(move)
        seen.add(of)
    return (*reversed(early), *reversed(late)), len(late)


def _size(round_: Round) -> int:
    return len(round_.left) + len(round_.under_way) + len(round_.done) + len(round_.skipped)


def _next_step(round_: Round) -> tuple[Move, ...]:
    return round_.left if round_.job and len(round_.left) <= round_.together else round_.left[:1]


# --- bringing on ------------------------------------------------------------------------------------------------------


def tend(context: Context) -> None:
    """Continue the present round: check that the moved tasks have arrived, and begin the next step."""
    now = present(context)
    if now is None:
        return
    if now.under_way:
        problem = ""
        for move in now.under_way:
            found = _arrival(context, move)
            if found is None:
                return
            problem = problem or found
        waits = _arrival_of_job(context, now) if now.job and not now.left and not problem else ""
        if waits is None:
            return
        problem = problem or waits
        context.timers.drop(MOVES, "")
        if problem:
            _end(context, now, problem)
            return
        now.done, now.under_way = now.done + now.under_way, ()
    if now.stopping:
        _end(context, now, f"stopped by {now.stopping}" if now.left else "")
        return
    gone = tuple(move for move in now.left if move.attempt not in context.attempts)
    if gone:
        now.skipped += gone
        last = now.left[len(now.left) - now.together :]
        now.together -= sum(move in gone for move in last)
        now.left = tuple(move for move in now.left if move.attempt in context.attempts)
    if not now.left:
        _end(context, now, "")
        return
    step = _next_step(now)
    problem = _problem_of(context, now, step)
    if problem:
        _end(context, now, problem)
        return
    _move(context, now, step)


def due(context: Context) -> None:
    """End the round: a task has not arrived in time."""
    now = present(context)
    if now is not None and now.under_way:
        limit = lasting(_patience(context, now.under_way))
        if any(move.attempt in context.attempts for move in now.under_way):
            # A task that still runs ends by its grace, or with its node.
            context.timers.set(MOVES, "", context.now + _patience(context, now.under_way))
            return
        late = next((move for move in now.under_way if _arrival(context, move) is None), now.under_way[0])
        # A task that waits for a closed node runs elsewhere.
        for number in (now.job, *(move.job for move in now.under_way)):
            entry = context.core.jobs.get(number)
            claims = [claim for claim in entry.claims if claim.moves and claim.tasks] if entry is not None else []
            context.core.propose(ClaimDropped(number, tuple(claim.tasks)) for claim in claims)
        _end(
            context,
            now,
            f"task {late.task} of job {_shown(context, late)} is not ready on node {late.to} after {limit}",
        )


def _problem_of(context: Context, now: Round, step: Sequence[Move]) -> str:
    """Return why a step cannot be made now; empty if it can."""
    core = context.core
    kept = promised(core.books, core.jobs.get(now.job))
    spare: dict[int, int] = {}
    last = bool(now.job) and len(now.left) == len(step)
    for move in step:
        attempt = context.attempts[move.attempt]
        why = why_not(context, attempt, spare)
        if why is not None:
            return f"task {move.task} of job {_shown(context, move)} is one {why.value}"
        service = context.jobs[move.job].job.family
        if service in spare:
            spare[service] -= 1
        problem = steps.problem_of(core.books, move, kept)
        if problem:
            return problem
    return steps.problem_of_place(core.books, now.job, now.place, step) if last else ""


def _move(context: Context, now: Round, step: tuple[Move, ...]) -> None:
    """Let the scheduler promise a step, and note it."""
    last = bool(now.job) and len(now.left) == len(step)
    context.core.propose(steps.decisions(context.core.books, step, now.job if last else 0, now.place))
    by = f" by {now.by}" if now.by else " by the option rebalance"
    for move in step:
        attempt = context.attempts[move.attempt]
        why = f"to make room for job {now.job}" if now.job else _WHY[move.goal].format(node=move.node)
        attempt.halted, attempt.halted_for = MOVED, f"moved to node {move.to}{by}: {why}"
        group = context.jobs[attempt.job].job.group or DEFAULT_GROUP
        context.noticed.moves(
            TaskMoved(attempt.id, attempt.job, attempt.task, move.node, group, now.by, attempt.halted_for)
        )
    now.left, now.under_way = now.left[len(step) :], step
    context.timers.set(MOVES, "", context.now + _patience(context, step))


def _patience(context: Context, step: Sequence[Move]) -> int:
    """Return the maximum duration of a step, in µs."""
    longest = 0
    for move in step:
        job = context.jobs.get(move.job)
        if job is not None:
            wait = job.kept.update_timeout if isinstance(job.kept, Service) else PATIENCE
            longest = max(longest, job.job.stop_grace + wait)
    return longest or PATIENCE


def _arrival(context: Context, move: Move) -> str | None:
    """Return why a moved task has not arrived; empty if it has, or has ended; ``None``: it is on its way."""
    if move.attempt in context.attempts:
        return None
    job = context.jobs.get(move.job)
    if job is None or job.ending:
        return ""
    what = f"task {move.task} of job {_shown(context, move)}"
    entry = context.core.jobs[move.job]
    attempt = _attempt_of(job, move.task)
    if attempt is None:
        if any(move.task in claim.tasks for claim in entry.claims):
            if not context.nodes[move.to].cordoned:
                return None
            # A node that is only away may be back soon.
            context.core.propose([ClaimDropped(move.job, (move.task,))])
            return f"node {move.to} was cordoned before {what} started there"
        waits = move.task in entry.again or move.task in entry.later or move.task >= entry.next_task
        return f"{what} has not started on node {move.to}, and waits" if waits else ""
    if attempt.node != move.to:
        return f"{what} was placed on node {attempt.node}, as node {move.to} could no longer take it"
    if not attempt.started or (job.kept is not None and attempt.ready_at is None):
        return None
    return ""


def _arrival_of_job(context: Context, now: Round) -> str | None:
    """Return the result of ``_arrival`` for the unit for which room was made."""
    entry = context.core.jobs.get(now.job)
    if entry is None or entry.attempts:
        return ""
    return None if entry.has_claimed else f"job {now.job} did not start: its room was lost"


def _attempt_of(job: LiveJob, task: int) -> LiveAttempt | None:
    return next((attempt for attempt in job.attempts.values() if attempt.task == task), None)


def _shown(context: Context, move: Move) -> str:
    """Return the displayed number of the job of a task; a member of a service has its index."""
    job = context.jobs.get(move.job)
    return f"{job.job.family}.{job.index}" if job is not None and job.kept is not None else str(move.job)


def _end(context: Context, now: Round, problem: str) -> None:
    now.ended, now.problem = context.utc, problem
    context.timers.drop(MOVES, "")
    done = len(now.done)
    text = f"{done} of {_size(now)} tasks moved" + (f"; stopped: {problem}" if problem else "")
    context.noticed.moves(RoundEnded(next(reversed(context.tables.rounds)), now.by, text))
