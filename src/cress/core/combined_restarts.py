"""Combined restart (source E §3.2 (3), §3.4 step 4): a task restarts together with its dependants on the same node.

The *leader* is a task of a job on which others depend. Its ``companions`` are the tasks of its dependants that are on
its node, or were there when they ended, unless another task there serves them. The unit has the sum of the amounts,
the clauses of all members and the rank of the leader. Waiting companions leave their queues (``carried``). Running
ones (``beside``) go on until a node has room for the whole unit (``unit_homes``). Each member starts as an attempt of
its own job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from cress.core.books import Books
from cress.core.claims import drop_claims
from cress.core.jobs import JobEntry
from cress.core.tables.dependencies import JobKey, key_of
from cress.language.clauses import MOST_CLAUSES, Kind
from cress.model.decisions import UnitDissolved, UnitFormed

# Tasks by job, in ascending order.
Members: TypeAlias = "dict[int, list[int]]"

# --- proposals -------------------------------------------------------------------------------------------------


def changed_units(core: Books) -> Iterator[UnitFormed | UnitDissolved]:
    """Yield the units that no longer belong together, then the new ones.

    The caller applies each before it asks for the next.
    """
    for number, job in sorted(core.units.leaders.items()):
        for task, others in sorted(job.companions.items()) if job.shares_node else ():
            f = _node_of(*others[0])
            if f < 0 or members_on(core, job, f, task) != _as_members(others):
                yield UnitDissolved(number, task)
    for key in core.relations.dependencies.depended_on:
        yield from _new_units(core, key)


def _new_units(core: Books, key: JobKey) -> Iterator[UnitFormed | UnitDissolved]:
    """Yield a unit for each node with tasks that depend on jobs of this name, if a task of these jobs may start."""
    taken: set[int] = set()
    while leaders := [job for job in _named(core, key) if _may_lead(core, job)]:
        places = {f for other in _behind(core, key) for f, _ in _tasks_of(other)} - taken
        if places:
            places -= {attempt.node for job in _named(core, key) for attempt in job.attempts.values()}
        if not places:
            return
        f = min(places)
        taken.add(f)
        job = min(leaders, key=lambda job: (f not in job.was_on.values(), job.job.id))
        found = members_on(core, job, f)
        task = _next_task(job, f)
        if not found or task is None or not _matchable(core, job, found):
            continue
        for number, tasks in found.items():
            for its_task in tasks:
                if its_task in core.jobs[number].companions:
                    yield UnitDissolved(number, its_task)
        yield UnitFormed(job.job.id, task, tuple((number, its_task) for number in found for its_task in found[number]))


def _may_lead(core: Books, job: JobEntry) -> bool:
    """Return True if a task of the job may start next: every job on which it depends runs."""
    if not job.queued or job.job.gang or job.claims or job.carried:
        return False
    return all(core.relations.nodes_of(key) for key in _keys_of(core, job, waited=core.now - job.since))


def _next_task(job: JobEntry, f: int) -> int | None:
    """Return the waiting task that leads the unit of node ``f``: one that ran there, else any task without a unit."""
    free = [task for task in sorted(job.again) if task not in job.companions]
    there = [task for task in free if job.was_on.get(task) == f]
    fresh = [job.next_task] if job.next_task < job.job.tasks else []
    return next(iter((*there, *free, *fresh)), None)


def members_on(core: Books, job: JobEntry, f: int, led: int | None = None) -> Members:
    """Return the tasks on node ``f`` that must stay with a task of the job, which is about to start.

    ``led``: the task whose companions are included; companions in other units are not.
    """
    own = set() if led is None else set(job.companions[led])
    found: Members = {}
    left = [job]
    while left:
        key = JobKey(left[0].group.name, left.pop(0).job.name)
        if _served(core, key, f, found):
            continue
        for other in _behind(core, key):
            if other is job or other.job.id in found:
                continue
            tasks = sorted(
                task
                for node, task in _tasks_of(other)
                if node == f
                and not (task in other.was_on and (other.held or other.behind is not None))
                and ((other, task) in own or (task not in other.beside and task not in other.carried))
                and key in _keys_of(core, other, waited=_waited(core, job, other, task))
            )
            if tasks:
                found[other.job.id] = tasks
                left.append(other)
    return {number: found[number] for number in sorted(found)}


def _served(core: Books, key: JobKey, f: int, members: Members) -> bool:
    """Return True if a task with this job name runs on node ``f`` and stays there."""
    return any(
        attempt.node == f and not attempt.stopping
        for job in _named(core, key)
        if job.job.id not in members
        for attempt in job.attempts.values()
    )


def _named(core: Books, key: JobKey) -> list[JobEntry]:
    return [core.jobs[number] for number in core.relations.dependencies.named(key)]


def _behind(core: Books, key: JobKey) -> list[JobEntry]:
    """Return the jobs that depend on this name and whose tasks move one by one."""
    jobs = (core.jobs[number] for number in core.relations.dependencies.behind(key))
    return [job for job in jobs if not job.job.gang and not job.cancelled]


def _tasks_of(job: JobEntry) -> Iterator[tuple[int, int]]:
    """Yield node and task for each task of a job that runs, or waits and ran before."""
    for attempt in job.attempts.values():
        yield attempt.node, attempt.task
    claimed = {task for claim in job.claims for task in claim.tasks}
    for task, f in job.was_on.items():
        if task not in claimed:
            yield f, task


def _node_of(job: JobEntry, task: int) -> int:
    """Return the node of a task, or its last one; -1 if it has none."""
    return next((f for f, other in _tasks_of(job) if other == task), -1)


def _waited(core: Books, leader: JobEntry, job: JobEntry, task: int) -> int:
    """Return how long (µs) a task has waited as a companion of the leader; 0 while it runs."""
    # A unit forms and lasts by the same clock. By its own clock a task joined units whose time had passed: its clause
    # was soft there, no later time dissolved the unit, and the task waited for ever.
    return core.now - leader.since if task in job.was_on else 0


def _keys_of(core: Books, job: JobEntry, waited: int) -> list[JobKey]:
    """Return the names of the jobs whose node a task of the job must share after waiting ``waited`` µs."""
    if job.constraints is None or not job.constraints.grouped:
        return []
    load = core.balance.utilisation() if job.constraints.by_load else 0.0
    return [
        key_of(str(clause.value), job.group.name)
        for clause in job.constraints.requirement.clauses
        if clause.kind is Kind.DEPENDENCY
        and not (clause.relaxation is not None and clause.relaxation.holds(waited, load))
    ]


def _as_members(companions: list[tuple[JobEntry, int]]) -> Members:
    found: Members = {}
    for job, task in sorted(companions, key=lambda companion: (companion[0].job.id, companion[1])):
        found.setdefault(job.job.id, []).append(task)
    return found


def _matchable(core: Books, job: JobEntry, found: Members) -> bool:
    """Return True if the matcher can take all clauses of the unit."""
    members = [job, *(core.jobs[number] for number, tasks in found.items() for _ in tasks)]
    return sum(len(member.constraints.requirement.clauses) for member in members if member.constraints) <= MOST_CLAUSES


# --- changes ---------------------------------------------------------------------------------------------------


def join(core: Books, fact: UnitFormed) -> None:
    """Take the waiting companions out of their queues; they wait with the task of the leader."""
    job = core.jobs[fact.job]
    if fact.task not in job.again:
        # A task that never started waits from now on like a task that did.
        job.take(fact.task)
        job.put_back(fact.task, job.queued_at)
    companions = [(core.jobs[number], task) for number, task in fact.companions]
    for other, its_task in companions:
        if any(attempt.task == its_task for attempt in other.attempts.values()):
            other.beside[its_task] = job
            core.units.rejoining[job.job.id] = job
            continue
        other.carried[its_task] = job
        if its_task in other.later:
            core.cancel_backoff(other, its_task)
        else:
            core.wait_elsewhere(other, its_task)
    job.companions[fact.task] = companions
    core.units.leaders[job.job.id] = job
    core.shapes.refit(job)


def dissolve(core: Books, job: JobEntry, task: int) -> None:
    """Separate the members of the unit that ``task`` of the job leads; each waits or runs alone again."""
    for companion in job.companions.pop(task):
        _let_go(core, job, *companion)
    _settle(core, job, task)
    core.shapes.refit(job)


def start_unit(core: Books, job: JobEntry, task: int) -> bool:
    """Release the running companions from the unit of a task that starts; return True if it led a unit."""
    others = job.companions.pop(task, None)
    if job.waits_whole:
        core.units.begin(job)
        for other, its_task in others or ():
            core.units.begin(other)
            if its_task in other.carried:
                # The unit starts in part, without it.
                _let_go(core, job, other, its_task)
    for other, its_task in others or ():
        other.beside.pop(its_task, None)
    _settle(core, job, task)
    return others is not None


def has_ended(core: Books, job: JobEntry, task: int, again: bool) -> None:
    """Let an ended companion wait with its leader if it runs again; else remove it from the unit."""
    leader = job.beside.pop(task)
    led = next(first for first, others in leader.companions.items() if (job, task) in others)
    if again:
        job.carried[task] = leader
    else:
        leader.companions[led].remove((job, task))
    _settle(core, leader, led)
    core.shapes.refit(leader)


def _settle(core: Books, job: JobEntry, task: int) -> None:
    """Update a leader after its unit changed.

    A unit without companions is dropped; one without running companions loses its home.
    """
    if not job.companions.get(task, True):
        del job.companions[task]
    if not any(its_task in other.beside for other, its_task in job.companions.get(task, ())):
        job.foreseen.homes.pop(task, None)
    if not any(carried in other.beside for others in job.companions.values() for other, carried in others):
        core.units.rejoining.pop(job.job.id, None)
    if not job.companions:
        core.units.leaders.pop(job.job.id, None)


def _let_go(core: Books, leader: JobEntry, job: JobEntry, task: int) -> None:
    """Let a companion run or wait alone again; it has waited for as long as its unit."""
    if task in job.beside:
        del job.beside[task]
    else:
        del job.carried[task]
        if not job.cancelled:
            job.put_back(task, leader.since)
            core.queue_again(job)


def leave_units(core: Books, job: JobEntry) -> None:
    """Dissolve the units that a job leads, and remove it from the units of other leaders.

    Called for a job that is cancelled, held or moved to another group.
    """
    core.units.in_doubt = core.units.in_doubt or core.relations.dependencies.in_use
    if job.waits_whole:
        # Its room is for all of them.
        drop_claims(core, job, again=not job.cancelled)
    for task in sorted(job.companions):
        dissolve(core, job, task)
    for leader in dict.fromkeys((*job.carried.values(), *job.beside.values())):
        for led, others in sorted(leader.companions.items()):
            gone = [companion for companion in others if companion[0] is job]
            if gone:
                if leader.waits_whole:
                    # Its room is for all of them.
                    drop_claims(core, leader, again=True)
                leader.companions[led] = [companion for companion in others if companion[0] is not job]
                for companion in gone:
                    _let_go(core, leader, *companion)
                _settle(core, leader, led)
                core.shapes.refit(leader)
