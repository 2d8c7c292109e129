"""Invariants, one check per line of the list; tests run them after every event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cress.core.books import Books
from cress.core.groups.limits import wrong_sums
from cress.core.jobs import Attempt, Holder
from cress.core.kernels.devices import (
    ASKS,
    DISK_AMOUNTS,
    DISK_AT,
    EACH,
    MUST,
    PARTS,
    SHARED,
    WHOLE,
)
from cress.core.kernels.holding import (
    AMOUNTS,
    CLAUSES,
    END,
    EXCLUDED,
    FITTING,
    FREE,
    HEAD,
    IN_USE,
    NARROW,
    NEXT,
    NODE,
    NONE,
    PREVIOUS,
    REQUEST,
    TOTAL_USED,
    UNUSABLE,
    USABLE,
)
from cress.core.kernels.timeline import B_AMOUNTS, B_END, B_FORCE, B_START
from cress.core.placing.constraints import NO_WANTS
from cress.core.placing.match import Match
from cress.core.placing.vetoes import Veto
from cress.core.queueing import out_of_queue
from cress.core.running_jobs import RunningJobs, first_reached
from cress.core.tables.cluster import Cluster
from cress.core.tables.devices import allocated, device_use, mask_of
from cress.model.node import DISK_KIND, Device
from cress.model.times import NEVER

# The devices of a node, with the free part and the number of users of each.
Use: TypeAlias = "list[tuple[Device, tuple[int, ...], int]]"


# The invariant that needs more than the books.
HAS_VETO = "a pending unit has a veto"


def broken_invariants(core: Books, veto: Callable[[int], Veto | None]) -> list[str]:
    """Return the broken invariants, each with its name and place.

    ``veto`` returns why a job waits.
    """
    broken = [f"{name}: {what}" for name, check in INVARIANTS.items() for what in check(core)]
    without = [job.job.id for job in core.waiting() if veto(job.job.id) is None]
    return broken + [f"{HAS_VETO}: job {number} waits without a reason" for number in without]


def _capacity(core: Books) -> Iterator[str]:
    cluster = core.cluster
    k = cluster.k_count
    held = np.zeros((cluster.node_count, k), np.int64)
    for holder in _holders(core):
        held[holder.node] += cluster.held_in(holder.slot)
    # Adopted tasks and changes of a node may exceed its capacity; then the node is closed.
    for f in cluster.overdrawn.symmetric_difference(cluster.overdrawn_nodes()):
        yield f"node {cluster.names[f]} holds more than it has, or is closed as if it did"
    for f in np.flatnonzero(np.any(cluster.free_now() + held != cluster.capacities(), axis=1)).tolist():
        yield f"free and held amounts of node {cluster.names[f]} do not add up to its capacity"
    if not np.array_equal(cluster.totals[TOTAL_USED : TOTAL_USED + k], held.sum(axis=0)):
        yield "the cluster's used amounts are not the sum of what is held"


def _holders(core: Books) -> list[Holder]:
    """Return all holders of rows of the table of leases."""
    parts = core.pool.parts()
    return [*core.attempts.values(), *core.strangers.values(), *core.foreign_use.values(), *parts]


def _is_request(cluster: Cluster, attempt: Attempt) -> bool:
    """Return True if a lease holds the request of its task; of an exclusive disk it holds the whole."""
    lease = cluster.held_in(attempt.slot).tolist()
    for part in attempt.parts:
        lease = list(map(int.__add__, lease, part.amounts))
    alone = mask_of(cluster, attempt.slot)[1]
    disk = range(DISK_AT, DISK_AT + DISK_AMOUNTS)
    return all(
        held >= asked if alone and k in disk else held == asked
        for k, (held, asked) in enumerate(zip(lease, attempt.amounts, strict=True))
    )


def _without_devices(cluster: Cluster, ask: list[int], uses: list[Use], *, empty: bool) -> npt.NDArray[np.bool_]:
    """Return, per node and dimension, True where the devices do not suffice.

    They count with these ``uses``, or as if the node were ``empty``.
    """
    lacks = np.zeros((len(uses), cluster.k_count), np.bool_)
    must, shared, each = ask[MUST], ask[SHARED:EACH], ask[EACH:PARTS]
    scalar = [(name, k) for name, k in cluster.dimensions.index.items() if ask[PARTS + k]]
    for f, use in enumerate(uses):
        for name, k in scalar:
            amount = ask[PARTS + k]
            left = [WHOLE if empty else left[0] for device, left, _ in use if device.kind == name]
            if left:
                whole = left.count(WHOLE) * WHOLE >= amount and amount % WHOLE == 0
                lacks[f, k] = not (whole if amount >= WHOLE else max(left) >= amount)
        if not must and not any(shared):
            continue
        disks = [each for each in use if each[0].kind == DISK_KIND]
        if must:
            fast = (all(map(int.__ge__, disk.bandwidth, each)) for disk, _, users in disks if empty or not users)
            fits = sum(fast) >= must
        else:
            fits = any(all(map(int.__ge__, disk.bandwidth if empty else left, shared)) for disk, left, _ in disks)
        if disks and not fits:
            missing = [i for i in range(DISK_AMOUNTS) if shared[i] or each[i]] or [0]
            lacks[f, [DISK_AT + i for i in missing]] = True
    return lacks


def _leases(core: Books) -> Iterator[str]:
    cluster = core.cluster
    seen = 0
    for f in range(cluster.node_count):
        slot, before, end = int(cluster.nodes[f, HEAD]), NONE, -NEVER
        while slot != NONE:
            lease = cluster.leases[slot]
            if lease[NODE] != f or lease[PREVIOUS] != before or lease[END] < end:
                yield f"the lease list of node {cluster.names[f]} is broken at slot {slot}"
            before, end, slot, seen = slot, int(lease[END]), int(lease[NEXT]), seen + 1
    holders = _holders(core)
    if seen != len(holders) or seen != core.leases.count:
        yield f"{seen} leases, {len(holders)} hold one, {core.leases.count} counted"
    for holder in holders:
        if core.holders[holder.slot] is not holder:
            yield f"lease {holder.slot} is not held by its holder"
    for attempt in core.attempts.values():
        lease = cluster.leases[attempt.slot]
        if lease[NODE] != attempt.node or not _is_request(cluster, attempt):
            yield f"attempt {attempt.id} does not hold what its task requests"
    endless = sum(int(cluster.leases[attempt.slot, END]) >= NEVER for attempt in holders)
    if endless != core.leases.endless:
        yield f"{endless} leases have no known end, {core.leases.endless} counted"


def _fit_rows(core: Books) -> Iterator[str]:
    # Of all rows at once: they are checked after every event.
    cluster = core.cluster
    k, n = cluster.k_count, cluster.node_count
    numbers = np.flatnonzero(cluster.rows[: cluster.row_count, IN_USE])
    rows, kept, nodes = cluster.rows[numbers], cluster.lack[numbers, :n], cluster.nodes[:n]
    short = nodes[:, FREE : FREE + k] < rows[:, np.newaxis, REQUEST : REQUEST + k]
    narrow = np.zeros(kept.shape, np.bool_)
    asking = np.flatnonzero(rows[:, REQUEST + 2 * k + ASKS])
    uses = [device_use(cluster, f) for f in range(n)] if asking.size else []
    for i in asking.tolist() if any(uses) else ():
        ask = rows[i, REQUEST + 2 * k :].tolist()
        short[i] |= _without_devices(cluster, ask, uses, empty=False)
        narrow[i] = np.any(_without_devices(cluster, ask, uses, empty=True), axis=1)
    excluded = kept & EXCLUDED
    # The missing amounts of nodes that are excluded one by one are not kept.
    alone = excluded & CLAUSES != 0
    short[alone] = False
    bits = short @ (1 << np.arange(k))
    bits[narrow & ~alone] |= NARROW
    unusable = nodes[:, USABLE] == 0
    bits[:, unusable] = UNUSABLE
    bits |= excluded
    fitting = np.count_nonzero(bits == 0, axis=1)
    short[unusable | (excluded != 0)] = False
    for what, wrong in (
        ("differs from the nodes", np.any(bits != kept, axis=1)),
        ("miscounts the fitting nodes", rows[:, FITTING] != fitting),
        (
            "miscounts the nodes that lack something",
            np.any(short.sum(axis=1) != rows[:, REQUEST + k : REQUEST + 2 * k], axis=1),
        ),
    ):
        yield from (f"row {r} {what}" for r in numbers[wrong].tolist())
    starved = int(np.count_nonzero(rows[:, FITTING] == 0))
    if starved != cluster.starved_rows:
        yield f"{starved} rows fit nowhere, {cluster.starved_rows} counted"


def _exclusions(core: Books) -> Iterator[str]:
    cluster = core.cluster
    for shape in core.fit.row_shapes[: cluster.row_count]:
        if shape is None or (shape.wants is NO_WANTS and np.any(core.fit.excluded(shape))):
            yield from () if shape is None else ("a shape without constraints is kept off nodes",)
        elif shape.waiting and shape.wants is not NO_WANTS:
            expected = Match(core.matching.context, shape.wants).excluded()
            kept = cluster.lack_of(shape.row) & EXCLUDED
            for f in np.flatnonzero(expected != kept).tolist():
                yield f"clauses exclude node {cluster.names[f]} with {expected[f]:#x}, kept is {kept[f]:#x}"
    for shape in core.matching.live:
        if not shape.waiting:
            yield "a shape is kept up to date although no waiting job has it"


def _sides(core: Books) -> Iterator[str]:
    for job in core.jobs.values():
        if job.constraints is not None and job.queued:
            soft = job.constraints.soft_now(core.now - job.since, core.balance.utilisation())
            if not job.constraints.by_load and job.foreseen.soft != soft:
                yield f"clauses of job {job.job.id} are on the wrong side"
            if job.unit() and any(each.by_load for each in job.asked()):
                # A unit of several jobs checks the load itself, and its soft clauses are those of the last pass.
                continue
            if job.shape is not core.shapes.shape_of(job, job.shape.size):
                yield f"job {job.job.id} waits with another shape than it has"


def _columns(core: Books) -> Iterator[str]:
    cluster = core.cluster
    k, n = cluster.k_count, cluster.node_count
    for b, dimension in enumerate(cluster.balanced_indices):
        capacity = cluster.nodes[:n, FREE + k + dimension]
        used = capacity - cluster.nodes[:n, FREE + dimension]
        share = np.divide(used, capacity, out=np.zeros(n), where=capacity > 0).astype(np.float32)
        if not np.array_equal(share, cluster.columns[b, :n]):
            yield f"the share of {cluster.balanced[b]} is not used / capacity"


def _usage(core: Books) -> Iterator[str]:
    by_group: dict[str, list[Attempt]] = {}
    for attempt in core.attempts.values():
        by_group.setdefault(attempt.job.group.name, []).append(attempt)
    for group in core.groups:
        attempts = by_group.get(group.name, [])
        idle = [lease.charge for lease in core.pool.leases.values() if lease.workload.group is group]
        for name, kept, charges in (
            ("uses", group.used, [*(attempt.charge for attempt in attempts), *idle]),
            ("is leaving", group.leaving, [attempt.charge for attempt in attempts if attempt.stopping]),
            ("claims", group.claimed, [claim.charge for claim in core.claims if claim.job.group is group]),
        ):
            total = [sum(charge[i] for charge in charges) for i in range(len(kept))]
            if total != kept:
                yield f"group {group.name} {name} {total}, counted {kept}"


def _tasks(core: Books) -> Iterator[str]:
    later = ((time, job.job.id, task) for job in core.jobs.values() for task, time in job.later.items())
    timers = sorted(timer for timer in later if timer[0] < NEVER)
    if timers != sorted(core.later) or any(time <= core.now for time, _, _ in timers):
        yield "a task that is to be queued again has no time, or one that has passed"
    for job in core.jobs.values():
        # The last one tells without a search whether any of them waits for a time.
        timed = [time < NEVER for time in job.later.values()]
        if timed != sorted(timed):
            yield f"job {job.job.id} has a task that is not released behind one that waits for its time"
        running = [attempt.task for attempt in job.attempts.values()]
        claimed = [task for claim in job.claims for task in claim.tasks]
        busy = running + claimed + job.again + list(job.later) + list(job.carried)
        if len(set(busy)) != len(busy):
            yield f"job {job.job.id} has a task twice"
        fresh = 0 if job.cancelled else job.job.tasks - job.next_task
        if not job.cancelled and job.waiting != fresh + len(job.again):
            yield f"job {job.job.id} counts {job.waiting} waiting tasks"
        if not job.job.gang and sorted(job.waits) != sorted(job.again):
            yield f"job {job.job.id} has not noted since when each of its tasks waits"
        if job.job.gang and job.queued and (running or claimed) and not job.starts_in_part:
            yield f"gang {job.job.id} is offered while some of it runs"
        # A bound that was lowered stops no task: then the job is out of its queue.
        if job.most and job.queued and len(busy) - len(job.again) - len(job.later) > job.most:
            yield f"job {job.job.id} runs more tasks at once than it may"
        if job.queued != (out_of_queue(job) is None):
            yield f"job {job.job.id} is {'' if job.queued else 'not '}queued"
        if job.over:
            yield f"job {job.job.id} is over and still there"


def _units(core: Books) -> Iterator[str]:
    led: dict[tuple[int, int], int] = {}
    for job in core.jobs.values():
        for task, others in job.companions.items():
            claimed = job.waits_whole and any(task in claim.tasks for claim in job.claims)
            if not others or not (claimed or (task in job.again and job.queued)):
                yield f"a unit of job {job.job.id} does not wait"
            for other, its_task in others:
                if core.jobs.get(other.job.id) is not other or (other.job.id, its_task) in led:
                    yield f"task {its_task} of job {other.job.id} is with two, or gone"
                led[other.job.id, its_task] = job.job.id
    carried = {
        (job.job.id, task): by.job.id
        for job in core.jobs.values()
        for task, by in (*job.carried.items(), *job.beside.items())
    }
    for job in core.jobs.values():
        if set(job.beside) - {attempt.task for attempt in job.attempts.values()}:
            yield f"a companion of job {job.job.id} does not run"
        leads = any(task in other.beside for others in job.companions.values() for other, task in others)
        if leads != (job.job.id in core.units.rejoining) or not set(job.foreseen.homes) <= set(job.companions):
            yield f"job {job.job.id} leads companions that run, or not"
    if carried != led:
        yield f"{carried} are with others, {led} are led"


def _ports(core: Books) -> Iterator[str]:
    relations = core.relations
    ports: dict[int, list[int]] = {}
    for holder in _holders(core):
        ports.setdefault(holder.node, []).extend(set(holder.ports))
    for f, name in enumerate(core.cluster.names):
        if sorted(ports.get(f, ())) != list(relations.ports.given(f)):
            yield f"ports {ports.get(f)} of node {name} are in use, {relations.ports.given(f)} were given"


def _devices(core: Books) -> Iterator[str]:
    cluster = core.cluster
    held: dict[tuple[int, str, str], list[tuple[int, ...]]] = {}
    alone: set[tuple[int, str, str]] = set()
    for attempt in _holders(core):
        f = attempt.node
        disk = cluster.leases[attempt.slot, AMOUNTS + DISK_AT : AMOUNTS + DISK_AT + DISK_AMOUNTS]
        of = {device.id: device.bandwidth for device in cluster.devices[f] if device.kind == DISK_KIND}
        for each in allocated(cluster, attempt.slot, f) if cluster.devices[f] else ():
            key, part = (f, each.kind, each.id), (each.amount,)
            if each.kind == DISK_KIND:
                part = of[each.id] if each.amount else tuple(disk.tolist())
                alone |= {key} if each.amount else set()
            held.setdefault(key, []).append(part)
    for f, name in enumerate(cluster.names):
        for device, left, users in device_use(cluster, f):
            key = (f, device.kind, device.id)
            parts = held.get(key, [])
            has = device.bandwidth if device.kind == DISK_KIND else (WHOLE,)
            expected = tuple(amount - sum(part[i] for part in parts) for i, amount in enumerate(has))
            # The rest beside removed devices follows from the amounts of whole leases.
            wrong = f not in cluster.gone and expected != left
            wrong |= min(left) < 0 and f not in cluster.overdrawn
            if wrong or users != len(parts) or (key in alone and users > 1):
                yield f"{device.kind} {device.id} of {name} has {left} left by {users}, not {expected} by {len(parts)}"


def _licences(core: Books) -> Iterator[str]:
    taken: dict[str, int] = {}
    for attempt in core.attempts.values():
        for name, number in attempt.job.job.licences:
            taken[name] = taken.get(name, 0) + number
    if taken != core.relations.licences.taken:
        yield f"tasks have {taken}, counted {core.relations.licences.taken}"


def _counts(core: Books) -> Iterator[str]:
    for whose, kept in core.relations.counts.items():
        if kept != core.relations.counted(whose):
            yield f"tasks of {whose} run on {core.relations.counted(whose)}, kept is {kept}"


def _limits(core: Books) -> Iterator[str]:
    for group in core.groups:
        if not all(queue.counts(job.owned for job in group.policy) for queue in group.queue_counts):
            yield f"group {group.name} counts other queued jobs than it has"
    for counter in {counter.group: counter for group in core.groups for counter in group.counters}.values():
        counted = RunningJobs(counter.group, counter.most, counter.most_per_user)
        for job in core.jobs.values():
            if counter in job.group.counters:
                for attempt in job.attempts.values():
                    counted.begin(attempt)
                for claim in job.claims:
                    counted.claim(claim)
        if counted.counts() != counter.counts():
            yield f"the running jobs of group {counter.group} are {counted.counts()}, counted {counter.counts()}"


def _order(core: Books) -> Iterator[str]:
    core.groups.tree.settle()
    groups = core.groups
    waiting = [
        group
        for group in groups
        if group.claims or any(first_reached([job.owned], group.counters) is None for job in group.policy)
    ]
    if {group.name for group in waiting} != {group.name for group in groups if group.key is not None}:
        yield "groups with a place in the order are not those that wait"
    keys = [group.order_key() for group in waiting if group.parent is None]
    keys += [inner.order_key() for inner in groups.tree.upwards if inner.parent is None and inner.order]
    if sorted(keys) != groups.order:
        yield "the order of the groups is not that of used / quota"
    for node in (*groups, *groups.tree.upwards):
        if node.key is not None and node.key != node.order_key():
            yield f"group {node.name} is not in its place"
    yield from wrong_sums(groups)
    for group in core.groups:
        queued = sorted(job.job.id for job in core.jobs.values() if job.group is group and job.queued)
        if sorted(job.job.id for job in group.policy) != queued:
            yield f"the queue of group {group.name} does not hold its waiting jobs"
        if group.jobs != sum(job.group is group for job in core.jobs.values()):
            yield f"group {group.name} miscounts its jobs"


def _claims(core: Books) -> Iterator[str]:
    cluster, table = core.cluster, core.timeline.table
    k = cluster.k_count
    promised = np.zeros((cluster.node_count, k), np.int64)
    for claim in core.claims:
        if not claim.reservation.in_force:
            yield f"the claim of job {claim.job.job.id} is not in force"
        for (f, _), row in zip(claim.reservation.nodes, claim.reservation.rows, strict=True):
            promised[f] += table[row, B_AMOUNTS:]
            if not table[row, B_FORCE] or table[row, B_START] >= table[row, B_END]:
                yield f"the booking of job {claim.job.job.id} is broken"
    coming = cluster.free_now().copy()
    for attempt in core.leaving.values():
        coming[attempt.node] += core.freed_by(attempt)
        for part in attempt.parts:
            if part.lease is None:
                coming[attempt.node] += part.amounts
    for f in np.flatnonzero(np.any((promised > coming) & (promised > 0), axis=1)).tolist():
        yield f"claims on node {cluster.names[f]} exceed what will be free there"


def _expected_ends(core: Books) -> Iterator[str]:
    for attempt in core.attempts.values():
        end = int(core.cluster.leases[attempt.slot, END])
        by_limit = core.expected.limits_count and attempt.job.group.predicts
        expected = attempt.last_end if by_limit else attempt.expected
        if end != expected:
            yield f"attempt {attempt.id} is expected to end at {expected}, its lease ends at {end}"
    left = sum(
        attempt.job.job.request_of(attempt.task)[0] * (attempt.expected - core.now)
        for attempt in core.attempts.values()
        if attempt.expected < NEVER
    )
    if max(0, left) != core.expected.work_left(core.now):
        yield f"running tasks have work of {left} left, counted {core.expected.work_left(core.now)}"
    for group in core.groups.timed:
        waiting = sum(job.waiting_work() for job in core.jobs.values() if job.queued and job.group is group)
        if waiting != group.policy.work():
            yield f"waiting jobs of group {group.name} have work of {waiting}, counted {group.policy.work()}"


def _workload_leases(core: Books) -> Iterator[str]:
    pool, cluster = core.pool, core.cluster
    pool.more_nodes()
    lendable = np.zeros_like(pool.lendable)
    for lease in pool.leases.values():
        inside = {each.id for each in core.attempts.values() if any(of is lease for of, _ in each.inside)}
        lent = {part.slot for each in core.attempts.values() for part in each.parts if part.lease is lease}
        if inside != set(lease.tasks) or lent != {part.slot for part in lease.lent}:
            yield f"lease {lease.id} has the tasks {inside} and lends {len(lent)} parts, counted otherwise"
        kept = bool(inside) or lease.holder is not None
        if kept == (lease.id in pool.waiting) or (not kept and not lease.workload.declared):
            yield f"lease {lease.id} without a task is kept, or not waited for"
        amounts = lease.idle_amounts()
        charge = (
            lease.workload.group.charge(amounts, cluster.specs[lease.node].capacity, lease.node) if amounts else None
        )
        if (charge or (0,) * len(lease.charge)) != lease.charge or any(not any(p.amounts) for p in lease.idle.values()):
            yield f"lease {lease.id} is charged {lease.charge} for {amounts}"
        if amounts and pool.lends and pool.is_lent(lease):
            lendable[lease.node] += amounts
    if not np.array_equal(lendable, pool.lendable):
        yield "what can be lent is not the sum of the idle parts that are large enough"
    for lease in pool.leases.values():
        if lease.holder is not None and lease.is_held:
            pieces = [amounts for task in lease.tasks.values() for of, (_, amounts) in task.inside if of is lease]
            pieces += [part.amounts for part in (*lease.idle.values(), *lease.lent)]
            has_all = tuple(map(sum, zip(lease.holder.amounts, *pieces, strict=True)))
            if has_all != lease.holder.job.job.request:
                yield (
                    f"lease {lease.id} holds {lease.holder.job.job.request}, its holder, its tasks, loans and "
                    f"idle parts have {has_all}"
                )
        for index, has in ((lease.workload.idle_on, lease.idle), (lease.workload.lent_on, lease.lent)):
            if bool(has) != (lease.id in index.get(lease.node, {})):
                yield f"lease {lease.id} is not found on its node, or has nothing there"
    for attempt in core.attempts.values():
        orphan = [part for part in attempt.parts if part.lease is not None and part.lease.id not in pool.leases]
        if orphan or any(lease.id not in pool.leases for lease, _ in attempt.inside):
            yield f"attempt {attempt.id} has parts of a lease that is over"


INVARIANTS: dict[str, Callable[[Books], Iterator[str]]] = {
    "capacity is never exceeded": _capacity,
    "every attempt holds one lease": _leases,
    "the fit table is correct": _fit_rows,
    "excluded nodes are those that clauses exclude": _exclusions,
    "the wants of waiting jobs are up to date": _sides,
    "float columns follow the amounts": _columns,
    "the use of a group is the sum of its charges": _usage,
    "a task is either waiting, claimed or running": _tasks,
    "units of several jobs wait with their leaders": _units,
    "ports are counted for their holders": _ports,
    "free devices are those that tasks leave free": _devices,
    "licences are counted for their holders": _licences,
    "nodes of jobs are counted correctly": _counts,
    "running jobs are counted for limits": _limits,
    "groups and queues are in order": _order,
    "claimed amounts will be free": _claims,
    "predicted ends are up to date": _expected_ends,
    "leases consist of their tasks, loans and idle parts": _workload_leases,
}
