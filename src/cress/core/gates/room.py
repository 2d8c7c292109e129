"""No room for a unit: the amounts that nodes lack for it, or the reservation that it would delay."""

from __future__ import annotations

from itertools import chain

import numpy as np

from cress.core.advance.telling import reserved_beside
from cress.core.books import Books
from cress.core.diagnostics.kinds_of_nodes import has_of_kinds
from cress.core.diagnostics.relaxing import turns_soft
from cress.core.diagnostics.short_parts import short_parts
from cress.core.diagnostics.smallest_change import smallest_change
from cress.core.diagnostics.taken_ports import taken_ports
from cress.core.diagnostics.unresolved_names import missing_in
from cress.core.future.reservations import drain_due
from cress.core.gates.gate import veto_of
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import EXCLUDED, USABLE
from cress.core.placing.constraints import NO_WANTS, Wants
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Missing, Verdict, Veto
from cress.core.tables.arrays import Ints
from cress.core.tables.measured_load import NO_OVERLOAD, Busy
from cress.model.events import AWAY
from cress.model.times import NEVER


def later_start(core: Books, job: JobEntry) -> Veto | None:
    """Return the veto of a unit with a planned start, or with nodes kept free for it; ``None`` without either."""
    planned = core.plans.planned_start(job)
    if planned is not None:
        return veto_of(job, Verdict.PLANNED, until=planned)
    drain = job.foreseen.drain
    if drain and drain_due(job, core.now):
        places = tuple(dict.fromkeys(core.cluster.names[f] for f, _ in drain))
        return veto_of(job, Verdict.DRAINING, places=places)
    return None


def no_room(core: Books, job: JobEntry, *, refused: bool = False) -> Veto:
    """Return the reason why no node was chosen.

    ``refused``: a gate refuses the unit, so what was foreseen for it before counts no more.
    """
    shape, nodes = job.shape, core.cluster.usable_count
    reserved = None if refused else core.reservations.of(job)
    start = reserved.start if reserved is not None and reserved.rows else None
    if core.fit.fitting(shape) and (shape.size == 1 or core.fit.copies_free(shape) >= shape.size):
        return _beside_others(core, job, start)
    clauses: tuple[tuple[str, int], ...] = ()
    kind = Verdict.NO_ROOM_TOGETHER if core.fit.fitting(shape) else Verdict.NO_ROOM
    if shape.match is not None:
        clauses = core.matching.alone(shape, _usable(core))
        if clauses and kind is Verdict.NO_ROOM and not _some_satisfies(core, shape):
            kind = Verdict.UNSATISFIED
        if few := core.relations.licences.short(shape.wants.licences):
            return veto_of(job, Verdict.LICENCE, nodes=nodes, clauses=clauses, at_bound=few)
        if clauses and start is None and job.relaxes_at < NEVER:
            start = job.relaxes_at
    if shape.kinds:
        return _short(core, job, start)
    bound = bound_of_gang(core, job, shape.wants)
    soft = turns_soft(core, job, (*(text for text, _ in clauses), *bound))
    return veto_of(
        job,
        kind,
        until=start,
        lacking=_lacking(core, shape),
        clauses=clauses,
        nodes=nodes,
        missing=missing_names(core, job, shape.wants, clauses),
        bound=bound,
        overloaded=busy(core, job),
        details=(*core.matching.details(shape), *smallest_change(core, job), *soft, *has_of_kinds(core, job)),
    )


def _beside_others(core: Books, job: JobEntry, start: int | None) -> Veto:
    """Return the veto of a unit with room that would delay another one, or run into a reservation."""
    blocker = _blocker(core, job)
    if blocker is None and core.advance_reservations and (beside := reserved_beside(core, job)) is not None:
        return veto_of(job, Verdict.RESERVED_AHEAD, until=start, reserved=beside)
    return veto_of(job, Verdict.RESERVED, blocker, until=start, nodes=core.cluster.usable_count)


def _short(core: Books, job: JobEntry, start: int | None) -> Veto:
    """Return the veto of a gang of several kinds of tasks that do not fit together.

    It tells what the first part without enough places lacks.
    """
    short = short_parts(core, job)
    first = short.first
    clauses = core.matching.alone(first, _usable(core)) if first is not None and first.match is not None else ()
    bound = bound_of_gang(core, job, job.shape.wants)
    soft = turns_soft(core, job, (*(text for text, _ in clauses), *bound))
    return veto_of(
        job,
        Verdict.NO_ROOM_TOGETHER,
        until=start,
        lacking=() if first is None else _lacking(core, first),
        clauses=clauses,
        nodes=core.cluster.usable_count,
        bound=bound,
        missing=() if first is None else missing_names(core, job, first.wants, clauses),
        overloaded=NO_OVERLOAD if first is None else busy(core, job),
        details=(*short.told, *smallest_change(core, job), *soft),
    )


def _blocker(core: Books, job: JobEntry) -> JobEntry | None:
    """Return a job whose kept room the unit would take; ``None`` if unknown."""
    failed = job.group.tried.start.state
    keepers = chain(
        (reservation.job for reservation in core.reservations.kept),
        (claim.job for claim in core.claims),
        core.turns.due(core.jobs, core.now),
        # Reservations may have been dropped since, for groups that they do not bind.
        (core.jobs[number] for number in (failed[2] if failed is not None else ()) if number in core.jobs),
    )
    alive = (keeper for keeper in keepers if keeper is not job and core.jobs.get(keeper.job.id) is keeper)
    return next(alive, None) or core.plans.soonest_but(job)


def closed_nodes(core: Books, job: JobEntry) -> tuple[tuple[str, int], ...]:
    """Return the closed nodes that are large enough and satisfy the lasting clauses, as counts by reason.

    Empty if an open node is also suitable, or if all nodes of the cluster are closed.
    """
    cluster = core.cluster
    if not cluster.usable_count:
        return ()
    may = core.matching.ever(job.shape.wants)
    counts: dict[str, int] = {}
    for f in range(cluster.node_count):
        spec = cluster.specs[f]
        large = all(have >= need for have, need in zip(spec.capacity, job.shape.request, strict=True))
        if not large or not (cluster.lost[f] or may[f]):
            continue
        if cluster.nodes[f, USABLE]:
            return ()
        # ``cluster.away`` has the nodes whose executors may be back within a term; later only the reason tells.
        if cluster.lost[f] or f in cluster.away or cluster.cordoned[f] == AWAY:
            why = "away"
        elif cluster.cordoned[f] is not None:
            why = "cordoned"
        else:
            why = "overloaded" if cluster.overloaded[f] is not None else "overcommitted"
        counts[why] = counts.get(why, 0) + 1
    return tuple(counts.items())


def _some_satisfies(core: Books, shape: Shape) -> bool:
    """Return True if an open node satisfies all clauses of a shape, and so lacks only room for it."""
    cluster = core.cluster
    n = cluster.node_count
    return bool(np.any((cluster.lack[shape.row, :n] & EXCLUDED == 0) & (cluster.nodes[:n, USABLE] > 0)))


def _lacking(core: Books, shape: Shape) -> tuple[tuple[str, int], ...]:
    counts = zip(core.dimensions.names, core.fit.lacking(shape), strict=True)
    return tuple((name, count) for name, count in counts if count)


def missing_names(
    core: Books, job: JobEntry, wants: Wants, clauses: tuple[tuple[str, int], ...]
) -> tuple[Missing, ...]:
    """Return the names in these clauses that refer to nothing that exists."""
    texts = {text for text, _ in clauses}
    if not texts:
        return ()
    named = missing_in(core, (clause for clause in wants.hard if str(clause) in texts), job.group.name)
    return (*named, *taken_ports(core, (text for text, _ in clauses)))


def bound_of_gang(core: Books, job: JobEntry, wants: Wants) -> tuple[str, ...]:
    """Return the constraints that apply to all tasks of a gang together."""
    if not (job.job.gang or job.waits_whole) or wants is NO_WANTS:
        return ()
    # Every kind of tasks has the same constraints for the whole gang.
    return core.matching.binding(wants.kinds[0].wants if wants.kinds else wants)


def busy(core: Books, job: JobEntry) -> Busy:
    """Return the overloaded nodes that are large enough and satisfy the static clauses."""
    nodes = core.loads.overloaded_nodes()
    if not nodes:
        return NO_OVERLOAD
    may = core.matching.ever(job.shape.wants)
    request = job.shape.request
    large = (all(x >= y for x, y in zip(core.cluster.capacity_of(f), request, strict=True)) for f in nodes)
    return core.loads.busy([f for f, fits in zip(nodes, large, strict=True) if fits and may[f]])


def _usable(core: Books) -> Ints:
    return np.flatnonzero(core.cluster.nodes[: core.cluster.node_count, USABLE])
