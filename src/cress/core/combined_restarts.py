"""Combined restart (source E §3.2 (3), §3.4 step 4): what a node failure broke up starts again together, on one node.

A lost task of a job that others depend on, its *leader*, takes along the tasks of its dependants that were on the node.
They are its ``companions``, out of their own queues, and wait as one unit with it: the amounts are added, the clauses
joined, the rank is the leader's. Each starts as an attempt of its own job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cress.core.placing.constraints import NO_WANTS, Wants
from cress.core.tables.dependencies import Key, key_of
from cress.core.tables.licences import added
from cress.language.clauses import MOST_CLAUSES, Clause, Kind, Requirement, joined
from cress.model.resources import ResourceVector

if TYPE_CHECKING:
    from cress.core.jobs import JobState
    from cress.core.ledger import Ledger


def form_units(core: Ledger) -> None:
    """Put together what was lost with a node since the last time and waits again."""
    by_node: dict[int, dict[int, list[int]]] = {}
    for number, task, f in core.lost:
        job = core.jobs.get(number)
        if job is not None and task in job.again and not job.job.gang and job.queued:
            by_node.setdefault(f, {}).setdefault(number, []).append(task)
    core.lost.clear()
    for f in sorted(by_node):
        _form_on(core, {number: sorted(by_node[f][number]) for number in sorted(by_node[f])})


def _form_on(core: Ledger, lost: dict[int, list[int]]) -> None:
    """The units of one node, of these tasks by job."""
    relations = core.relations.dependencies
    for number in lost:
        if any(other in lost for other in relations.on(number)):
            continue
        job = core.jobs[number]
        found = _reached(core, number, {other for other in lost if not core.jobs[other].carried})
        companions = [(core.jobs[other], task) for other in found for task in lost[other]]
        if companions and not job.claims and not job.carried:
            _join(core, job, lost[number][0], companions)


def _reached(core: Ledger, number: int, among: set[int]) -> list[int]:
    """The jobs ``among`` these that depend on the job, directly or through each other."""
    found: set[int] = set()
    left = [number]
    while left:
        job = core.jobs[left.pop()]
        for other in core.relations.dependencies.behind(Key(job.group.name, job.job.name)):
            if other in among and other != number and other not in found:
                found.add(other)
                left.append(other)
    return sorted(found)


def _join(core: Ledger, job: JobState, task: int, companions: list[tuple[JobState, int]]) -> None:
    """Make a unit of a task and its companions, unless it is better off without them."""
    members = [job, *(other for other, _ in companions)]
    if sum(len(each.constraints.requirement.clauses) for each in members if each.constraints) > MOST_CLAUSES:
        return
    if _hopeless(core, job, companions):
        return
    for other, its_task in companions:
        other.carried[its_task] = job
        core.wait_elsewhere(other, its_task)
    job.companions[task] = companions
    core.refit(job)


def _hopeless(core: Ledger, job: JobState, companions: list[tuple[JobState, int]]) -> bool:
    """Whether some node that is there could hold the leader, but none ever the whole unit."""
    request, wants = combination(core, job, companions, lasting=True)
    if core.cluster.ever_fits(request, wants):
        return False
    return core.cluster.ever_fits(job.job.request, NO_WANTS if job.constraints is None else job.constraints.lasting)


def combination(
    core: Ledger, job: JobState, companions: list[tuple[JobState, int]], *, lasting: bool = False
) -> tuple[ResourceVector, Wants]:
    """The amounts of the unit, and what it wants at this moment: clauses joined, flags united, the leader's rank.

    What the members want of each other's nodes is dropped: they will be on one. ``lasting``: what no time relaxes.
    """
    members = [job, *(other for other, _ in companions)]
    inside = {member.job.id for member in members}
    load = core.balance.utilisation() if any(each.constraints and each.constraints.by_load for each in members) else 0.0

    def kept(clause: Clause, group: str) -> bool:
        if clause.kind is not Kind.DEPENDENCY:
            return True
        return inside.isdisjoint(core.relations.dependencies.named(key_of(str(clause.value), group)))

    parts: list[Wants] = []
    for member in members:
        if member.constraints is None:
            parts.append(NO_WANTS)
        else:
            soft = member.constraints.soft_now(core.now - job.since, load)
            wants = member.constraints.wants(soft, member.job.counted_as, member.group.name)
            if lasting:
                wants = replace(member.constraints.lasting, owner=wants.owner, group=wants.group)
            hard = tuple(clause for clause in wants.hard if kept(clause, member.group.name))
            parts.append(replace(wants, hard=hard, terms=wants.terms if member is job else ()))
    request = tuple(map(sum, zip(*(member.job.request for member in members), strict=True)))
    together = Wants(
        hard=in_order(joined(Requirement(part.hard) for part in parts)).clauses,
        terms=parts[0].terms if parts and job.constraints is not None else (),
        ports=tuple(port for part in parts for port in part.ports),
        owner=job.job.counted_as,
        parts=tuple(parts),
        members=tuple(member.job.request for member in members),
        licences=added(part.licences for part in parts),
    )
    return request, together


# Source E, (iii) to (viii): conditions first, then the kinds as they come there.
_ORDER = (Kind.CONDITION, Kind.RESOURCE, Kind.ADJACENT, Kind.PORT, Kind.DISK, Kind.NODES, Kind.DATA, Kind.DEPENDENCY)


def in_order(requirement: Requirement) -> Requirement:
    """The same clauses, those of a kind together, in the order in which the source writes them."""
    return Requirement(tuple(sorted(requirement.clauses, key=lambda clause: _ORDER.index(clause.kind))))


def dissolve(core: Ledger, job: JobState, task: int) -> None:
    """The unit that ``task`` of the job leads is none any more: everyone waits alone again."""
    for other, its_task in job.companions.pop(task):
        del other.carried[its_task]
        if not other.cancelled:
            core.wait_again(other, its_task)
    core.refit(job)


def leave_units(core: Ledger, job: JobState) -> None:
    """The job is cancelled, held or moved: it leads nobody and is with nobody."""
    for task in sorted(job.companions):
        dissolve(core, job, task)
    for task, leader in sorted(job.carried.items()):
        if job.carried.get(task) is leader:
            (led,) = (each for each, others in leader.companions.items() if (job, task) in others)
            _leave(core, leader, led, job)


def _leave(core: Ledger, leader: JobState, led: int, gone: JobState) -> None:
    """A job leaves a unit, and with it those that belong there by it alone."""
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


def dissolve_hopeless(core: Ledger) -> None:
    """Nodes came or went: no node that is there could ever hold some unit any more, but one could hold its leader."""
    for job in sorted((job for job in core.jobs.values() if job.companions), key=lambda job: job.job.id):
        for task in sorted(job.companions):
            if _hopeless(core, job, job.companions[task]):
                dissolve(core, job, task)
