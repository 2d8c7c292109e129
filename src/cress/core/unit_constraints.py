"""Amounts and constraints of a unit of several jobs that restart together on one node (source E §3.4, step 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from cress.core.jobs import JobEntry
from cress.core.placing.constraints import NO_OWNER, NO_WANTS, Wants
from cress.core.tables.dependencies import DependencyTable, key_of
from cress.core.tables.licences import added
from cress.language.clauses import PLACES, Clause, Kind, Requirement, joined
from cress.language.parser import parse_requirement
from cress.language.tree import Text
from cress.model.resources import ResourceVector


def combination(
    dependencies: DependencyTable, job: JobEntry, companions: list[tuple[JobEntry, int]], now: int,
    utilisation: Callable[[], float], *, lasting: bool = False,
) -> tuple[ResourceVector, Wants]:  # fmt: skip
    """Return the amounts and the wants of the unit now: joined clauses, united flags, and the rank of the leader.

    Clauses about the nodes of other members are dropped, because all will be on one node. Running companions already
    have their licences. ``lasting``: only clauses that never relax.
    """
    members = [job, *(other for other, _ in companions)]
    inside = {member.job.id for member in members}
    load = utilisation() if any(each.constraints and each.constraints.by_load for each in members) else 0.0

    def kept(clause: Clause, group: str) -> bool:
        if clause.kind is not Kind.DEPENDENCY:
            return True
        return inside.isdisjoint(dependencies.named(key_of(str(clause.value), group)))

    parts: list[Wants] = []
    for member in members:
        if member.constraints is None:
            parts.append(NO_WANTS)
        else:
            soft = member.constraints.soft_now(now - job.since, load)
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
        licences=added(
            part.licences
            for part, (other, task) in zip(parts, [(job, NO_OWNER), *companions], strict=True)
            if task not in other.beside
        ),
    )
    return request, together


def beside_running(
    dependencies: DependencyTable, job: JobEntry, companions: list[tuple[JobEntry, int]], now: int,
    utilisation: Callable[[], float], node: str,
) -> tuple[ResourceVector, Wants]:  # fmt: skip
    """Return the amounts and wants of a unit that starts on ``node``, where some of its companions still run."""
    waiting = [(other, task) for other, task in companions if task not in other.beside]
    if waiting:
        request, wants = combination(dependencies, job, waiting, now, utilisation)
    else:
        request, wants = job.job.request, NO_WANTS
        if job.constraints is not None:
            wants = job.constraints.wants(job.foreseen.soft, job.job.counted_as, job.group.name)
    return request, replace(wants, hard=(*wants.hard, *only_on(node)))


@lru_cache(maxsize=4096)
def only_on(node: str) -> tuple[Clause, ...]:
    """Return the clause that restricts a task to this node."""
    return parse_requirement(f"Nodes in ({Text(node)})", stored=True).clauses


def in_order(requirement: Requirement) -> Requirement:
    """Return the same clauses grouped by kind, in the order of the source."""
    return Requirement(tuple(sorted(requirement.clauses, key=lambda clause: PLACES[clause.kind])))
