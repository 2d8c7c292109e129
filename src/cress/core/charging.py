"""Charges of tasks and claims, computed again when groups, quotas or nodes change."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.jobs import Attempt, JobEntry, LeaseRow
from cress.core.pool import Pool
from cress.core.tables.cluster import Cluster


def charge_of(cluster: Cluster, job: JobEntry, nodes: list[tuple[int, int]]) -> tuple[int, ...]:
    """Return the charge of a number of tasks of the job on each of these nodes."""
    total = [0] * len(job.group.quota)
    kinds = job.shape.copies(nodes) if job.shape.kinds else ((None, f, count) for f, count in nodes)
    for kind, f, count in kinds:
        request = job.job.request if kind is None else kind.request
        for i, amount in enumerate(job.group.charge(request, cluster.specs[f].capacity, f)):
            total[i] += amount * count
    return tuple(total)


def charge_ending_with(pool: Pool, attempt: Attempt) -> tuple[int, ...]:
    """Return the charge that a group saves when an attempt ends.

    For the holder of a lease this includes the idle parts of the lease.
    """
    lease = pool.leases.get(attempt.id)
    if lease is None or lease.holder is not attempt:
        return attempt.charge
    return tuple(map(int.__add__, attempt.charge, lease.charge))


def refresh_quotas_now(core: Books) -> None:
    """Set every quota to the value of its timetable now."""
    if core.groups.refresh_quotas(core.now):
        recharge(core)


def recharge(core: Books) -> None:
    """Charge everything again, after the groups, their measures, policies or limits have changed."""
    core.running.forget()
    for job in core.jobs.values():
        job.find_accounts(core.relations.licences)
    accounts = [core.relations.licences, *(account for group in core.groups for account in group.accounts)]
    for account in dict.fromkeys(accounts):
        account.forget()
    for group in core.groups:
        group.attempts, group.claims = {}, []
    for attempt in core.attempts.values():
        group = attempt.job.group
        group.attempts[attempt.id] = attempt
        attempt.charge = group.charge(attempt.amounts, core.cluster.capacity_of(attempt.node), attempt.node)
        for account in attempt.job.accounts:
            account.begin(attempt)
    core.pool.recharge()
    for claim in core.claims:
        claim.job.group.claims.append(claim)
        claim.charge = charge_of(core.cluster, claim.job, claim.reservation.nodes)
        for account in claim.job.accounts:
            account.claim(claim)
    for group in core.groups:
        group.count_queue()
    if core.groups.tree.follows:
        core.groups.tree.recount(core.groups)
    for group in core.groups:
        core.groups.reorder(group)


def recharge_node(core: Books, f: int) -> None:
    """Compute the charges of tasks and claims on node ``f`` again: they are shares of its capacity, which has
    changed.
    """
    capacity = core.cluster.capacity_of(f)
    for attempt in core.holders_on(f):
        if isinstance(attempt, LeaseRow) and attempt.lease is not None:
            core.pool.charge(attempt.lease)
        if not isinstance(attempt, Attempt):
            continue
        charge = attempt.job.group.charge(attempt.amounts, capacity, f)
        if charge != attempt.charge:
            attempt.charge_anew(charge)
    for claim in core.claims:
        if claim.reservation.is_on(f):
            claim.charge_anew(charge_of(core.cluster, claim.job, claim.reservation.nodes))
    core.running.forget()
    for group in core.groups:
        core.groups.reorder(group)
