"""Combined restart (source E §3.2 (3), §3.4 step 4): tasks that a node failure interrupted start again together.

A lost task of a job that others depend on, its *leader*, takes along the tasks of its dependants that were on the node.
They are its ``companions``, taken out of their queues, and wait as one unit with it: the amounts are added, the clauses
joined, the rank is the leader's. Each starts as an attempt of its own job.
"""

from __future__ import annotations

from collections.abc import Iterator

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.placing.constraints import NO_WANTS
from cress.core.tables.dependencies import Key
from cress.core.unit_constraints import combination
from cress.language.clauses import MOST_CLAUSES
from cress.model.decisions import UnitDissolved, UnitFormed

# --- proposals -------------------------------------------------------------------------------------------------


def new_units(core: Books) -> Iterator[UnitFormed]:
    """Yield a unit for each leader lost since the last call; each must be applied before the next is asked for."""
    by_node: dict[int, dict[int, list[int]]] = {}
    for number, task, f in core.lost:
        job = core.jobs.get(number)
        if job is not None and task in job.again and not job.job.gang and job.queued:
            by_node.setdefault(f, {}).setdefault(number, []).append(task)
    core.lost.clear()
    for f in sorted(by_node):
        yield from _units_of(core, {number: sorted(by_node[f][number]) for number in sorted(by_node[f])})


def _units_of(core: Books, lost: dict[int, list[int]]) -> Iterator[UnitFormed]:
    """Yield the units of one node, of these tasks by job."""
    relations = core.relations.dependencies
    for number in lost:
        if any(other in lost for other in relations.on(number)):
            continue
        job = core.jobs[number]
        found = _reached(core, number, {other for other in lost if not core.jobs[other].carried})
        companions = [(core.jobs[other], task) for other in found for task in lost[other]]
        if companions and not job.claims and not job.carried and _worthwhile(core, job, companions):
            yield UnitFormed(number, lost[number][0], tuple((other.job.id, task) for other, task in companions))


def _reached(core: Books, number: int, among: set[int]) -> list[int]:
    """Return the jobs ``among`` these that depend on the job, directly or through each other."""
    found: set[int] = set()
    left = [number]
    while left:
        job = core.jobs[left.pop()]
        for other in core.relations.dependencies.behind(Key(job.group.name, job.job.name)):
            if other in among and other != number and other not in found:
                found.add(other)
                left.append(other)
    return sorted(found)


def _worthwhile(core: Books, job: JobEntry, companions: list[tuple[JobEntry, int]]) -> bool:
    """Return whether the unit is small enough to be matched, and some node could hold it if it could hold the leader."""
    members = [job, *(other for other, _ in companions)]
    clauses = sum(len(each.constraints.requirement.clauses) for each in members if each.constraints)
    return clauses <= MOST_CLAUSES and not _hopeless(core, job, companions)


def _hopeless(core: Books, job: JobEntry, companions: list[tuple[JobEntry, int]]) -> bool:
    """Return whether some present node could hold the leader, but none ever the whole unit."""
    request, wants = combination(
        core.relations.dependencies, job, companions, core.now, core.balance.utilisation, lasting=True
    )
    if core.fit.ever_fits(request, wants):
        return False
    return core.fit.ever_fits(job.job.request, NO_WANTS if job.constraints is None else job.constraints.lasting)


def hopeless_units(core: Books) -> Iterator[UnitDissolved]:
    """Yield the units that no present node could ever hold, while one could hold the leader."""
    for job in sorted((job for job in core.jobs.values() if job.companions), key=lambda job: job.job.id):
        for task in sorted(job.companions):
            if _hopeless(core, job, job.companions[task]):
                yield UnitDissolved(job.job.id, task)


# --- changes ---------------------------------------------------------------------------------------------------


def join(core: Books, fact: UnitFormed) -> None:
    """Take the companions out of their queues; they wait with the leader's task."""
    job = core.jobs[fact.job]
    companions = [(core.jobs[number], task) for number, task in fact.companions]
    for other, its_task in companions:
        other.carried[its_task] = job
        core.wait_elsewhere(other, its_task)
    job.companions[fact.task] = companions
    core.refit(job)


def dissolve(core: Books, job: JobEntry, task: int) -> None:
    """Let the members of the unit that ``task`` of the job leads wait alone again."""
    for other, its_task in job.companions.pop(task):
        del other.carried[its_task]
        if not other.cancelled:
            core.wait_again(other, its_task)
    core.refit(job)


def leave_units(core: Books, job: JobEntry) -> None:
    """Dissolve the units that the job leads, and remove it from those of other leaders: it is cancelled, held or moved."""
    for task in sorted(job.companions):
        dissolve(core, job, task)
    for task, leader in sorted(job.carried.items()):
        if job.carried.get(task) is leader:
            (led,) = (each for each, others in leader.companions.items() if (job, task) in others)
            _leave(core, leader, led, job)


def _leave(core: Books, leader: JobEntry, led: int, gone: JobEntry) -> None:
    """Remove a job from a unit, with the members that belong there only because of it."""
    others = leader.companions.pop(led)
    stay = _reached(core, leader.job.id, {other.job.id for other, _ in others if other is not gone})
    staying = [each for each in others if each[0].job.id in stay]
    if staying:
        leader.companions[led] = staying
    for other, task in others:
        if (other, task) not in staying:
            del other.carried[task]
            if not other.cancelled:
                core.wait_again(other, task)
    core.refit(leader)
