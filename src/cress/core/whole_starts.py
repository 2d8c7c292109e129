"""Whole starts: members of a service with ``IssueAsWhole`` start together, each on a node of its own (note 0060).

Jobs with the same ``starts_with`` are one *set*. While they wait, the first one leads a unit of all of them: the others
are its ``companions`` and leave their queues, and its shape is that of a gang. Once the unit has started, each member
of it, also one that was left out of a start in part, starts by itself from then on.
"""

from __future__ import annotations

from collections.abc import Iterator

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.placing.constraints import placement_of
from cress.model.decisions import UnitDissolved, UnitFormed

# A member has one task.
TASK = 0


def changed_sets(core: Books) -> Iterator[UnitFormed | UnitDissolved]:
    """Yield the units of sets that changed: first those that no longer are whole, then the new ones.

    The caller applies each before it asks for the next.
    """
    for number in sorted(core.units.changed_sets):
        for members in _alike(core.units.sets.get(number, {})):
            leader, *others = members
            companions = [(other, TASK) for other in others]
            leads = [job for job in members if job.companions]
            if leads == ([leader] if others else []) and leader.companions.get(TASK, []) == companions:
                continue
            for job in leads:
                yield UnitDissolved(job.job.id, TASK)
            if others:
                yield UnitFormed(leader.job.id, TASK, tuple((other.job.id, TASK) for other in others))


def _alike(jobs: dict[int, JobEntry]) -> list[list[JobEntry]]:
    """Return the members of a set that may start together now: of one group, and with equal requests and clauses.

    A unit with claimed room stays as it is.
    """
    found: dict[tuple[object, ...], list[JobEntry]] = {}
    for _, job in sorted(jobs.items()):
        if job.queued or (TASK in job.carried and not job.carried[TASK].claims):
            found.setdefault((job.group.name, job.job.request, *placement_of(job.job)), []).append(job)
    return list(found.values())
