"""The search for a loan among 50,000 fragments of 200 workloads on 10,000 nodes, and what leases cost a cluster without
any.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from benchmarks.core import CAPACITY, DIMENSIONS
from benchmarks.result import Result
from cress.core.fragments.search import find_loan
from cress.core.scheduler import Scheduler
from cress.model.decisions import Start
from cress.model.events import GroupsApplied, JobCancelled, JobSubmitted, NodeAdded, TaskEnded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.times import DAY, MINUTE

NODES, WORKLOADS, FRAGMENTS = 10_000, 200, 50_000
GROUPS = 10
TRIES = 40
# Of 64 cores of a node, those that no lease has.
REST = DIMENSIONS.vector(cpu=44_000, memory=176 << 30, network=10**9, disk_read=10**8)
LEASE = DIMENSIONS.vector(cpu=4_000, memory=16 << 30, network=10**8, disk_read=10**7)


def full_cluster(*, lends: bool) -> Scheduler:
    """Return a cluster without unallocated cores; if it lends, each node has leases of five workloads that nobody uses,
    else tasks in their place.
    """
    core = Scheduler(DIMENSIONS, Options(lending="on" if lends else "off", lease_idle=DAY, preemption="off"))
    core.observe(0, [NodeAdded(Node(name=f"n{i}", capacity=CAPACITY)) for i in range(NODES)])
    quota = Quota(CAPACITY[0] * NODES // GROUPS)
    core.observe(0, [GroupsApplied(tuple(Group(name=f"g{i}", quota=quota) for i in range(GROUPS + 1)))])
    rest = Job(id=1, group=f"g{GROUPS}", request=REST, tasks=NODES, time_limit=DAY)
    core.observe(0, [JobSubmitted(rest)])
    core.decide(0)
    each = FRAGMENTS // WORKLOADS
    jobs = [
        Job(
            id=2 + i, group=f"g{i % GROUPS}", request=LEASE, tasks=each, time_limit=DAY,
            workload=f"w{i}" if lends else "",
        )
        for i in range(WORKLOADS)
    ]  # fmt: skip
    core.observe(0, [JobSubmitted(job) for job in jobs])
    started = [item.attempt for item in core.decide(0).items if isinstance(item, Start)]
    assert len(started) == FRAGMENTS
    if lends:
        core.observe(0, [TaskEnded(attempt) for attempt in started])
        core.decide(0)
        assert len(core.pool.leases) >= FRAGMENTS
    return core


class Borrowers:
    """Short jobs of another group, one after the other, each of which ends before the next one comes."""

    def __init__(self, core: Scheduler, cores: float) -> None:
        self.core = core
        self.request = DIMENSIONS.vector(cpu=int(cores * 1000), memory=int(cores) << 30)
        self.number = 10_000
        self.now = 1

    def submit(self) -> Job:
        """Submit the next job."""
        self.number += 1
        self.now += 1
        job = Job(id=self.number, group="g0", request=self.request, time_limit=MINUTE)
        self.core.observe(self.now, [JobSubmitted(job)])
        return job

    def decide(self) -> float:
        """Return the milliseconds of ``decide`` for a job, which ends at once if it starts, and else is cancelled."""
        job = self.submit()
        begin = time.perf_counter()
        decided = self.core.decide(self.now).items
        spent = (time.perf_counter() - begin) * 1000
        starts = [item.attempt for item in decided if isinstance(item, Start)]
        over = [TaskEnded(attempt) for attempt in starts] if starts else [JobCancelled(job.id)]
        self.core.observe(self.now, over)
        self.core.decide(self.now)
        return spent

    def search(self) -> float:
        """Return the milliseconds of the search alone."""
        job = self.submit()
        entry = self.core.jobs[job.id]
        begin = time.perf_counter()
        find_loan(self.core.books, entry)
        spent = (time.perf_counter() - begin) * 1000
        self.core.observe(self.now, [JobCancelled(job.id)])
        return spent


def results() -> Iterator[Result]:
    """Yield milliseconds: of the search, of decisions that lend, and of decisions in clusters without leases."""
    core = full_cluster(lends=True)
    for what, cores in (("one fragment", 3.0), ("three joined", 10.0), ("none fits", 21.0)):
        borrowers = Borrowers(core, cores)
        borrowers.number += int(cores) * 1000
        borrowers.now += int(cores) * 1000
        times = sorted(borrowers.search() for _ in range(TRIES))
        note = "10,000 nodes, 200 workloads, 50,000 fragments"
        yield Result(f"search for a loan, {what}, median", median(times), "ms", 1.0, note=note)
        yield Result(f"search for a loan, {what}, worst of {TRIES}", times[-1], "ms")
        times = sorted(borrowers.decide() for _ in range(TRIES))
        yield Result(f"decision, {what}, median", median(times), "ms")
    del core
    plain = Borrowers(full_cluster(lends=False), 3.0)
    times = sorted(plain.decide() for _ in range(TRIES))
    yield Result("decision, full cluster without leases, nothing starts", median(times), "ms")
