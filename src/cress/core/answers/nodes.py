"""Reasons why a node is empty, or not fuller: what it is kept for, and why the waiting units are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cress.core.advance.telling import say_on_node, time_of_day
from cress.core.books import Books
from cress.core.future.reservations import drain_due
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import USABLE
from cress.model.explanation import Finding

# Waiting jobs that are asked why they are not there, and the reasons and jobs that are told.
MOST_ASKED, MOST_TOLD = 200, 3


def free_of(core: Books, f: int) -> dict[str, int]:
    """Return the free amounts of a node, by dimension that it offers."""
    free, most = core.cluster.free_now()[f], core.cluster.capacities()[f]
    return {name: int(free[i]) for i, name in enumerate(core.dimensions.names) if most[i]}


def why_not_fuller(core: Books, f: int, closed: str, reason: Callable[[int], str]) -> tuple[Finding, ...]:
    """Return why node ``f`` has no more tasks; ``closed`` is why it takes no new ones, if that is known."""
    return (*_closed(core, f, closed), *_kept(core, f), *_waiting(core, f, reason))


def _closed(core: Books, f: int, closed: str) -> Iterator[Finding]:
    cluster = core.cluster
    if cluster.lost[f]:
        yield Finding("away", "it has left the cluster")
    elif closed or not cluster.nodes[f, USABLE]:
        why = closed or cluster.cordoned[f] or (f"overloaded: {cluster.overloaded[f]}" if cluster.overloaded[f] else "")
        yield Finding("closed", f"it takes no new tasks{f': {why}' if why else ''}")


def _kept(core: Books, f: int) -> Iterator[Finding]:
    """Yield for whom room of the node is kept free."""
    _, told = say_on_node(core, core.cluster.names[f])
    if told:
        yield Finding("reserved", told)
    for claim in core.claims:
        if claim.reservation.is_on(f):
            until = time_of_day(core, claim.expected)
            yield Finding(
                "claimed",
                f"stopping tasks make room here for job {claim.job.job.counted_as}{f' until {until}' if until else ''}",
            )
    for kept in core.reservations.kept:
        # Nodes that are drained are told below: when they will be empty is not known.
        if kept.rows and not kept.lasting and kept.is_on(f):
            start = time_of_day(core, kept.start)
            yield Finding(
                "reserved",
                f"it is kept free for job {kept.job.job.counted_as}{f', which starts at {start}' if start else ''}",
            )
    for job in core.waiting():
        drain = job.foreseen.drain
        # What was foreseen for a unit that has come to wait for another job, or for a licence, counts no more.
        due = bool(drain) and drain_due(job, core.now) and core.fit.within_reach(job.shape)
        if due and any(place == f for place, _ in drain):
            yield Finding("draining", f"it is being emptied for job {job.job.counted_as}, which has waited long enough")


def _waiting(core: Books, f: int, reason: Callable[[int], str]) -> Iterator[Finding]:
    """Yield why the units that wait are not on the node: of each kind of reason the number and one example."""
    found: dict[str, list[JobEntry]] = {}
    fits: list[JobEntry] = []
    asked = 0
    for job in core.waiting():
        if asked == MOST_ASKED:
            break
        if not job.queued or job.job.parts:
            continue
        asked += 1
        why = _excluded(core, job, f)
        if why:
            found.setdefault(why, []).append(job)
        else:
            fits.append(job)
    if not asked:
        yield Finding("no_demand", "no job waits for a node")
        return
    for job in fits[:MOST_TOLD]:
        yield Finding("fits", f"a task of job {job.job.counted_as} has room here, but: {reason(job.job.id)}")
    for why, jobs in sorted(found.items(), key=lambda item: -len(item[1]))[:MOST_TOLD]:
        first = f"job {jobs[0].job.counted_as}"
        who = f"{len(jobs)} waiting jobs, such as {first}," if len(jobs) > 1 else first
        yield Finding("no_fit", f"{who} {why}")


def _excluded(core: Books, job: JobEntry, f: int) -> str:
    """Return why a task of a job cannot run on the node now; empty if it can."""
    places = np.array([f])
    for predicate in [] if job.shape.match is None else job.shape.match.predicates:
        # What is equal for all nodes, as licences are, is not told of one node.
        if predicate.of_nodes and predicate.excludes(places)[0]:
            return f"may not run here: the node does not satisfy {predicate.text}"
    free = core.cluster.free_now()[f]
    lacking = [
        name
        for name, asked, left in zip(core.dimensions.names, job.job.request, free.tolist(), strict=True)
        if asked > left
    ]
    return f"would need more {' and '.join(lacking)} than is free here" if lacking else ""
