"""Export and restore: the whole state of a scheduler as plain data, from which another one makes the same decisions.

Caches (fit rows, bounds, failed tries) are left out: they are computed again.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from heapq import heapify
from itertools import takewhile
from typing import Any, TypeAlias, TypeVar

import msgspec

from cress.core.cycle import Cycle
from cress.core.fragments.lease_state import export_leases, export_use, restore_leases, restore_use
from cress.core.future.timeline import ALL
from cress.core.groups.policies.backfill import BackfillPolicy
from cress.core.groups.policies.ranked_backfill import RankedBackfill
from cress.core.jobs import Attempt, ClaimEntry, GroupState, Holder, JobEntry, Reservation, Stranger
from cress.core.kernels.holding import AMOUNTS, END
from cress.core.kernels.timeline import B_END
from cress.core.placing.kinds import constraints_of
from cress.core.placing.mix import Likely
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Verdict
from cress.core.tables.data_locations import Places
from cress.core.tables.devices import mask_of, widened
from cress.model.advance import AdvanceReservation
from cress.model.decisions import LeasePart
from cress.model.distances import Distance
from cress.model.estimates import RunEstimate
from cress.model.group import Group
from cress.model.job import Job
from cress.model.node import Device, Node
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import NEVER
from cress.model.zones import zone_of

State: TypeAlias = dict[str, Any]
_Kind = TypeVar("_Kind", bound=Cycle)

VERSION = 4


def export_state(core: Cycle) -> State:
    """Return everything that later decisions depend on, as dicts, lists, strings and numbers."""
    cluster = core.cluster
    plain = msgspec.to_builtins
    return {
        "version": VERSION,
        "dimensions": list(core.dimensions.custom),
        "options": asdict(core.options),
        "now": core.now,
        "zone": str(core.groups.cluster_zone),
        "groups_zone": core.groups.own_zone,
        "next_attempt": core.next_attempt,
        "wall_offset": core.groups.wall_offset,
        "cursor": core.balance.cursor,
        "mix": core.mix.export(),
        "loosened": cluster.loosened,
        "limits_count": core.limits_count,
        "wake": core.wake,
        "nodes": [
            {
                "node": plain(spec),
                "cordoned": cluster.cordoned[f],
                "away": f in cluster.away,
                "lost": cluster.lost[f],
                "gone": plain(cluster.gone.get(f, ())),
            }
            for f, spec in enumerate(cluster.specs)
        ],
        "groups": plain(core.groups.configured),
        "preempted_at": {group.name: group.preempted_at for group in core.groups if group.preempted_at is not None},
        "preempted_for": {group.name: group.preempted_for for group in core.groups if group.preempted_for is not None},
        "jobs": [_job(job) for job in core.jobs.values()],
        "attempts": [_attempt(core, attempt) for attempt in core.attempts.values()],
        "others": [_stranger(core, each) for each in (*core.strangers.values(), *core.foreign_use.values())],
        "claims": [
            {
                "tasks": list(claim.tasks),
                "reservation": _reservation(core, claim.reservation),
                "victims": list(claim.victims),
                "expected": claim.expected,
                "since": claim.since,
                "leased": plain(claim.leased),
                "moved": claim.moved,
                "moves": claim.moves,
            }
            for claim in core.claims
        ],
        "lending": export_leases(core),
        "borrowed": _borrowed(core),
        "reservations": _reservations(core),
        "plans": {
            name: {
                "loosened": plan.loosened,
                "freer": sorted(core.plans.changed_since(plan)),
                "anew": plan.usable != cluster.usable_changes,
                "units": [
                    _reservation(core, unit) for units in plan.units.values() for unit in units if _lives(core, unit)
                ],
            }
            for name, plan in core.plans.by_group.items()
        },
        "memory": {
            "passes": core.pass_number,
            "last_blocked": None if core.last_blocked is None else core.last_blocked.job.id,
            "groups": {group.name: _memory(core, group) for group in core.groups},
            "turns": [list(each) for each in core.turns.since.items()],
        },
        "advance_reservations": [plain(kept.spec) for kept in core.advance_reservations.by_name.values()],
        "ending": [list(each) for each in sorted(core.advance_reservations.ending.items())],
        "to_stop": [list(each) for each in core.to_stop.items()],
        "units_in_doubt": core.units_in_doubt,
        "licences": dict(core.relations.licences.counts),
        "racks": list(core.relations.racks.names),
        "neighbours": plain(core.relations.racks.neighbours),
        "distances": plain(core.relations.distances),
        "loads": core.loads.export(),
        "data": plain(core.relations.locations.export()),
        "strangers": [[f, list(seen)] for f in range(cluster.node_count) if (seen := core.relations.ports.seen(f))],
    }


# Foreseen or cached values: two schedulers in the same state may differ in them.
_FORESEEN = (
    "cursor", "loosened", "limits_count", "wake", "reservations", "plans", "memory", "units_in_doubt",
)  # fmt: skip
_FORESEEN_OF_JOBS = ("soft", "held_since", "arrived", "drain", "homes")


def promised_state(core: Cycle) -> State:
    """Return all that is promised: equal for schedulers that applied the same facts."""
    state = export_state(core)
    for name in _FORESEEN:
        del state[name]
    for job in state["jobs"]:
        for name in _FORESEEN_OF_JOBS:
            del job[name]
        job["again"].sort()
    return state


def restore_state(core: Cycle, state: State) -> None:
    """Fill a new scheduler, made with the options and dimensions of ``state``."""
    cluster = core.cluster
    _restore_nodes(core, state)
    core.relations.licences.counts = dict(state["licences"])
    core.now = state["now"]
    core.groups.tree.advance(core.now, ())
    core.groups.wall_offset = state["wall_offset"]
    groups = msgspec.convert(state["groups"], tuple[Group, ...])
    core.groups.apply(groups, core.now, state.get("groups_zone", ""))
    for name, at in state["preempted_at"].items():
        core.groups.get(name).preempted_at = at
    # Earlier releases did not keep it.
    for name, job in state.get("preempted_for", {}).items():
        core.groups.get(name).preempted_for = job
    for entry in state["jobs"]:
        _restore_job(core, entry)
    heapify(core.later)
    _restore_units(core, state)
    if "lending" in state:
        # Releases before this one had no leases of workloads.
        restore_leases(core, state["lending"])
    for entry in state["attempts"]:
        _restore_attempt(core, entry)
    for entry in state["others"]:
        _restore_stranger(core, entry)
    _restore_advance_reservations(core, state)
    core.count_limits(state.get("limits_count", False))
    for f in cluster.overdrawn_nodes():
        cluster.set_overdrawn(f, True)
    core.loads.restore(state["loads"])
    for job in core.jobs.values():
        if core.can_wait(job):
            core.queue(job)
    _restore_claims(core, state)
    kept = state["reservations"]
    core.reservations.loosened = kept["loosened"]
    core.reservations.kept = [_restore_reservation(core, entry) for entry in kept["kept"]]
    for name, entry in state["plans"].items():
        plan = core.plans.plan_of(name)
        plan.freer.update(entry["freer"])
        plan.loosened = entry["loosened"]
        plan.stamp = cluster.stamp
        plan.usable = -1 if entry["anew"] else cluster.usable_changes
        for unit in entry["units"]:
            reservation = _restore_reservation(core, unit, plan.view)
            plan.units.setdefault(reservation.job.job.id, []).append(reservation)
    cluster.loosened = state["loosened"]
    core.next_attempt = state["next_attempt"]
    core.balance.cursor = state["cursor"]
    _restore_mix(core, state.get("mix"))
    core.balance.refresh()
    core.to_stop = dict(state["to_stop"])
    core.units_in_doubt = state["units_in_doubt"]
    core.wake = state["wake"]
    _restore_memory(core, state["memory"])
    _restore_borrowed(core, state.get("borrowed"))
    for group in core.groups:
        core.groups.reorder(group)
    for f in list(core.loads.over):
        # Under new options the node may be one with a reservation.
        core.void_claims(f)


def _restore_advance_reservations(core: Cycle, state: State) -> None:
    """Restore them; releases before this one knew none."""
    core.advance_reservations.offset = core.groups.wall_offset
    for spec in msgspec.convert(state.get("advance_reservations", ()), tuple[AdvanceReservation, ...]):
        core.reserve_in_advance(spec)
    core.advance_reservations.ending = dict(state.get("ending", ()))


def _borrowed(core: Cycle) -> State | None:
    """Return what groups borrowed lately, if that counts."""
    clock = core.groups.tree.clock
    if clock is None:
        return None
    core.groups.tree.remember()
    nodes = (*core.groups, *core.groups.tree.upwards)
    return {
        "length": clock.length,
        "groups": {node.name: node.memory.export() for node in nodes if node.memory is not None},
    }


def _restore_borrowed(core: Cycle, state: State | None) -> None:
    tree = core.groups.tree
    if state is not None and tree.clock is not None:
        for node in (*core.groups, *tree.upwards):
            if node.memory is not None and node.name in state["groups"]:
                node.memory.restore(state["groups"][node.name], state["length"])
    tree.recount(core.groups)


def _restore_mix(core: Cycle, mix: State | None) -> None:
    if mix is not None:
        # Releases before this one learned none.
        arrived, likely = (msgspec.convert(mix[name], list[Likely]) for name in ("arrived", "likely"))
        core.mix.restore(arrived, mix["fresh"], likely)


def _restore_nodes(core: Cycle, state: State) -> None:
    cluster = core.cluster
    # Racks keep their numbers, although nodes may have left the first ones.
    core.relations.racks.set_neighbours(msgspec.convert(state["neighbours"], tuple[tuple[str, str], ...]))
    # Releases before this one had no distances.
    core.relations.set_distances(msgspec.convert(state.get("distances", ()), tuple[Distance, ...]))
    for name in state["racks"]:
        core.relations.racks.number(name)
    for entry in state["nodes"]:
        f = cluster.add_node(msgspec.convert(entry["node"], Node))
        cluster.cordon(f, entry["cordoned"], away=entry.get("away", False))
        if entry.get("gone"):
            cluster.set_gone(f, cluster.devices[f], msgspec.convert(entry["gone"], tuple[Device, ...]))
        if entry["lost"]:
            cluster.lose_node(f)
    # Nobody waits yet who would have to be asked again.
    core.relations.choices.changed = False
    for data, places, problem in msgspec.convert(state["data"], list[tuple[str, Places | None, str]]):
        core.relations.locations.told(data, places, problem)
    for f, seen in state["strangers"]:
        core.relations.ports.see(f, seen)


def _from_3(state: State) -> State:
    """Convert version 3, which listed the stops that were not proposed yet."""
    outbox = state.pop("outbox")
    return {
        **state,
        "others": [],
        "to_stop": [[each["attempt"], state["now"]] for each in outbox],
        "units_in_doubt": False,
    }


# By version: the function that converts to the next one.
_CONVERTERS = {3: _from_3}


def converted(state: State) -> State:
    """Return the state in the current version; ``ValueError`` if it cannot be converted."""
    version = state.get("version")
    state = dict(state)
    while version in _CONVERTERS:
        state = _CONVERTERS[version](state)
        version += 1
    if version != VERSION:
        raise ValueError(
            f"a state of version {state['version']} cannot be restored, only versions {min(_CONVERTERS)} to {VERSION}"
        )
    return state


def options_of(state: State) -> Options:
    """Return the options that a state was made with; those that its release did not have keep their defaults."""
    values = dict(state["options"])
    for each in fields(Options):
        if isinstance(values.get(each.name), (list, tuple)):
            values[each.name] = tuple(
                tuple(item) if isinstance(item, (list, tuple)) else item for item in values[each.name]
            )
    return Options(**values)


def restored(kind: type[_Kind], state: State) -> _Kind:
    """Return a scheduler that continues from an exported ``state``."""
    state = converted(state)
    core = kind(Dimensions(tuple(state["dimensions"])), options_of(state), zone_of(state["zone"]))
    restore_state(core, state)
    return core


def _job(job: JobEntry) -> State:
    return {
        "job": msgspec.to_builtins(job.job),
        "group": job.group.name,
        "submitted": job.submitted,
        "since": job.queued_at,
        "soft": job.soft,
        "next_task": job.next_task,
        "again": list(job.again),
        "waits": [list(each) for each in job.waits.items()],
        "later": [[task, time] for task, time in job.later.items()],
        "companions": [
            [task, [[other.job.id, its_task] for other, its_task in others]] for task, others in job.companions.items()
        ],
        "homes": [list(each) for each in job.homes.items()],
        "was_on": [list(each) for each in sorted(job.was_on.items())],
        "held": job.held,
        "behind": job.behind,
        "waiting": job.waiting,
        "estimate": None if job.estimate is None else msgspec.to_builtins(job.estimate),
        "overdue_at": job.overdue_at,
        "cancelled": job.cancelled,
        "held_since": job.held_since,
        "would_preempt": job.would_preempt,
        "arrived": job.arrived,
        "drain": [list(place) for place in job.drain],
    }


def _restore_job(core: Cycle, entry: State) -> None:
    spec = msgspec.convert(entry["job"], Job)
    group = core.groups.get(entry["group"])
    constraints = constraints_of(spec, core.dimensions)
    shape = core.first_shape(spec, constraints)
    job = JobEntry(spec, group, shape, entry["submitted"], constraints=constraints)
    # Releases before this one estimated nothing.
    if entry.get("estimate") is not None:
        job.expect(msgspec.convert(entry["estimate"], RunEstimate))
    job.overdue_at = entry.get("overdue_at", NEVER)
    job.deadline = core.deadline_of(job)
    for name in (
        "soft", "next_task", "waiting", "cancelled", "held", "behind", "held_since", "would_preempt", "arrived",
    ):  # fmt: skip
        setattr(job, name, entry[name])
    job.queued_at = entry["since"]
    job.later = dict(entry["later"])
    core.later += ((time, spec.id, task) for task, time in job.later.items())
    job.again = list(entry["again"])
    if not spec.gang:
        job.waits.update(entry.get("waits") or [(task, job.queued_at) for task in sorted(job.again)])
    job.drain = [(f, count) for f, count in entry["drain"]]
    job.homes = dict(entry.get("homes", ()))
    job.was_on = dict(entry.get("was_on", ()))
    core.add_job(job)


def _restore_claims(core: Cycle, state: State) -> None:
    for entry in state["claims"]:
        claimant = core.jobs[entry["reservation"]["job"]]
        if claimant.job.parts and not claimant.queued:
            # Its places are those of its kinds of tasks.
            core.reshape(claimant, core.shape_of(claimant, claimant.shape.size, entry["tasks"]))
        reservation = _reservation_of(core, entry["reservation"])
        job = reservation.job
        charge = core.charge_of(job, reservation.nodes)
        # Releases before this one kept no times of units and tasks.
        since = entry.get("since", job.queued_at)
        leased = msgspec.convert(entry.get("leased", ()), tuple[LeasePart, ...])
        claim = ClaimEntry(
            job, list(entry["tasks"]), reservation, charge, list(entry["victims"]), entry["expected"], since, leased,
            entry.get("moved"), entry.get("moves", False),
        )  # fmt: skip
        core.add_claim(claim)
        _book(core, reservation, entry["reservation"], claim.shape)


def _restore_units(core: Cycle, state: State) -> None:
    running = {(entry["job"], entry["task"]) for entry in state["attempts"]}
    for entry in state["jobs"]:
        _restore_companions(core, entry, running)
    # Releases before this one listed the tasks that were lost since the last pass.
    for number, task, f in state.get("lost", ()):
        core.jobs[number].was_on[task] = f


def _restore_companions(core: Cycle, entry: State, running: set[tuple[int, int]]) -> None:
    job = core.jobs[entry["job"]["id"]]
    if entry["companions"]:
        core.leaders[job.job.id] = job
    for task, others in entry["companions"]:
        job.companions[task] = [(core.jobs[number], its_task) for number, its_task in others]
        for other, its_task in job.companions[task]:
            if (other.job.id, its_task) in running:
                other.beside[its_task] = job
                core.rejoining[job.job.id] = job
            else:
                other.carried[its_task] = job


def _attempt(core: Cycle, attempt: Attempt) -> State:
    entry: State = {
        "id": attempt.id,
        "job": attempt.job.job.id,
        "task": attempt.task,
        "node": attempt.node,
        "start": attempt.start,
        "charge": list(attempt.charge),
        "ports": list(attempt.ports),
        "devices": list(mask_of(core.cluster, attempt.slot)),
        "stopping": attempt.stopping,
        "end": attempt.expected if core.limits_count else int(core.cluster.leases[attempt.slot, END]),
    }
    if attempt.stopping:
        entry["last_end"] = attempt.last_end
    if attempt.due:
        entry["due"] = True
    held, amounts = _held(core, attempt), list(attempt.amounts)
    if held != amounts or amounts != list(attempt.job.job.request_of(attempt.task)) or entry["devices"][1]:
        # It has exclusive disks, which may have changed since, or was adopted with other amounts than its job's.
        entry["held"], entry["amounts"] = held, amounts
    return {**entry, **export_use(core, attempt)}


def _held(core: Cycle, holder: Holder) -> list[int]:
    held: list[int] = core.cluster.leases[holder.slot, AMOUNTS : AMOUNTS + core.cluster.k_count].tolist()
    return held


def _stranger(core: Cycle, stranger: Stranger) -> State:
    return {
        "id": stranger.id,
        "name": stranger.name,
        "node": stranger.node,
        "start": stranger.start,
        "ports": list(stranger.ports),
        "devices": list(mask_of(core.cluster, stranger.slot)),
        "held": _held(core, stranger),
        "end": int(core.cluster.leases[stranger.slot, END]),
    }


def _restore_stranger(core: Cycle, entry: State) -> None:
    f = entry["node"]
    slot = core.leases.hold_amounts(f, tuple(entry["held"]), entry["end"], *entry["devices"])
    stranger = Stranger(entry["id"], entry["name"], f, slot, entry["start"], tuple(entry["ports"]))
    core.relations.ports.take(f, stranger.ports)
    core.set_holder(slot, stranger)
    if stranger.id:
        core.strangers[stranger.id] = stranger
    else:
        core.foreign_use[f] = stranger


def _restore_attempt(core: Cycle, entry: State) -> None:
    job = core.jobs[entry["job"]]
    cluster = core.cluster
    mask, alone = entry["devices"]
    f = entry["node"]
    asked = tuple(entry.get("amounts", job.job.request_of(entry["task"])))
    amounts = tuple(entry["held"]) if "held" in entry else widened(cluster, f, asked, mask) if alone else asked
    slot = core.leases.hold_amounts(f, amounts, entry["end"], mask, alone)
    charge = tuple(entry["charge"])
    attempt = Attempt(entry["id"], job, entry["task"], f, slot, entry["start"], charge, entry["end"])
    if entry["stopping"]:
        attempt.last_end = entry.get("last_end", attempt.expected)
    core.expected.add(attempt)
    attempt.amounts, attempt.ports, attempt.due = asked, tuple(entry["ports"]), entry.get("due", False)
    core.relations.ports.take(attempt.node, attempt.ports)
    core.relations.licences.hold(job.job.licences)
    core.attempts[attempt.id] = attempt
    restore_use(core, attempt, entry)
    core.set_holder(slot, attempt)
    job.attempts[attempt.id] = attempt
    job.group.enter(attempt)
    job.group.add_used(job, charge)
    if entry["stopping"]:
        core.mark_leaving(attempt)


def _lives(core: Cycle, reservation: Reservation) -> bool:
    return core.jobs.get(reservation.job.job.id) is reservation.job


def _reservations(core: Cycle) -> State:
    # Reservations behind that of a removed job are made again, here and in the original.
    kept = list(takewhile(lambda reservation: _lives(core, reservation), core.reservations.kept))
    # Without any, the time of the check does not matter.
    return {
        "loosened": core.reservations.loosened if kept else -1,
        "kept": [_reservation(core, reservation) for reservation in kept],
    }


def _reservation(core: Cycle, reservation: Reservation) -> State:
    return {
        "job": reservation.job.job.id,
        "start": reservation.start,
        "nodes": [list(place) for place in reservation.nodes],
        "end": int(core.timeline.table[reservation.rows[0], B_END]) if reservation.rows else NEVER,
        "in_force": reservation.in_force,
        "known": all(core.cluster.node_stamp(f) <= reservation.stamp for f, _ in reservation.nodes),
        "hopeless": reservation.hopeless,
        "lasting": reservation.lasting,
    }


def _restore_reservation(core: Cycle, entry: State, view: int = ALL) -> Reservation:
    reservation = _reservation_of(core, entry, view)
    _book(core, reservation, entry, reservation.job.shape)
    return reservation


def _reservation_of(core: Cycle, entry: State, view: int = ALL) -> Reservation:
    job = core.jobs[entry["job"]]
    nodes = [(f, count) for f, count in entry["nodes"]]
    # What was known to hold is not checked again, although other reservations may have been made since.
    stamp = core.cluster.stamp if entry.get("known") else -1
    reservation = Reservation(job, entry["start"], nodes, stamp, view)
    reservation.hopeless = entry["hopeless"]
    reservation.lasting = entry["lasting"]
    return reservation


def _book(core: Cycle, reservation: Reservation, entry: State, shape: Shape) -> None:
    """Book a restored reservation as it was booked: for copies of ``shape``."""
    if reservation.nodes:
        duration = NEVER if entry["end"] >= NEVER else entry["end"] - entry["start"]
        core.timeline.reserve(reservation, duration, shape)
    core.timeline.enforce(reservation, entry["in_force"])


def _memory(core: Cycle, group: GroupState) -> State:
    """Return the results of the group's last tries, so that a copy does not retry what the original would not."""
    failed, victims, policy = group.failed, group.no_victims, group.policy
    offered, behind = group.offered, group.held_behind
    state: State = {
        "visited": group.visited,
        "verdict": group.verdict.value,
        "held_behind": behind.job.id if behind is not None and core.jobs.get(behind.job.id) is behind else None,
        "offered": offered.job.id if offered is not None and core.jobs.get(offered.job.id) is offered else None,
        "failed": None if failed is None else [failed[0], failed[1], list(failed[2])],
        "no_victims": (
            [victims[0], victims[2], *victims[3]] if victims is not None and victims[1] == core.cluster.stamp else None
        ),
        "retry_victims_at": group.retry_victims_at,
    }
    if isinstance(policy, RankedBackfill):
        state["order_at"] = policy.order_time()
    if isinstance(policy, BackfillPolicy):
        memo, bounds = policy.memory()
        state["memo"] = memo
        # By a waiting job with the shape: rows have other numbers in a copy.
        waiting: dict[int, int] = {}
        if bounds:
            for job in policy.queue:
                waiting.setdefault(job.shape.row, job.job.id)
        state["bounds"] = sorted([waiting[row], bound] for row, bound in bounds)
    return state


def _restore_memory(core: Cycle, memory: State) -> None:
    core.pass_number = memory["passes"]
    core.last_blocked = core.jobs.get(memory["last_blocked"])
    core.turns.since = {job: since for job, since in memory.get("turns", []) if job in core.jobs}
    cluster = core.cluster
    for name, entry in memory["groups"].items():
        group = core.groups.get(name)
        group.visited = entry["visited"]
        group.verdict = Verdict(entry["verdict"])
        group.offered = core.jobs.get(entry["offered"])
        group.held_behind = core.jobs.get(entry.get("held_behind"))
        failed, victims = entry["failed"], entry["no_victims"]
        group.failed = None if failed is None else (failed[0], failed[1], tuple(failed[2]))
        group.no_victims = None if victims is None else (victims[0], cluster.stamp, victims[1], tuple(victims[2:]))
        group.retry_victims_at = entry["retry_victims_at"]
        if isinstance(group.policy, RankedBackfill) and entry.get("order_at") is not None:
            group.policy.order_as_at(entry["order_at"])
        if isinstance(group.policy, BackfillPolicy) and "bounds" in entry:
            jobs = ((core.jobs[number], bound) for number, bound in entry["bounds"])
            # Releases before this one named jobs of other groups, too.
            bounds = [(job.shape.row, bound) for job, bound in jobs if job.group is group]
            memo = entry["memo"]
            group.policy.remember(None if memo is None else (memo[0], tuple(memo[1])), bounds)
