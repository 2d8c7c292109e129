"""Made worlds with deadlines, beside the traces: who is within a quota or urgent must not wait for long work.

Each world is three files in a folder: jobs, nodes and groups.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from cress.model.times import HOUR, MINUTE, SECOND

COLUMNS = "job,group,user,submit,run,time_limit,cpu,deadline"
DAYS = 4 * 24 * HOUR


class WorldJob(NamedTuple):
    """One job of a core; times in µs, ``deadline`` from its submission on, ``None`` without one."""

    group: str
    user: str
    submit: float
    run: float
    limit: float
    deadline: float | None


def write(folder: Path, jobs: list[WorldJob], cores: int, quotas: dict[str, int]) -> Path:
    """Write a world and return the path of its jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [COLUMNS]
    for number, job in enumerate(sorted(jobs, key=lambda job: job.submit)):
        due = "" if job.deadline is None else f"{job.deadline / SECOND:.0f}"
        times = ",".join(f"{time / SECOND:.0f}" for time in (job.submit, job.run, job.limit))
        rows.append(f"{number},{job.group},{job.user},{times},1,{due}")
    (folder / "jobs.csv").write_text("\n".join(rows) + "\n")
    (folder / "nodes.yaml").write_text(f"nodes:\n  - {{name: n, count: {cores // 8}, resource: <8>}}\n")
    groups = [f"Name: {name}\nResourceQuota: {quota}\n" for name, quota in quotas.items()]
    (folder / "Group.conf").write_text("\n".join(groups))
    return folder / "jobs.csv"


def minority(
    folder: Path, *, cores: int, share: float, group: str, long_due: float | None = None, seed: int = 1
) -> Path:
    """Long work fills the cluster; short jobs, ``share`` of its cores, are due in half an hour.

    ``group`` is the group of the short jobs; long ones are in ``work``, and due after ``long_due`` times their run.
    """
    chance = random.Random(seed)
    jobs: list[WorldJob] = []

    def long(submit: float) -> WorldJob:
        run = chance.uniform(2, 10) * HOUR
        return WorldJob("work", "ann", submit, run, 12 * HOUR, None if long_due is None else long_due * run)

    jobs += [long(0) for _ in range(cores)]
    now = 0.0
    while now < DAYS:
        jobs.append(long(now))
        now += 0.98 * jobs[-1].run / cores
    now = float(HOUR)
    while now < DAYS:
        jobs.append(WorldJob(group, "eve", now, chance.uniform(2, 10) * MINUTE, 20 * MINUTE, 30 * MINUTE))
        now += chance.expovariate(1) * 6 * MINUTE / (cores * share)
    quotas = {"work": cores} if group == "work" else {"work": cores - cores // 8, group: cores // 8}
    return write(folder, jobs, cores, quotas)


def borrowed(folder: Path, *, cores: int = 24, seed: int = 1) -> Path:
    """Two groups fill the cluster with long jobs, beyond their quotas; the third has short ones that are due soon."""
    chance = random.Random(seed)
    jobs: list[WorldJob] = []
    for name in ("sim", "batch"):
        now = 0.0
        while now < DAYS:
            jobs.append(WorldJob(name, name, now, chance.uniform(3, 9) * HOUR, 10 * HOUR, None))
            now += 1.2 * jobs[-1].run / cores
    now = float(HOUR)
    while now < DAYS:
        jobs.append(WorldJob("web", "eve", now, chance.uniform(2, 10) * MINUTE, 15 * MINUTE, 20 * MINUTE))
        now += chance.expovariate(1) * 12 * MINUTE
    return write(folder, jobs, cores, dict.fromkeys(("sim", "batch", "web"), cores // 3))


def worlds(folder: Path) -> dict[str, Path]:
    """Write all worlds; return their files of jobs by name."""
    return {
        "borrowed": borrowed(folder / "borrowed"),
        "urgent minority": minority(folder / "minority", cores=48, share=0.03, group="work"),
        "urgent minority, few cores": minority(folder / "few", cores=16, share=0.05, group="work", seed=3),
        "urgent group": minority(folder / "group", cores=48, share=0.03, group="fast"),
        "all have deadlines": minority(folder / "all", cores=48, share=0.03, group="work", long_due=3),
    }
