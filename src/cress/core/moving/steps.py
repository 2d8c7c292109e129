"""Steps of a plan as decisions, checked against the present state, which may differ from the planned one."""

from __future__ import annotations

from collections.abc import Sequence

from cress.core.books import Books
from cress.core.moving.movable import why_it_stays
from cress.core.moving.plan import Move
from cress.core.moving.room import promised, shape_of_moved, within_quota
from cress.core.tables.arrays import Ints, suffices
from cress.model.decisions import Claim, Decision, Stop


def problem_of(core: Books, move: Move, kept: Ints | None = None) -> str:
    """Return why a task cannot be moved now, as a sentence; empty if it can.

    ``kept`` is the result of ``promised``, if known.
    """
    what = f"task {move.task} of job {move.job}"
    attempt = core.attempts.get(move.attempt)
    if attempt is None or core.cluster.names[attempt.node] != move.node:
        return f"{what} no longer runs on node {move.node}"
    why = why_it_stays(core, attempt)
    if why is not None:
        return f"{what} is one {why.value}"
    f = core.cluster.index.get(move.to)
    if f is None or not takes(core, attempt.job.job.id, f, kept) or not within_quota(core, attempt, f):
        return f"node {move.to} no longer takes {what}"
    return ""


def takes(core: Books, job: int, f: int, kept: Ints | None = None) -> bool:
    """Return True if a node has room for a task of a running job beside everything promised there."""
    entry = core.jobs[job]
    shape = shape_of_moved(core, entry)
    with core.fit.wanted(shape):
        fits = core.fit.has_room(shape, [(f, 1)])
    kept = promised(core) if kept is None else kept
    return fits and suffices(core.cluster.free_now()[f] - kept[f], shape.request_array)


def problem_of_place(core: Books, job: int, place: Sequence[tuple[str, int]], moves: Sequence[Move]) -> str:
    """Return why a unit cannot have a place after these moves; empty if it can."""
    entry = core.jobs.get(job)
    if entry is None or not entry.queued or entry.shape.size != sum(count for _, count in place):
        return f"job {job} no longer waits as before"
    cluster, shape = core.cluster, entry.shape
    kept = promised(core, entry)
    needed: dict[int, Ints] = {}
    for kind, f, count in shape.copies([(cluster.index[name], count) for name, count in place]):
        needed[f] = needed.get(f, 0) + kind.request_array * count
    for f, needs in needed.items():
        name = cluster.names[f]
        free = cluster.free_now()[f] - kept[f]
        for move in moves:
            if move.node == name:
                free += core.attempts[move.attempt].amounts
        if not suffices(free, needs):
            return f"other tasks have taken the room for job {job} on node {name}"
    return ""


def decisions(
    core: Books, moves: Sequence[Move], job: int = 0, place: Sequence[tuple[str, int]] = ()
) -> list[Decision]:
    """Return the decisions of one step.

    The place of the waiting unit ``job`` is claimed first, then the target of each task, and the task is stopped.
    """
    found: list[Decision] = []
    now, grace = core.now, {move.attempt: core.attempts[move.attempt].job.job.stop_grace for move in moves}
    victims = tuple(move.attempt for move in moves)
    if job:
        entry = core.jobs[job]
        tasks = tuple(entry.next_tasks(sum(count for _, count in place)))
        expected = now + max(grace.values(), default=0)
        found.append(Claim(job, tasks, tuple(place), victims, expected, moves=True))
    for move in moves:
        end = now + grace[move.attempt]
        found.append(Claim(move.job, (move.task,), ((move.to, 1),), (move.attempt,), end, moves=True))
        found.append(Stop(move.attempt, move.job, move.task, move.node, end))
    return found
