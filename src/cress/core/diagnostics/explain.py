"""The reason why a job waits, as a veto, and the sentence for it."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from cress.core.advance.gaps import fits_in_no_gap
from cress.core.advance.telling import (
    longest_now,
    readable,
    reserved_beside,
    reserved_from,
    say_reserved,
    say_shorter,
    time_of_day,
)
from cress.core.books import Books
from cress.core.cycle import Cycle
from cress.core.diagnostics.kinds_of_nodes import has_of_kinds
from cress.core.diagnostics.short_parts import named, never_part, short_parts
from cress.core.diagnostics.smallest_change import smallest_change
from cress.core.diagnostics.taken_ports import taken_ports
from cress.core.diagnostics.unresolved_names import missing_in, say
from cress.core.future.reservations import drain_due
from cress.core.groups.guarantees import ForbiddenBy, Guarantees
from cress.core.groups.limits import Bound
from cress.core.groups.running_limits import head_of, limit_reached, that_may_start
from cress.core.jobs import JobEntry, Rights
from cress.core.kernels.holding import EXCLUDED, USABLE
from cress.core.placing.constraints import NO_WANTS, Wants
from cress.core.placing.kinds import lasting_wants
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Missing, Reached, Verdict, Veto
from cress.core.tables.licences import LicenceShortage
from cress.core.tables.measured_load import NO_OVERLOAD, Busy, say_busy
from cress.core.tree.tree import below_quota_against, branches
from cress.core.unit_constraints import combination
from cress.model.groups.measures import describe_measure
from cress.model.groups.quota_text import SCALE, UNIT
from cress.model.resources import ResourceVector
from cress.model.times import NEVER
from cress.model.units import format_share


def why_waiting(core: Cycle, job_id: int) -> Veto | None:
    """Return the first gate of the cycle that holds the next unit of the job; ``None`` if it has no waiting task."""
    job = core.jobs.get(job_id)
    if job is None or not (job.waiting or job.has_claimed or job.later or job.carried):
        return None
    veto = _first_gate(core, job)
    if veto.until is not None:
        veto = msgspec.structs.replace(veto, ends=time_of_day(core, veto.until))
    if not (job.queued and job.unit()) or veto.kind is Verdict.MOVING:
        return veto
    running = job.still_running()
    return msgspec.structs.replace(
        veto,
        together=tuple(dict.fromkeys(other.job.id for other, _ in job.unit())),
        together_on=core.cluster.names[running[0].node] if running else "",
        beside=job.upcoming in job.foreseen.homes,
    )


def _first_gate(core: Cycle, job: JobEntry) -> Veto:
    group = job.group
    if job.held:
        return _veto(job, Verdict.HELD)
    if job.behind is not None:
        return _veto(job, Verdict.AFTER, behind=core.jobs.get(job.behind))
    if job.carried and not (job.waiting or job.has_claimed or job.later):
        leader = job.carried[min(job.carried)]
        return msgspec.structs.replace(
            _veto(job, Verdict.TOGETHER, behind=leader), because=why_waiting(core, leader.job.id)
        )
    if job.shape.kinds and core.never_fits(job.job):
        return _never_in_parts(core, job)
    if core.never_fits(job.job):
        # A node that is away may come back.
        closed = _closed(core, job) if job.queued else ()
        return (
            _veto(job, Verdict.NO_NODE, closed=closed)
            if closed
            else _never(core, job, job.job.request, core.as_asked((job.job,), lasting_wants(job.job, core.dimensions)))
        )
    if job.has_claimed:
        claim = next(claim for claim in job.claims if claim.tasks)
        places = tuple(dict.fromkeys(core.cluster.names[f] for f, _ in claim.reservation.nodes))
        return _veto(job, Verdict.VICTIMS, until=claim.expected, places=places)
    if job.later and not job.queued and not (job.job.gang and job.attempts):
        times = job.later.values()
        return _veto(job, Verdict.BACKOFF, until=max(times) if job.job.gang else min(times))
    if not job.queued:
        if not job.full:
            return _veto(job, Verdict.GANG_RUNS)
        reached = Reached(group.name, "", len(job.attempts), job.most)
        return msgspec.structs.replace(_veto(job, Verdict.FULL), reached=reached)
    if job.companions and (veto := _of_unit(core, job)):
        return veto
    if group.counters and (limit := limit_reached(job)) is not None:
        return msgspec.structs.replace(_veto(job, Verdict.RUNNING_LIMIT), reached=limit)
    if core.must_cool(group) and not core.is_within_rights(job, Rights.ABOVE):
        cooling = _veto(job, Verdict.COOLING, until=group.cools_until())
        return msgspec.structs.replace(cooling, preempted_for=group.kept.preempted_for)
    if group.visited != core.pass_number or job.foreseen.arrived == core.pass_number:
        return _unvisited(core, job)
    return (
        _no_gap(core, job)
        or _forbidden(core, job)
        or _gate(core, job)
        or _kept(core, job)
        or _owed(core, job)
        or _placement(core, job)
    )


def _no_gap(core: Cycle, job: JobEntry) -> Veto | None:
    """Return the veto of a unit that advance reservations leave no time."""
    found = fits_in_no_gap(core, job) if core.advance_reservations else None
    if found is None:
        return None
    longest = longest_now(core, job)
    could = say_shorter(longest) if longest else "it needs a shorter time_limit"
    return msgspec.structs.replace(_veto(job, Verdict.NO_GAP, places=found.names, details=(could,)), gap=found.longest)


def _forbidden(core: Cycle, job: JobEntry) -> Veto | None:
    """Return the veto of a unit without room, which the guarantees of other groups leave none."""
    found = Guarantees(core.groups, core.cluster).against(job)
    if found is None or core.fit.copies_free(job.shape) >= job.shape.size or core.fit.waits_for_node(job.shape):
        return None
    return msgspec.structs.replace(_veto(job, Verdict.FORBIDDEN), bounded=_say_forbidden(core, job, found))


def _say_forbidden(core: Cycle, job: JobEntry, found: ForbiddenBy) -> str:
    """Return the sentence about a guarantee of others that leaves no room for a unit."""
    amount = partial(say_amount, core, found.measure)
    return (
        f"job {job.job.id} asks for {amount(found.asks)} at once, beyond the quota of group {found.group} "
        f"({amount(found.quota)}), and the guarantees of other groups leave {amount(found.left)} now; "
        "it starts when they leave enough, and jobs behind it go first until then; "
        "to start earlier, ask for less or raise ResourceQuota"
    )


def _kept(core: Cycle, job: JobEntry) -> Veto | None:
    """Return the veto of a unit that only advance reservations keep off the nodes with room."""
    reserved = reserved_from(core, job) if core.advance_reservations else None
    if reserved is None:
        return None
    kept = core.reservations.of(job)
    start = kept.start if kept is not None and kept.rows else core.plans.planned_start(job)
    return msgspec.structs.replace(_veto(job, Verdict.RESERVED_AHEAD, until=start), reserved=reserved)


def _owed(core: Cycle, job: JobEntry) -> Veto | None:
    """Return the veto of a unit that has room which another group would take back at once."""
    owed = core.taken_back_by(job)
    if owed is None or core.fit.copies_free(job.shape) < job.shape.size:
        return None
    return _veto(job, Verdict.OWED, behind=owed)


def _veto(
    job: JobEntry, kind: Verdict, *, never: bool = False, nodes: int = 0, lacking: tuple[tuple[str, int], ...] = (),
    clauses: tuple[tuple[str, int], ...] = (), behind: JobEntry | None = None, until: int | None = None,
    places: tuple[str, ...] = (), missing: tuple[Missing, ...] = (), bound: tuple[str, ...] = (),
    overloaded: Busy = NO_OVERLOAD,
    licences: tuple[LicenceShortage, ...] = (), closed: tuple[tuple[str, int], ...] = (), details: tuple[str, ...] = (),
) -> Veto:  # fmt: skip
    return Veto(
        kind=kind,
        job=job.job.id,
        group=job.group.name,
        never=never,
        lacking=lacking,
        clauses=clauses,
        nodes=nodes,
        behind=None if behind is None else behind.job.id,
        behind_group="" if behind is None else behind.group.name,
        until=until,
        places=places,
        missing=missing,
        bound=bound,
        overloaded=overloaded,
        licences=licences,
        closed=closed,
        details=details,
    )


def _of_unit(core: Cycle, job: JobEntry) -> Veto | None:
    """Return the veto of a unit of several jobs whose companions are being stopped, or that no node could ever hold."""
    running = job.still_running()
    if job.moving:
        places = (core.cluster.names[running[0].node],)
        return _veto(job, Verdict.MOVING, behind=running[0].job, places=places)
    unit = job.unit()
    if not unit or job.upcoming in job.foreseen.homes:
        return None
    request, wants = combination(
        core.relations.dependencies, job, unit, core.now, core.balance.utilisation, lasting=True
    )
    wants = core.unit_as_asked(job, wants)
    if core.fit.ever_fits(request, wants):
        return None
    # Companions may end or be cancelled, so it is not for ever.
    return msgspec.structs.replace(_never(core, job, request, wants), never=False)


def _never(core: Cycle, job: JobEntry, request: ResourceVector, wants: Wants) -> Veto:
    """Return the veto of a job, or of its unit with this request and these wants, that can never run on this
    cluster.
    """
    cluster = core.cluster
    if not core.fit.ever_fits(request):
        return _veto(job, Verdict.NEVER, never=True, nodes=cluster.usable_count)
    if few := core.relations.licences.never(wants.licences):
        return _veto(job, Verdict.LICENCE, never=True, licences=few)
    kind = Verdict.NEVER_TOGETHER if core.fit.ever_fits(request, wants) else Verdict.NEVER_SATISFIED
    there = np.flatnonzero(~np.array(cluster.lost, np.bool_))
    clauses = core.matching.never(wants, there)
    fit = there[core.matching.ever(wants)[there]]
    small = np.array([cluster.capacity_of(f) for f in fit.tolist()]).reshape(len(fit), cluster.k_count) < np.array(
        request
    )
    lacking = zip(core.dimensions.names, small.sum(axis=0).tolist(), strict=True)
    return _veto(
        job, kind, never=True, nodes=len(there), clauses=clauses, lacking=tuple(each for each in lacking if each[1]),
        missing=_missing(core, job, wants, clauses), bound=_bound(core, job, wants),
    )  # fmt: skip


def _never_in_parts(core: Cycle, job: JobEntry) -> Veto:
    """Return the veto of a gang of several kinds of tasks, one of which can never run on this cluster, or not all of
    them together.
    """
    found = never_part(core, job.job)
    if found is None:
        nodes, lasting = core.cluster.usable_count, lasting_wants(job.job, core.dimensions)
        return _veto(job, Verdict.NEVER_TOGETHER, never=True, nodes=nodes, bound=_bound(core, job, lasting))
    kind, wants = found
    veto = _never(core, job, kind.job.request, wants)
    return msgspec.structs.replace(veto, details=(f"this applies to {named(job.job, kind)}",))


def _unvisited(core: Cycle, job: JobEntry) -> Veto:
    """Return the veto of a group that the last pass did not reach."""
    blocked = core.last_blocked
    if blocked is not None and core.others_may_be_below_quota() and job.group.held_behind is not None:
        blocked = job.group.held_behind
    # The cycle asked for the first job of the group, which the others are behind.
    head = head_of(job.group)
    if blocked is not None and not below_quota_against(job.group, blocked.group, None if head is None else head.shape):
        return _behind_blocked(core, job, blocked)
    return _veto(job, Verdict.UNVISITED)


def _gate(core: Cycle, job: JobEntry) -> Veto | None:
    """Return the veto of a job that is not offered: the balance gate, a user's limit, or a job before it."""
    group = job.group
    if group.policy.limits_users and not core.within_limit(job):
        return msgspec.structs.replace(_veto(job, Verdict.USER_LIMIT), user=job.job.user)
    if group.limited and (bound := _bound_of_groups(core, job)):
        return bound
    if job.foreseen.held_since is not None and core.now < job.foreseen.held_since + core.options.gate_hold:
        return _veto(job, Verdict.GATE, until=job.foreseen.held_since + core.options.gate_hold)
    if group.policy.plans and group.counters and job not in that_may_start(group, group.policy.looked_at()):
        # Jobs before it will have the places that are left.
        return _veto(job, Verdict.BEHIND, behind=head_of(group))
    if job is group.offered or group.policy.looks_at(job) or not core.fit.within_reach(job.shape):
        return None
    if core.fit.waits_for_node(job.shape):
        return None
    return _veto(job, Verdict.BEHIND, behind=group.offered or head_of(group))


def _behind_blocked(core: Cycle, job: JobEntry, blocked: JobEntry | None) -> Veto:
    """Return the veto of a unit behind a blocked one; in a tree with the group that is not below its quota where their
    paths part.
    """
    parted = branches(job.group, blocked.group) if blocked is not None and job.group.parent is not None else None
    details = has_of_kinds(core, job) if job.queued else ()
    level = "" if parted is None or parted[0] is job.group else parted[0].name
    return msgspec.structs.replace(_veto(job, Verdict.QUOTA, behind=blocked, details=details), level=level)


def _bound_of_groups(core: Cycle, job: JobEntry) -> Veto | None:
    """Return the veto of a unit that would break a MaxQuota, or take what other groups keep for themselves."""
    bound = core.broken_bound(job)
    if bound is None:
        return None
    kind = Verdict.MAX_QUOTA if bound.group else Verdict.KEPT
    return msgspec.structs.replace(_veto(job, kind), bounded=_say_bound(core, job, bound))


def _say_bound(core: Cycle, job: JobEntry, bound: Bound) -> str:
    """Return the sentence about a bound of groups."""
    amount = partial(say_amount, core, bound.measure)
    if bound.group:
        return (
            f"group {bound.group} is at its MaxQuota of {amount(bound.most)}: {amount(bound.has)} used, "
            f"job {job.job.id} asks for {amount(bound.asks)}"
        )
    keeping = " and ".join(f"group {name} {amount(kept)}" for name, kept in bound.keeping)
    return (
        f"job {job.job.id} asks for {amount(bound.asks)} beyond the quota of group {job.group.name}, "
        f"and other groups do not lend what is free (Lendable): {keeping}"
    )


def say_amount(core: Books, measure: str, amount: int) -> str:
    """Return an amount of a group as text; without a ``measure`` in cores or servers."""
    if measure:
        return describe_measure(amount, measure, core.dimensions)
    accounting = core.options.accounting
    number = format_share(Decimal(amount) / SCALE[accounting])
    return f"{number} {UNIT[accounting][:-1] if number == '1' else UNIT[accounting]}"


def _placement(core: Cycle, job: JobEntry) -> Veto:
    """Return why no node was taken."""
    cluster = core.cluster
    nodes = cluster.usable_count
    planned = core.plans.planned_start(job)
    if planned is not None:
        return _veto(job, Verdict.PLANNED, until=planned)
    drain = job.foreseen.drain
    if drain and drain_due(job, core.now):
        return _veto(job, Verdict.DRAINING, places=tuple(dict.fromkeys(cluster.names[f] for f, _ in drain)))
    if job is job.group.offered and job.group.verdict is Verdict.QUOTA:
        return _behind_blocked(core, job, core.last_blocked)
    reserved = core.reservations.of(job)
    start = reserved.start if reserved is not None and reserved.rows else None
    if core.fit.waits_for_node(job.shape) and (closed := _closed(core, job)):
        return _veto(job, Verdict.NO_NODE, closed=closed, overloaded=_busy(core, job))
    kind = None
    clauses: tuple[tuple[str, int], ...] = ()
    if not core.fit.fitting(job.shape):
        kind = Verdict.NO_ROOM
    elif job.shape.size > 1 and core.fit.copies_free(job.shape) < job.shape.size:
        kind = Verdict.NO_ROOM_TOGETHER
    if kind is not None and job.shape.match is not None:
        clauses = core.matching.alone(job.shape, np.flatnonzero(cluster.nodes[: cluster.node_count, USABLE]))
        if clauses and kind is Verdict.NO_ROOM and not _some_satisfies(core, job.shape):
            kind = Verdict.UNSATISFIED
        if few := core.relations.licences.short(job.shape.wants.licences):
            return _veto(job, Verdict.LICENCE, nodes=nodes, clauses=clauses, licences=few)
        if clauses and start is None and job.relaxes_at < NEVER:
            start = job.relaxes_at
    if kind is not None:
        if job.shape.kinds:
            return _short(core, job, start)
        lacking = _lacking(core, job.shape)
        wants = job.shape.wants
        return _veto(
            job, kind, until=start, lacking=lacking, clauses=clauses, nodes=nodes,
            missing=_missing(core, job, wants, clauses), bound=_bound(core, job, wants), overloaded=_busy(core, job),
            details=(*core.matching.details(job.shape), *smallest_change(core, job), *has_of_kinds(core, job)),
        )  # fmt: skip
    blocker = _blocker(core, job)
    if blocker is None and core.advance_reservations and (beside := reserved_beside(core, job)) is not None:
        return msgspec.structs.replace(_veto(job, Verdict.RESERVED_AHEAD, until=start), reserved=beside)
    return _veto(job, Verdict.RESERVED, behind=blocker, until=start, nodes=nodes)


def _short(core: Cycle, job: JobEntry, start: int | None) -> Veto:
    """Return the veto of a gang of several kinds of tasks that do not have room together: what its first part without
    enough places lacks.
    """
    short = short_parts(core, job)
    nodes, bound = core.cluster.usable_count, _bound(core, job, job.shape.wants)
    if short.first is None:
        return _veto(job, Verdict.NO_ROOM_TOGETHER, until=start, nodes=nodes, bound=bound, details=short.told)
    usable = np.flatnonzero(core.cluster.nodes[: core.cluster.node_count, USABLE])
    clauses = core.matching.alone(short.first, usable) if short.first.match is not None else ()
    return _veto(
        job,
        Verdict.NO_ROOM_TOGETHER,
        until=start,
        lacking=_lacking(core, short.first),
        clauses=clauses,
        nodes=nodes,
        bound=bound,
        missing=_missing(core, job, short.first.wants, clauses),
        overloaded=_busy(core, job),
        details=short.told,
    )


def _blocker(core: Cycle, job: JobEntry) -> JobEntry | None:
    """Return a job for which room is kept that the unit would take."""
    failed = job.group.tried.start.state
    keepers = chain(
        (each.job for each in core.reservations.kept),
        (claim.job for claim in core.claims),
        core.turns.due(core.jobs, core.now),
        # Their reservations may have been dropped since, for groups that they do not bind.
        (core.jobs[number] for number in (failed[2] if failed is not None else ()) if number in core.jobs),
    )
    alive = (each for each in keepers if each is not job and core.jobs.get(each.job.id) is each)
    return next(alive, None) or core.plans.soonest_but(job)


def _closed(core: Cycle, job: JobEntry) -> tuple[tuple[str, int], ...]:
    """Count the nodes that are large enough and satisfy the lasting clauses, but take no tasks, by the reason.

    Empty if one that does take tasks is among them, or no node takes any.
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
        if cluster.lost[f]:
            why = "away"
        elif cluster.cordoned[f] is not None:
            why = "cordoned"
        else:
            why = "overloaded" if cluster.overloaded[f] is not None else "overcommitted"
        counts[why] = counts.get(why, 0) + 1
    return tuple(counts.items())


def _some_satisfies(core: Cycle, shape: Shape) -> bool:
    """Return whether a node that takes tasks satisfies all clauses of a shape, and so lacks only room for it."""
    cluster = core.cluster
    n = cluster.node_count
    return bool(np.any((cluster.lack[shape.row, :n] & EXCLUDED == 0) & (cluster.nodes[:n, USABLE] > 0)))


def _lacking(core: Cycle, shape: Shape) -> tuple[tuple[str, int], ...]:
    counts = zip(core.dimensions.names, core.fit.lacking(shape), strict=True)
    return tuple((name, count) for name, count in counts if count)


def _missing(core: Cycle, job: JobEntry, wants: Wants, clauses: tuple[tuple[str, int], ...]) -> tuple[Missing, ...]:
    texts = {text for text, _ in clauses}
    if not texts:
        return ()
    named = missing_in(core, (each for each in wants.hard if str(each) in texts), job.group.name)
    return (*named, *taken_ports(core, (text for text, _ in clauses)))


def _bound(core: Cycle, job: JobEntry, wants: Wants) -> tuple[str, ...]:
    if not job.job.gang or wants is NO_WANTS:
        return ()
    # Each kind of tasks asks for the same of all of them.
    return core.matching.binding(wants.kinds[0].wants if wants.kinds else wants)


def _busy(core: Cycle, job: JobEntry) -> Busy:
    """Return the overloaded nodes that are large enough and satisfy the static clauses."""
    nodes = core.loads.overloaded_nodes()
    if not nodes:
        return NO_OVERLOAD
    may = core.matching.ever(job.shape.wants)
    request = job.shape.request
    large = (all(x >= y for x, y in zip(core.cluster.capacity_of(f), request, strict=True)) for f in nodes)
    return core.loads.busy([f for f, fits in zip(nodes, large, strict=True) if fits and may[f]])


def sentence(veto: Veto) -> str:
    """Return the sentence for a veto."""
    return _with_whom(veto) + _sentence(veto) + (f": {sentence(veto.because)}" if veto.because else "")


def _with_whom(veto: Veto) -> str:
    """Return the beginning of the sentence for a unit of several jobs."""
    if not veto.together:
        return ""
    several = len(veto.together) > 1
    jobs = f"job{'s' if several else ''} {' and '.join(map(str, veto.together))}"
    depend = f"which depend{'' if several else 's'} on job {veto.job}"
    if veto.beside:
        return f"on {veto.together_on}, beside {jobs}, {depend}: "
    runs = f" and run{'' if several else 's'} on {veto.together_on}" if veto.together_on else ""
    return f"together with {jobs}, {depend}{runs}: "


def _sentence(veto: Veto) -> str:
    if not veto.nodes and veto.kind in (Verdict.NO_ROOM, Verdict.NO_ROOM_TOGETHER, Verdict.UNSATISFIED):
        return "; ".join(("every node is closed to new tasks", *say_busy(veto.overloaded)))
    blocker = f"job {veto.behind} of group {veto.behind_group}" if veto.behind is not None else "an earlier unit"
    counts = _counts(veto)
    added = veto.clauses and veto.kind in (Verdict.NO_ROOM_TOGETHER, Verdict.NEVER_TOGETHER, Verdict.LICENCE)
    with_ = ", with {bound}" if veto.bound and veto.kind in (Verdict.NO_ROOM_TOGETHER, Verdict.NEVER_TOGETHER) else ""
    template = _SENTENCES[veto.kind]
    if veto.kind is Verdict.NO_ROOM and veto.clauses:
        template = _NO_ROOM_AMONG
    elif veto.kind is Verdict.NO_ROOM_TOGETHER and not veto.lacking:
        template = _ROOM_FOR_SOME
    told = (template + with_ + " ({counts})" * bool(added)).format(
        group=f"{veto.level}, in which group {veto.group} is," if veto.level else veto.group,
        bounded=veto.bounded,
        blocker=blocker,
        places=", ".join(veto.places),
        nodes=veto.nodes,
        lacking=", ".join(f"{count} lack {name}" for name, count in veto.lacking) or "none lacks one dimension alone",
        clauses=" and ".join(text for text, _ in veto.clauses),
        counts=counts,
        bound=" and ".join(veto.bound),
        licences=too_few(veto.licences, never=veto.never),
        reached=_reached(veto),
        job=veto.job,
        user=veto.user,
        most=veto.reached.most if veto.reached is not None else 0,
        until=f" until {veto.ends}" if veto.ends else "",
        latest=f", until {veto.ends} at the latest" if veto.ends else "",
        later=f"at {veto.ends}" if veto.ends else "later",
        preempted_for="" if veto.preempted_for is None else f" for job {veto.preempted_for}",
        kept_free=f"{', '.join(veto.places)} {'is' if len(veto.places) == 1 else 'are'}",
        reservations=f"reservation{'s' * (len(veto.places) > 1)} {', '.join(veto.places)}",
        closed=", ".join(f"{count} {why}" for why, count in veto.closed),
        reserved=say_reserved(veto.reserved) if veto.reserved is not None else "",
        gap=readable(veto.gap),
    )
    return "; ".join((told, *veto.details, *map(say, veto.missing), *say_busy(veto.overloaded)))


def _reached(veto: Veto) -> str:
    """Return the sentence about a limit on running jobs."""
    limit = veto.reached
    if limit is None:
        return ""
    of = f"{limit.running:,} of at most {limit.most:,} job{'' if limit.most == 1 else 's'}"
    if limit.user:
        return f"{limit.user} runs {of} in group {limit.group} (MaxRunningJobsPerUser)"
    return f"group {limit.group} runs {of} (MaxRunningJobs)"


def too_few(licences: tuple[LicenceShortage, ...], *, never: bool) -> str:
    """Return the sentence about licences of which too few are free, or (``never``) exist."""
    if never:
        told = (
            f"{each.wanted} of licence {each.name} are needed, but only {each.total} exist"
            if each.total
            else f"there is no licence {each.name}"
            for each in licences
        )
    else:
        told = (
            f"waiting for {f'{each.wanted} of ' * (each.wanted > 1)}licence {each.name}: "
            f"{each.taken} of {each.total} in use"
            for each in licences
        )
    return "; ".join(told)


def _counts(veto: Veto) -> str:
    """Return the counts of nodes that clauses exclude, and of the others that lack something."""
    lacking = ", ".join(f"{count} lack {name}" for name, count in veto.lacking)
    named = veto.kind in (Verdict.UNSATISFIED, Verdict.NEVER_SATISFIED, Verdict.NO_ROOM)
    if named and len(veto.clauses) == 1:
        it = " satisfy it" if veto.kind is Verdict.NO_ROOM else ""
        unmet = f"{veto.clauses[0][1]} of {veto.nodes} nodes do not{it}"
    elif named and len(veto.clauses) <= len(_ORDINALS):
        each = [f"{count} the {word}" for (_, count), word in zip(veto.clauses, _ORDINALS, strict=False)]
        unmet = f"of {veto.nodes} nodes " + ", ".join(each).replace(" the", " do not satisfy the", 1)
    else:
        unmet = f"of {veto.nodes} nodes " + ", ".join(f"{count} do not satisfy {text}" for text, count in veto.clauses)
    return "; ".join(part for part in (unmet, lacking) if part)


_ORDINALS = ("first", "second", "third")
# Of NO_ROOM, where clauses exclude some of the nodes.
_NO_ROOM_AMONG = "no node that satisfies {clauses} has enough free ({counts})"
# Of NO_ROOM_TOGETHER, where no node lacks anything for one task.
_ROOM_FOR_SOME = "not enough nodes have enough free for all tasks of the gang; there is room for some of them only"
_SENTENCES = {
    Verdict.PLACED: "job {job} was placed",
    Verdict.HELD: "held until it is released (cress release {job})",
    Verdict.FULL: "limit reached: max_running = {most}",
    Verdict.AFTER: "waiting for {blocker} to end",
    Verdict.BACKOFF: "a task of job {job} failed and is retried {later}",
    Verdict.TOGETHER: "job {job} starts again on one node with {blocker}",
    Verdict.MOVING: (
        "{blocker}, which depends on job {job}, is being stopped on {places}; then both start on another node"
    ),
    Verdict.NEVER: "no node of this cluster is large enough for job {job}, even when empty",
    Verdict.NEVER_SATISFIED: "no node of this cluster could ever satisfy {clauses} ({counts})",
    Verdict.NEVER_TOGETHER: "all nodes of this cluster together are too small for all tasks of the gang at once",
    Verdict.VICTIMS: "preempted tasks are making room for job {job} on {places}{until}",
    Verdict.GANG_RUNS: "some tasks of the gang still run; the gang starts again as a whole when they have ended",
    Verdict.COOLING: (
        "group {group} may start nothing beyond its quota{until} while others wait for room: "
        "its tasks were preempted{preempted_for} (cooling-off)"
    ),
    Verdict.QUOTA: "{blocker} is blocked, and group {group} is not below its quota",
    Verdict.UNVISITED: "not yet considered by the scheduler",
    Verdict.MAX_QUOTA: "{bounded}",
    Verdict.KEPT: "{bounded}",
    Verdict.FORBIDDEN: "{bounded}",
    Verdict.RUNNING_LIMIT: "{reached}",
    Verdict.USER_LIMIT: "user {user} already uses the most that one user may in group {group} (user_limit_factor)",
    Verdict.GATE: (
        "starting job {job} now would leave unusable resources on every node, and another waiting job fits better "
        "(balance_gate{latest})"
    ),
    Verdict.BEHIND: "the policy of group {group} puts {blocker} first",
    Verdict.PLANNED: "job {job} is planned to start {later}; starting now would delay a job planned before job {job}",
    Verdict.DRAINING: "no running task is due to end in time; {kept_free} being kept free for job {job}",
    Verdict.LICENCE: "{licences}",
    Verdict.UNSATISFIED: "no node satisfies {clauses} ({counts})",
    Verdict.NO_ROOM: "no node has enough free; of {nodes} nodes {lacking}",
    Verdict.NO_NODE: "every node that could run job {job} is closed to new tasks ({closed})",
    Verdict.NO_ROOM_TOGETHER: "not enough nodes have enough free for all tasks of the gang; of {nodes} nodes {lacking}",
    Verdict.RESERVED_AHEAD: "{reserved}",
    Verdict.NO_GAP: "job {job} is longer than every gap between repetitions of {reservations} ({gap} at most)",
    Verdict.OWED: (
        "job {job} fits, but group {group} would be above its quota, and {blocker} could take the room back at once"
    ),
    Verdict.RESERVED: "job {job} fits, but would delay {blocker}",
}
