"""Small worlds in which groups once took room from each other in vain, stayed below their quotas, or waited for ever:
as files that ``cress simulate`` reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cress.model.times import SECOND
from cress.simulator import run
from cress.simulator.attempts import How
from cress.simulator.measures import MeasuredRun
from cress.simulator.request import Request


class Simulated:
    """What a simulation of these texts did."""

    def __init__(self, folder: Path, jobs: str, nodes: str, groups: str) -> None:
        trace, cluster, conf = folder / "jobs.csv", folder / "cluster.yaml", folder / "g.conf"
        trace.write_text(jobs), cluster.write_text(nodes), conf.write_text(groups)
        plan = run.plan(Request(trace=str(trace), cluster=cluster, groups=conf, out=folder / "out"))
        self.run: MeasuredRun = run.simulate(plan, plan.choices[0]).run
        work, attempts = self.run.workload, self.run.attempts
        self.names = [work.ids[i] for i in attempts.job]
        self.groups = [work.group_names[work.group_index[i]] for i in attempts.job]
        self.start, self.end = attempts.start / SECOND, attempts.end / SECOND
        self.cores = np.array([work.requests[work.request_index[i]][0] / 1000 for i in attempts.job])
        self.submitted = np.array([work.submit[i] / SECOND for i in attempts.job])
        self.how = attempts.how

    @property
    def ran_in_vain(self) -> list[float]:
        """How long (s) each preempted attempt ran."""
        return [float(ran) for ran in (self.end - self.start)[self.how == How.PREEMPTED]]

    def used(self, group: str, at: float) -> float:
        """The cores of a group at a moment."""
        runs = (self.start <= at) & (at < self.end) & np.array([name == group for name in self.groups])
        return float(self.cores[runs].sum())

    def waits(self, prefix: str) -> list[float]:
        """How long (s) each task of the jobs with this prefix waited for its first start."""
        return [
            float(start - submit)
            for name, start, submit in zip(self.names, self.start, self.submitted, strict=True)
            if name.startswith(prefix)
        ]


def quotas(policy: str = "", **groups: int) -> str:
    """The text of flat groups."""
    more = f"SchedPolicy: {policy}\n" if policy else ""
    return "\n".join(f"Name: {name}\nResourceQuota: {quota}\n{more}" for name, quota in groups.items())


# --- two saturated groups whose units do not divide their quotas ------------------------------------------------------

SATURATED = {
    "units of 4 on 10 cores": (
        "job,submit,run,group,tasks,cpu\np2,0,10800,b,2,4\np1,60,10800,a,2,4\n",
        'nodes:\n  - {name: n, count: 1, resource: "<10,20G>"}\n',
        quotas(a=5, b=5),
        1,
    ),
    "units of 7 on nodes of 8": (
        "job,submit,run,group,tasks,cpu\na,0,7200,default,5,7\nb,10,7200,a,5,7\n",
        'nodes:\n  - {name: n, count: 4, resource: "<8, 16G>"}\n',
        quotas(a=16, default=16),
        2,
    ),
}


@pytest.mark.parametrize(("jobs", "nodes", "groups", "due"), SATURATED.values(), ids=SATURATED)
def test_only_what_is_due_is_preempted(tmp_path: Path, jobs: str, nodes: str, groups: str, due: int) -> None:
    world = Simulated(tmp_path, jobs, nodes, groups)
    assert len(world.ran_in_vain) == due
    assert all(ran >= 10 for ran in world.ran_in_vain), "nothing is started that the next step stops"


# --- quotas at every level of a tree ----------------------------------------------------------------------------------

TREE = """Name: P
ResourceQuota: 60

Name: L
Parent: P
ResourceQuota: 10

Name: T
Parent: P
ResourceQuota: 50

Name: B
ResourceQuota: 40
"""


def test_a_group_in_a_tree_has_its_quota_although_each_level_is_within_its_thresholds(tmp_path: Path) -> None:
    """T has 54 of 50 and B 46 of 40, within 1.1 and 0.9 of both levels, when L comes, which has nothing."""
    jobs = "job,submit,run,time_limit,group,tasks,cpu\nb,0,9000,9000,B,100,1\nt,10,9000,9000,T,100,1\n"
    world = Simulated(
        tmp_path, jobs + "l,2000,100,100,L,100,1\n", "nodes:\n  - {name: n, resource: '<100,1000G>'}\n", TREE
    )
    assert [world.used("L", at) for at in (1990, 2100, 2300, 2900)] == [0, 9, 9, 9], "it may take up to nine tenths"
    assert max(world.waits("l")) < 1200, "100 tasks, nine at a time"
    assert world.used("B", 1990) + world.used("T", 1990) == 100


# --- a gang that guarantees of others forbid --------------------------------------------------------------------------


def stream() -> Iterator[str]:
    """A stream of alpha that keeps its group within its quota of the ten cores, a gang of ten, and small jobs."""
    yield "job,submit,run,time_limit,group,user,tasks,gang,cpu,memory"
    for i in range(625):
        yield f"s{i},{8 * i},100,100,alpha,u1,1,false,1,1G"
    yield "GANG,500,100,100,beta,u2,10,true,1,1G"
    for i in range(50):
        yield f"b{i},{510 + i},60,60,beta,u3,1,false,1,1G"


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill", "Urgency", "EDF"])
def test_small_jobs_behind_a_gang_that_others_quotas_forbid_use_the_quota_of_their_group(
    tmp_path: Path, policy: str
) -> None:
    groups = quotas(alpha=5) + "\n" + quotas(policy, beta=5)
    world = Simulated(tmp_path, "\n".join(stream()), 'nodes:\n  - {name: n, resource: "<10,100G>"}\n', groups)
    assert max(world.waits("b")) < 50 / 5 * 60 + 100, "five at a time, as soon as there is room"
    assert min(world.waits("GANG")) >= 4_500, "it waits until the stream ends"


# --- cooling-off ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ticks", [1, 3])
def test_a_trivial_task_a_minute_costs_a_borrowing_group_no_more_than_its_room(tmp_path: Path, ticks: int) -> None:
    """Twelve places on three nodes of 16 cores, for tasks of 15 s; each tick needs one core of one place."""
    rows = ["job,submit,run,time_limit,group,tasks,cpu", "borrow,0,15,60,physics,400,4"]
    rows += [f"t{i},{60 * (i // ticks + 1)},1,60,default,1,1" for i in range(8 * ticks)]
    groups = quotas("BackFill", physics=8) + "\n" + quotas(default=3)
    nodes = 'nodes:\n  - {name: n, count: 3, resource: "<16, 64G>"}\n'
    world = Simulated(tmp_path, "\n".join(rows), nodes, groups)
    at = np.arange(1, 480)
    places = [world.used("physics", float(moment)) / 4 for moment in at]
    assert np.mean(places) > 11, "12 of 12, but for the places of the ticks and the grace of their victims"
    assert min(places) >= 2, "its quota is never empty"
