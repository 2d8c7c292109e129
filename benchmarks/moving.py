"""Moving pods of cluster-trace-gpu-v2023 at 90 % of the GPUs: whole free nodes, pods that fit nowhere; and the time of
a plan.

Pods come and go: after the first 90 % a pod leaves, chosen at random, whenever the next one would exceed 90 %. A pod
that fits nowhere is skipped. With moving, a round is planned and carried out after every ``EVERY`` pods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.openb import ARRIVED, openb_folder
from benchmarks.result import Result
from cress.core.moving import movable, steps
from cress.core.moving.plan import Budget, Goal, MovePlan
from cress.core.moving.planner import plan_moves, plan_place
from cress.core.scheduler import Scheduler
from cress.model.decisions import Start, Stop
from cress.model.events import GroupsApplied, JobCancelled, JobSubmitted, NodeAdded, Outcome, TaskEnded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.option_text import parse_assignments
from cress.simulator.clusterfile import load_cluster
from cress.simulator.packing.arrivals import arrivals
from cress.simulator.traces import load_workload
from cress.simulator.workload import Workload

LISTS = ("default", "multigpu20")
SEEDS = (1, 2)
LEVEL = 0.9
# Pods that come after the cluster is full, and those between two rounds of at most so many moves.
LATER, EVERY, MOVES = 2_000, 200, 40
WHOLE = 8_000
MOVING = (Goal.DEVICES, Goal.NODES)


@dataclass
class Cluster:
    """The trace's nodes with pods on them."""

    work: Workload
    core: Scheduler
    now: int = 0
    number: int = 0
    failed: int = 0
    moved: int = 0
    given: int = 0

    @classmethod
    def of(cls, work: Workload, order: str) -> Cluster:
        """Return the empty cluster."""
        core = Scheduler(work.cluster.dimensions, parse_assignments([f"node_order={order}"]))
        group = Group(name="default", quota=Quota(scalar=work.cluster.total()[0]))
        core.observe(0, [*map(NodeAdded, work.cluster.nodes), GroupsApplied((group,))])
        return cls(work, core)

    @property
    def gpu(self) -> int:
        """The dimension of GPUs."""
        return self.work.cluster.dimensions.index["gpu"]

    def copy(self) -> Cluster:
        """Return an independent copy."""
        return replace(self, core=self.core.clone())

    def used(self) -> float:
        """Return the share of the GPUs that is allocated."""
        return self.given / self.work.cluster.total()[self.gpu]

    def come(self, i: int) -> bool:
        """A pod comes; return whether it fits. One that does not is skipped."""
        self.now += 1
        self.number += 1
        request = self.work.requests[int(self.work.request_index[i])]
        requirement = self.work.template(i).requirement
        job = Job(id=self.number, name="pod", group="default", request=request, requirement=requirement, movable=True)
        self.core.observe(self.now, [JobSubmitted(job)])
        if self.core.decide(self.now).items:
            self.given += request[self.gpu]
            return True
        self.core.observe(self.now, [JobCancelled(self.number)])
        self.failed += 1
        return False

    def leave(self, chance: np.random.Generator) -> None:
        """A pod leaves, chosen at random."""
        attempts = list(self.core.attempts.values())
        attempt = attempts[int(chance.integers(len(attempts)))]
        self.given -= attempt.amounts[self.gpu]
        self.core.observe(self.now, [TaskEnded(attempt.id)])

    def whole_nodes(self) -> int:
        """Return the number of nodes with eight GPUs on which nothing runs."""
        busy = {each.node for each in self.core.attempts.values()}
        return sum(node.capacity[self.gpu] == WHOLE and f not in busy for f, node in enumerate(self.core.cluster.specs))

    def whole_devices(self) -> int:
        """Return the number of GPUs that nothing uses."""
        return plan_moves(self.core.clone().books, movable.candidates(self.core.books), ()).before.devices

    def plan(self, budget: Budget | None = None) -> MovePlan:
        """Return a plan that frees GPUs and nodes."""
        return plan_moves(self.core.clone().books, movable.candidates(self.core.books), MOVING, budget)

    def carry_out(self, plan: MovePlan) -> None:
        """Move what a plan says, one task after the other, each as a center does it."""
        for move in plan.moves:
            self.now += 1
            problem = steps.problem_of(self.core.books, move)
            assert not problem, problem
            self.core.propose(steps.decisions(self.core.books, [move]))
            stops = [each for each in self.core.decide(self.now).items if type(each) is Stop]
            assert [each.attempt for each in stops] == [move.attempt]
            self.core.observe(self.now, [TaskEnded(move.attempt, Outcome.PREEMPTED)])
            starts = [each.node for each in self.core.decide(self.now).items if type(each) is Start]
            assert starts == [move.to], (starts, move)
            self.moved += 1


def filled(work: Workload, seed: int, order: str = "balance") -> Cluster:
    """Return the cluster at ``LEVEL``."""
    cluster = Cluster.of(work, order)
    for i in arrivals(work, seed, ARRIVED):
        if cluster.used() >= LEVEL:
            break
        cluster.come(i)
    return cluster


def later(cluster: Cluster, work: Workload, seed: int, *, moves: bool) -> list[int]:
    """Let pods come and go; return the whole free nodes after each round."""
    chance = np.random.default_rng(seed)
    free = []
    cluster.failed = cluster.moved = 0
    for n in range(LATER):
        i = int(chance.integers(len(work)))
        while cluster.used() > LEVEL:
            cluster.leave(chance)
        cluster.come(i)
        if n % EVERY == EVERY - 1:
            if moves:
                cluster.carry_out(cluster.plan(Budget(moves=MOVES)))
            free.append(cluster.whole_nodes())
    return free


def _timed(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def speed(cluster: Cluster) -> Iterator[Result]:
    """Yield the processor time of a plan beside that of a copy of the scheduler, which is the reference."""
    count = f"{len(cluster.core.attempts):,} tasks on {cluster.core.cluster.node_count:,} nodes"
    copy = min(_timed(cluster.core.clone) for _ in range(3))
    yield Result("a copy of the scheduler (reference)", copy, "s", note=count)
    found = min(_timed(cluster.plan) for _ in range(3))
    yield Result(
        "a plan that frees GPUs and nodes", found, "s", 5, note=f"{found / copy:.2f} × the copy, which is in it"
    )
    cluster.now += 1
    cluster.number += 1
    request = cluster.work.cluster.dimensions.vector(cpu=64_000, memory=2**36, gpu=WHOLE)
    gang = Job(id=cluster.number, name="gang", group="default", request=request, tasks=8, gang=True)
    cluster.core.observe(cluster.now, [JobSubmitted(gang)])
    cluster.core.decide(cluster.now)
    plans: list[MovePlan] = []

    def place() -> None:
        plans.append(plan_place(cluster.core.clone().books, movable.candidates(cluster.core.books), cluster.number))

    taken = min(_timed(place) for _ in range(3))
    note = f"{taken / copy:.2f} × the copy; {len(plans[-1].moves)} moves, {len(plans[-1].place)} nodes"
    yield Result("a place for a gang of 8 × 8 GPUs", taken, "s", 5, note=note)
    cluster.core.observe(cluster.now, [JobCancelled(cluster.number)])


def results() -> Iterator[Result]:
    """Yield figures of one full cluster, then of pods that come and go."""
    folder = openb_folder()
    if folder is None:
        return
    nodes = load_cluster(folder / "openb_node_list_gpu_node.csv.gz")
    for place, name in enumerate(LISTS):
        work = load_workload(str(folder / f"openb_pod_list_{name}.csv.gz"), nodes, 1)
        full = {seed: filled(work, seed) for seed in SEEDS}
        for seed in SEEDS:
            cluster = full[seed].copy()
            if not place and seed == SEEDS[0]:
                yield from speed(cluster)
            before, devices, plan = cluster.whole_nodes(), cluster.whole_devices(), cluster.plan()
            cluster.carry_out(plan)
            what = f"{name}, seed {seed}, at {LEVEL:.0%}"
            yield Result(f"{what}: whole free 8-GPU nodes", before, "nodes", note=f"{devices} whole GPUs free")
            note = f"{len(plan.moves)} moves, {cluster.whole_devices()} whole GPUs free"
            yield Result(f"{what}: after one plan", cluster.whole_nodes(), "nodes", note=note)
        for moves in (False, True):
            free: list[float] = []
            failed: list[int] = []
            moved: list[int] = []
            for seed in SEEDS:
                cluster = full[seed].copy()
                free.append(float(np.mean(later(cluster, work, seed, moves=moves))))
                failed.append(cluster.failed)
                moved.append(cluster.moved)
            label = f"{name}, {LATER:,} pods come and go, {'moving' if moves else 'nothing moved'}"
            note = f"{min(failed)} to {max(failed)}; {np.mean(moved):.0f} moves"
            yield Result(f"{label}: failed pods", float(np.mean(failed)), "pods", note=note)
            yield Result(f"{label}: whole free 8-GPU nodes", float(np.mean(free)), "nodes")
