"""Export and restore: the whole state of a scheduler as a struct from which another one makes the same decisions.

The struct is in ``stored/state.py``; ``stored/versions.py`` converts states of earlier versions.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify
from itertools import takewhile

from cress.core.books import Books
from cress.core.charging import charge_of
from cress.core.claims import add_claim, void_claims
from cress.core.fragments.lease_state import export_leases, inside_of, parts_of, restore_leases, restore_use
from cress.core.future.timeline import ALL
from cress.core.groups.policies.backfill import BackfillPolicy
from cress.core.groups.policies.ranked_backfill import RankedBackfill
from cress.core.job_ends import deadline_of
from cress.core.jobs import Attempt, ClaimEntry, GroupState, Holder, JobEntry, Reservation, Stranger
from cress.core.kernels.holding import END
from cress.core.kernels.timeline import B_END
from cress.core.passes import Pass
from cress.core.placing.kinds import constraints_of
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Verdict
from cress.core.queueing import out_of_queue
from cress.core.stored.fields import (
    ForeseenJob,
    KeptAttempt,
    KeptClaim,
    KeptGroup,
    KeptJob,
    KeptReservation,
    KeptStranger,
    fields_of,
)
from cress.core.stored.state import (
    VERSION,
    Borrowed,
    CoreState,
    Foreseen,
    KeptReservations,
    StoredAttempt,
    StoredClaim,
    StoredJob,
    StoredNode,
    StoredPlan,
    StoredReservation,
    StoredStranger,
    Tried,
)
from cress.core.tables.devices import mask_of, widened
from cress.model.times import NEVER


def export_state(core: Books, last: Pass) -> CoreState:
    """Return everything on which later decisions depend; it shares no changing object with the scheduler."""
    cluster, relations, groups = core.cluster, core.relations, core.groups
    return CoreState(
        version=VERSION,
        dimensions=core.dimensions.custom,
        options=core.options,
        now=core.now,
        zone=str(groups.cluster_zone),
        groups_zone=groups.own_zone,
        wall_offset=groups.wall_offset,
        next_attempt=core.next_attempt,
        nodes=[
            StoredNode(
                node=spec,
                cordoned=cluster.cordoned[f],
                away=f in cluster.away,
                lost=cluster.lost[f],
                gone=tuple(cluster.gone.get(f, ())),
            )
            for f, spec in enumerate(cluster.specs)
        ],
        groups=groups.configured,
        kept={
            group.name: KeptGroup(**fields_of(group.kept, KeptGroup)) for group in groups if group.kept != KeptGroup()
        },
        jobs=[_job(job) for job in core.jobs.values()],
        attempts=[_attempt(core, attempt) for attempt in core.attempts.values()],
        others=[_stranger(core, each) for each in (*core.strangers.values(), *core.foreign_use.values())],
        claims=[
            StoredClaim(**fields_of(claim, KeptClaim), reservation=_reservation(core, claim.reservation))
            for claim in core.claims
        ],
        lending=export_leases(core),
        borrowed=_borrowed(core),
        mix=core.mix.export(),
        advance_reservations=tuple(kept.spec for kept in core.advance_reservations.by_name.values()),
        ending=dict(sorted(core.advance_reservations.ending.items())),
        to_stop=dict(core.to_stop),
        licences=dict(relations.licences.counts),
        neighbours=relations.neighbours,
        distances=relations.distances,
        loads=core.loads.export(),
        data=relations.locations.export(),
        strangers=[(f, tuple(seen)) for f in range(cluster.node_count) if (seen := relations.ports.seen(f))],
        foreseen=_foreseen(core, last),
    )


def restore_state(core: Books, last: Pass, state: CoreState) -> None:
    """Fill new books, made with the options and dimensions of ``state``, and the ``last`` pass."""
    cluster, foreseen = core.cluster, state.foreseen or Foreseen()
    _restore_nodes(core, state)
    core.relations.licences.counts = dict(state.licences)
    core.now = state.now
    core.groups.tree.advance(core.now, ())
    core.groups.wall_offset = state.wall_offset
    core.groups.apply(state.groups, core.now, state.groups_zone)
    for name, kept in state.kept.items():
        core.groups.get(name).kept = KeptGroup(**fields_of(kept, KeptGroup))
    for stored in state.jobs:
        _restore_job(core, stored, foreseen.jobs.get(stored.job.id, ForeseenJob()))
    heapify(core.later)
    _restore_units(core, state)
    restore_leases(core, state.lending)
    for attempt in state.attempts:
        _restore_attempt(core, attempt)
    for stranger in state.others:
        _restore_stranger(core, stranger)
    core.advance_reservations.offset = core.groups.wall_offset
    for spec in state.advance_reservations:
        core.reserve_in_advance(spec)
    core.advance_reservations.ending = dict(state.ending)
    core.expected.count_limits(foreseen.limits_count)
    for f in cluster.overdrawn_nodes():
        cluster.set_overdrawn(f, True)
    core.loads.restore(state.loads)
    for job in core.jobs.values():
        if out_of_queue(job) is None:
            core.queue(job)
    for claim in state.claims:
        _restore_claim(core, claim)
    core.next_attempt = state.next_attempt
    core.mix.restore(state.mix)
    core.to_stop = dict(state.to_stop)
    _restore_foreseen(core, last, foreseen)
    _restore_borrowed(core, state.borrowed)
    for group in core.groups:
        core.groups.reorder(group)
    if state.foreseen is None:
        _weigh_clauses(core)
    for f in list(core.loads.over):
        # New options may have given the node a reservation.
        void_claims(core, f)


def _weigh_clauses(core: Books) -> None:
    """Compute which clauses of waiting jobs are soft now."""
    for job in core.jobs.values():
        if job.constraints is not None and (job.queued or job.claims):
            core.shapes.look_at(job)


# --- nodes and groups ------------------------------------------------------------------------------------------------


def _restore_nodes(core: Books, state: CoreState) -> None:
    cluster = core.cluster
    core.relations.set_topology(state.neighbours, state.distances)
    for stored in state.nodes:
        f = cluster.add_node(stored.node)
        cluster.cordon(f, stored.cordoned, away=stored.away)
        if stored.gone:
            cluster.set_gone(f, cluster.devices[f], stored.gone)
        if stored.lost:
            cluster.lose_node(f)
    # No job waits yet that would have to be matched again.
    core.relations.choices.changed = False
    for data, places, problem in state.data:
        core.relations.locations.told(data, places, problem)
    for f, seen in state.strangers:
        core.relations.ports.see(f, seen)


def _borrowed(core: Books) -> Borrowed | None:
    """Return the past borrowing of groups, if it counts."""
    clock = core.groups.tree.clock
    if clock is None:
        return None
    core.groups.tree.remember()
    nodes = (*core.groups, *core.groups.tree.upwards)
    return Borrowed(
        length=clock.length, groups={node.name: node.memory.export() for node in nodes if node.memory is not None}
    )


def _restore_borrowed(core: Books, state: Borrowed | None) -> None:
    tree = core.groups.tree
    if state is not None and tree.clock is not None:
        for node in (*core.groups, *tree.upwards):
            if node.memory is not None and node.name in state.groups:
                node.memory.restore(state.groups[node.name], state.length)
    tree.recount(core.groups)


# --- jobs ------------------------------------------------------------------------------------------------------------


def _job(job: JobEntry) -> StoredJob:
    fields = fields_of(job, KeptJob)
    fields["waits"] = dict(job.waits)
    fields["was_on"] = dict(sorted(job.was_on.items()))
    return StoredJob(
        **fields,
        job=job.job,
        group=job.group.name,
        companions=[
            (task, [(other.job.id, its_task) for other, its_task in others]) for task, others in job.companions.items()
        ],
    )


def _restore_job(core: Books, stored: StoredJob, foreseen: ForeseenJob) -> None:
    spec = stored.job
    constraints = constraints_of(spec, core.dimensions)
    job = JobEntry(
        job=spec,
        group=core.groups.get(stored.group),
        shape=core.shapes.first(spec, constraints),
        constraints=constraints,
        foreseen=ForeseenJob(**fields_of(foreseen, ForeseenJob)),
        **fields_of(stored, KeptJob),
    )
    job.waits = OrderedDict(stored.waits)
    job.deadline = deadline_of(core, job)
    core.later += ((time, spec.id, task) for task, time in job.later.items() if time < NEVER)
    core.add_job(job)


def _restore_units(core: Books, state: CoreState) -> None:
    running = {(attempt.job, attempt.task) for attempt in state.attempts}
    for stored in state.jobs:
        job = core.jobs[stored.job.id]
        if stored.companions:
            core.units.leaders[job.job.id] = job
        for task, others in stored.companions:
            job.companions[task] = [(core.jobs[number], its_task) for number, its_task in others]
            for other, its_task in job.companions[task]:
                if (other.job.id, its_task) in running:
                    other.beside[its_task] = job
                    core.units.rejoining[job.job.id] = job
                else:
                    other.carried[its_task] = job


def _restore_claim(core: Books, stored: StoredClaim) -> None:
    job = core.jobs[stored.reservation.job]
    if job.job.gang and stored.tasks and job.queued:
        # A gang that starts in part offers nothing else until the claimed tasks have started.
        core.dequeue(job)
        size = sum(count for _, count in stored.reservation.nodes)
        core.shapes.reshape(job, core.shapes.shape_of(job, size, stored.tasks))
    if (job.job.parts or job.waits_whole) and not job.queued:
        # Its places are those of its kinds of tasks, or of all members that start together.
        size = sum(count for _, count in stored.reservation.nodes) if job.waits_whole else job.shape.size
        core.shapes.reshape(job, core.shapes.shape_of(job, size, stored.tasks))
    reservation = _reservation_of(core, stored.reservation)
    claim = ClaimEntry(
        job=job,
        reservation=reservation,
        charge=charge_of(core.cluster, job, reservation.nodes),
        shape=job.shape,
        **fields_of(stored, KeptClaim),
    )
    add_claim(core, claim)
    _book(core, reservation, stored.reservation, claim.shape)


# --- what runs -------------------------------------------------------------------------------------------------------


def _attempt(core: Books, attempt: Attempt) -> StoredAttempt:
    devices, held = mask_of(core.cluster, attempt.slot), _held(core, attempt)
    # Its exclusive disks may have changed since.
    as_asked = held == attempt.amounts and not devices[1]
    return StoredAttempt(
        **fields_of(attempt, KeptAttempt),
        job=attempt.job.job.id,
        devices=devices,
        end=attempt.expected if core.expected.limits_count else int(core.cluster.leases[attempt.slot, END]),
        held=None if as_asked else held,
        parts=parts_of(core, attempt),
        inside=inside_of(attempt),
    )


def _restore_attempt(core: Books, stored: StoredAttempt) -> None:
    job, f = core.jobs[stored.job], stored.node
    mask, alone = stored.devices
    amounts = stored.amounts if stored.held is None else stored.held
    if alone and stored.held is None:
        amounts = widened(core.cluster, f, amounts, mask)
    slot = core.leases.hold_amounts(f, amounts, stored.end, mask, alone)
    attempt = Attempt(job=job, slot=slot, expected=stored.end, **fields_of(stored, KeptAttempt))
    core.enter_attempt(attempt)
    restore_use(core, attempt, stored)


def _held(core: Books, holder: Holder) -> tuple[int, ...]:
    return tuple(core.cluster.held_in(holder.slot).tolist())


def _stranger(core: Books, stranger: Stranger) -> StoredStranger:
    return StoredStranger(
        **fields_of(stranger, KeptStranger),
        devices=mask_of(core.cluster, stranger.slot),
        held=_held(core, stranger),
        end=int(core.cluster.leases[stranger.slot, END]),
    )


def _restore_stranger(core: Books, stored: StoredStranger) -> None:
    slot = core.leases.hold_amounts(stored.node, stored.held, stored.end, *stored.devices)
    stranger = Stranger(slot=slot, **fields_of(stored, KeptStranger))
    core.relations.ports.take(stranger.node, stranger.ports)
    core.set_holder(slot, stranger)
    if stranger.id:
        core.strangers[stranger.id] = stranger
    else:
        core.foreign_use[stranger.node] = stranger


# --- reservations ----------------------------------------------------------------------------------------------------


def _lives(core: Books, reservation: Reservation) -> bool:
    return core.jobs.get(reservation.job.job.id) is reservation.job


def _reservations(core: Books) -> KeptReservations:
    # Reservations behind that of a removed job are made again, here and in the original.
    kept = list(takewhile(lambda reservation: _lives(core, reservation), core.reservations.kept))
    # Without reservations the time of the check does not matter.
    return KeptReservations(
        loosened=core.reservations.loosened if kept else -1,
        expired_at=core.reservations.expired_at,
        kept=[_reservation(core, reservation) for reservation in kept],
    )


def _reservation(core: Books, reservation: Reservation) -> StoredReservation:
    return StoredReservation(
        **fields_of(reservation, KeptReservation),
        job=reservation.job.job.id,
        end=int(core.timeline.table[reservation.rows[0], B_END]) if reservation.rows else NEVER,
        known=all(core.cluster.node_stamp(f) <= reservation.stamp for f, _ in reservation.nodes),
    )


def _restore_reservation(core: Books, stored: StoredReservation, view: int = ALL) -> Reservation:
    reservation = _reservation_of(core, stored, view)
    _book(core, reservation, stored, reservation.job.shape)
    return reservation


def _reservation_of(core: Books, stored: StoredReservation, view: int = ALL) -> Reservation:
    # A confirmed reservation is not checked again, even if others have been made since.
    stamp = core.cluster.stamp if stored.known else -1
    fields = {**fields_of(stored, KeptReservation), "in_force": False}
    return Reservation(job=core.jobs[stored.job], stamp=stamp, view=view, **fields)


def _book(core: Books, reservation: Reservation, stored: StoredReservation, shape: Shape) -> None:
    """Book a restored reservation as before, for copies of ``shape``."""
    if reservation.nodes:
        duration = NEVER if stored.end >= NEVER else stored.end - stored.start
        core.timeline.reserve(reservation, duration, shape)
    core.timeline.enforce(reservation, stored.in_force)


# --- what is only foreseen -------------------------------------------------------------------------------------------


def _foreseen(core: Books, last: Pass) -> Foreseen:
    cluster, nothing = core.cluster, ForeseenJob()
    return Foreseen(
        cursor=core.balance.cursor,
        loosened=cluster.loosened,
        limits_count=core.expected.limits_count,
        wake=last.wake,
        units_in_doubt=core.units.in_doubt,
        passes=core.pass_number,
        last_blocked=None if last.last_blocked is None else last.last_blocked.job.id,
        turns=list(core.turns.since.items()),
        jobs={
            number: ForeseenJob(**fields_of(job.foreseen, ForeseenJob))
            for number, job in core.jobs.items()
            if job.foreseen != nothing
        },
        groups={group.name: _tried(core, group) for group in core.groups},
        reservations=_reservations(core),
        plans={
            name: StoredPlan(
                loosened=plan.loosened,
                freer=sorted(core.plans.changed_since(plan)),
                anew=plan.usable != cluster.usable_changes,
                units=[
                    _reservation(core, unit) for units in plan.units.values() for unit in units if _lives(core, unit)
                ],
            )
            for name, plan in core.plans.by_group.items()
        },
    )


def _restore_foreseen(core: Books, last: Pass, foreseen: Foreseen) -> None:
    cluster = core.cluster
    core.reservations.loosened = foreseen.reservations.loosened
    core.reservations.expired_at = foreseen.reservations.expired_at
    core.reservations.kept = [_restore_reservation(core, stored) for stored in foreseen.reservations.kept]
    for name, stored in foreseen.plans.items():
        plan = core.plans.plan_of(name)
        plan.freer.update(stored.freer)
        plan.loosened = stored.loosened
        plan.stamp = cluster.stamp
        plan.usable = -1 if stored.anew else cluster.usable_changes
        for unit in stored.units:
            reservation = _restore_reservation(core, unit, plan.view)
            plan.units.setdefault(reservation.job.job.id, []).append(reservation)
    cluster.loosened = foreseen.loosened
    core.balance.cursor = foreseen.cursor
    core.balance.refresh()
    core.units.in_doubt = foreseen.units_in_doubt
    last.wake = core.now if foreseen.wake is None else foreseen.wake
    core.pass_number = foreseen.passes
    last.last_blocked = _job_of(core, foreseen.last_blocked)
    core.turns.since = {job: since for job, since in foreseen.turns if job in core.jobs}
    for name, tried in foreseen.groups.items():
        _restore_tried(core, core.groups.get(name), tried)


def _job_of(core: Books, number: int | None) -> JobEntry | None:
    return None if number is None else core.jobs.get(number)


def _tried(core: Books, group: GroupState) -> Tried:
    """Return the results of the group's last tries, so that a copy repeats none that the original would skip."""
    policy, victims = group.policy, group.tried.victims.state
    tried = Tried(
        visited=group.visited,
        verdict=group.verdict.value,
        held_behind=_id_of(core, group.held_behind),
        offered=_id_of(core, group.offered),
        start=group.tried.start.state,
    )
    if victims is not None and victims[1] == core.cluster.stamp:
        # A copy has a different stamp.
        tried.victims, tried.victims_again = (victims[0], *victims[2:]), group.tried.victims.until
    fragments = group.tried.fragments.state
    if fragments is not None and fragments[1:3] == (core.arrivals, core.pool.stamp):
        # As above. A try that a copy repeats would also put reservations in force.
        tried.fragments, tried.fragments_again = (fragments[0], *fragments[3:]), group.tried.fragments.until
    if isinstance(policy, RankedBackfill):
        tried.order_at = policy.order_time()
    if isinstance(policy, BackfillPolicy):
        tried.memo, bounds = policy.memory()
        # Rows have other numbers in a copy, so a waiting job with the shape identifies it.
        waiting: dict[int, int] = {}
        if bounds:
            for job in policy.queue:
                waiting.setdefault(job.shape.row, job.job.id)
        tried.bounds = sorted((waiting[row], bound) for row, bound in bounds)
    return tried


def _id_of(core: Books, job: JobEntry | None) -> int | None:
    return None if job is None or core.jobs.get(job.job.id) is not job else job.job.id


def _restore_tried(core: Books, group: GroupState, tried: Tried) -> None:
    policy = group.policy
    group.visited = tried.visited
    group.verdict = Verdict(tried.verdict)
    group.offered, group.held_behind = _job_of(core, tried.offered), _job_of(core, tried.held_behind)
    group.tried.start.state = tried.start
    if tried.victims is not None:
        job, loosened, beside = tried.victims
        group.tried.victims.note((job, core.cluster.stamp, loosened, beside), tried.victims_again)
    if tried.fragments is not None:
        job, loosened, beside = tried.fragments
        group.tried.fragments.note((job, core.arrivals, core.pool.stamp, loosened, beside), tried.fragments_again)
    if isinstance(policy, RankedBackfill) and tried.order_at is not None:
        policy.order_as_at(tried.order_at)
    if isinstance(policy, BackfillPolicy) and tried.bounds is not None:
        jobs = ((core.jobs[number], bound) for number, bound in tried.bounds)
        # Earlier releases also named jobs of other groups.
        policy.remember(tried.memo, [(job.shape.row, bound) for job, bound in jobs if job.group is group])
