"""Clauses over domains, and nodes that choose, on 10,000 nodes: what they cost beside a plain requirement in the same
run.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.result import Result
from cress.core.scheduler import Scheduler
from cress.model.decisions import Start
from cress.model.events import GroupsApplied, JobCancelled, JobSubmitted, NodeAdded, NodeChanged, Outcome, TaskEnded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions

NODES = 10_000
DIMENSIONS = Dimensions()
PLAIN = "GCC >= 4.5"
REQUEST = DIMENSIONS.vector(cpu=1000)
ROUNDS = 5
# Over zones, racks, and single nodes; beside it a job of 50 tasks runs.
CLAUSES = {
    "spread over 10 zones": "spread(Zone)",
    "spread over 200 racks": "spread(Rack, 2)",
    "spread over 10,000 nodes": "spread(Name)",
    "spread by shares": 'spread(Zone, "z1=30%, z2=20%")',
    "spread as a preference": "spread(Zone) && f(x) = True",
    "away from a job, by rack": 'away_from("other", Rack)',
    "away from a label, by node": 'away_from("tier=db")',
    "away from itself, by node": 'away_from("self")',
    "near a job, by rack": 'near("other", Rack)',
    "within one zone": "within(Zone)",
}


def cluster(accepts: str = "") -> Scheduler:
    """Return a core with the nodes, and one job of 50 tasks that runs; ``accepts``: of the last node."""
    core = Scheduler(DIMENSIONS, Options())
    nodes = [_node(i, accepts if i == NODES - 1 else "") for i in range(NODES)]
    core.observe(0, [*map(NodeAdded, nodes), GroupsApplied((Group(name="g", quota=Quota(10**9)),))])
    other = Job(id=1, name="other", group="g", request=REQUEST, tasks=50, labels=(("tier", "db"),))
    core.observe(0, [JobSubmitted(other)])
    core.decide(0)
    return core


def _node(i: int, accepts: str) -> Node:
    labels = (("zone", f"z{i % 10}"), ("gcc", "4.9" if i % 4 else "4.4"))
    return Node(
        name=f"n{i}", capacity=DIMENSIONS.vector(cpu=16_000), rack=f"r{i % 200}", attributes=labels, accepts=accepts
    )


def spent(core: Scheduler, number: int, requirement: str, jobs: int, tasks: int) -> tuple[float, int]:
    """Return the processor time of jobs that are submitted, start, and end again, and how many tasks that were."""
    made = [
        Job(id=number + i, name=f"it{number + i}", group="g", request=REQUEST, tasks=tasks, requirement=requirement)
        for i in range(jobs)
    ]
    gc.collect()
    begin = time.thread_time()
    starts: list[Start] = []
    for each in made:
        core.observe(0, [JobSubmitted(each)])
        starts += [fact for fact in core.decide(0).items if isinstance(fact, Start)]
    ends = [TaskEnded(start.attempt, Outcome.SUCCEEDED) for start in starts]
    for i in range(0, len(ends), 50):
        core.observe(0, ends[i : i + 50])
        core.decide(0)
    return time.thread_time() - begin, len(starts)


def matched(core: Scheduler, number: int, requirement: str) -> float:
    """Return the processor time of the match of one job with a requirement never seen, over all nodes."""
    # Another version each time, so that nothing of it is known.
    job = Job(id=number, name="it", group="g", request=REQUEST, requirement=f"GCC >= 4.5.{number}{requirement}")
    gc.collect()
    begin = time.thread_time()
    core.observe(0, [JobSubmitted(job)])
    took = time.thread_time() - begin
    core.observe(0, [JobCancelled(number)])
    return took


def _matches(core: Scheduler, number: int) -> Iterator[Result]:
    """What it takes to match a requirement never seen on all nodes."""
    times: dict[str, list[float]] = {name: [] for name in ("", *CLAUSES)}
    for _ in range(ROUNDS):
        for name, each in times.items():
            each.append(matched(core, number, f" && {CLAUSES[name]}" if name else ""))
            number += 1
    plain = median(times[""])
    yield Result("a plain requirement never seen", plain * 1e6, "µs")
    for name in CLAUSES:
        note = f"{median(times[name]) * 1e6:.0f} µs"
        yield Result(f"{name}, never seen, to a plain one", median(times[name]) / plain, "times", 2, note=note)


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    core = cluster()
    yield from _matches(core, 100_000)
    number = 10
    for jobs, tasks in ((1, 1_000), (50, 20)):
        times: dict[str, list[float]] = {name: [] for name in ("", *CLAUSES)}
        for _ in range(ROUNDS):
            for name, each in times.items():
                requirement = " && ".join((PLAIN, *([CLAUSES[name]] if name else [])))
                took, started = spent(core, number, requirement, jobs, tasks)
                assert started == jobs * tasks, (name, started)
                number += jobs
                each.append(took / started)
        plain = median(times[""])
        what = f"{jobs} job{'s' * (jobs > 1)} of {tasks:,} tasks"
        yield Result(f"a plain requirement, {what}", plain * 1e6, "µs/task")
        for name in CLAUSES:
            note = f"{median(times[name]) * 1e6:.1f} µs/task"
            yield Result(f"{name}, {what}, to a plain one", median(times[name]) / plain, "times", 2, note=note)
    yield from _nodes_that_choose()


def _nodes_that_choose() -> Iterator[Result]:
    """What nodes that choose cost to jobs: none of them do; one did and does no more; one does."""
    bare, once, one = cluster(), cluster("Job.User = ann"), cluster('Job.User = "ann"')
    once.observe(0, [NodeChanged(_node(NODES - 1, ""))])
    times: dict[str, list[float]] = {"none": [], "once": [], "one": []}
    number = 10
    for _ in range(2 * ROUNDS):
        for name, core in (("none", bare), ("once", once), ("one", one)):
            took, started = spent(core, number, PLAIN, 20, 50)
            times[name].append(took / started)
        number += 20
    for name, what in (
        ("once", "no node chooses any more, to none ever did"),
        ("one", "one node chooses, to none does"),
    ):
        goal = 1.1 if name == "once" else None
        yield Result(what, median(times[name]) / median(times["none"]), "times", goal)
