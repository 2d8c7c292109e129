"""Homes of units with running companions: a leader starts beside them, or all of them move to another node.

Running tasks are kept for as long as possible. The leader returns to the node of its companions if it has room. Else,
if another node has room for all of them, the companions are stopped and start there with the leader. Else they go on
running, and the leader waits.
"""

from __future__ import annotations

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import USABLE
from cress.core.placing.shape import Shape
from cress.core.unit_constraints import beside_running, combination
from cress.model.job import JobType


def choose_homes(core: Books) -> None:
    """Choose, for each unit with running companions, if its leader is to start beside them."""
    for job in list(core.units.rejoining.values()):
        running = job.still_running()
        if not running or not job.queued:
            continue
        task, before = job.upcoming, job.foreseen.homes.get(job.upcoming)
        home = None if job.moving else _home_of(core, job, running[0].node)
        if home == before:
            continue
        if home is None:
            del job.foreseen.homes[task]
        else:
            job.foreseen.homes[task] = home
        core.shapes.refit(job)


def _home_of(core: Books, job: JobEntry, f: int) -> int | None:
    """Return the node of the companions if the leader is to start there; ``None`` if all are to move."""
    unit = (core.relations.dependencies, job, job.unit(), core.now, core.balance.utilisation)
    request, wants = beside_running(*unit, core.cluster.names[f])
    stays = core.fit.shape(request, 1, core.asking.unit_as_asked(job, wants))
    if core.cluster.nodes[f, USABLE] and _fits(core, stays):
        return f
    # A database is bound to its data, and a held job would not start again.
    if any(other.job.type is JobType.DATABASE or other.held for other, _ in job.unit()):
        return f
    request, wants = combination(*unit)
    if _fits(core, core.fit.shape(request, 1, core.asking.unit_as_asked(job, wants))):
        return None
    with core.fit.wanted(stays):
        waits = core.fit.within_reach(stays) and not core.fit.waits_for_node(stays)
    return f if core.cluster.nodes[f, USABLE] and waits else None


def _fits(core: Books, shape: Shape) -> bool:
    with core.fit.wanted(shape):
        return core.fit.fitting(shape) > 0
