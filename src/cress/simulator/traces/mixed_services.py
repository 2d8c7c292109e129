"""The services and databases of a mixed workload, and the quotas of all its groups."""

from __future__ import annotations

import numpy as np

from cress.model.family import Database, Service
from cress.model.group import Group, Quota, QuotaWindow
from cress.model.job import JobType
from cress.simulator.series import Floats
from cress.simulator.traces.mixed_parameters import MixedParameters
from cress.simulator.traces.mixed_rows import Rows

HOUR, DAY_HOURS = 3600, 24
EVERY_DAY = tuple(range(7))
# Cores of a task of a service, and GiB for each core, all equally frequent.
SERVICE_CORES, SERVICE_MEMORY = (2, 4), (2, 4)
DATABASE_CORES, DATABASE_MEMORY = 8, 32
COPIES = 3  # tasks of a database
# The part of the cluster guaranteed to the groups without services, which otherwise use idle resources of services.
BATCH_QUOTA = 0.1


def names_of(kind: str, count: int) -> list[str]:
    """Return the names of ``count`` groups."""
    return [f"{kind}{i + 1}" for i in range(count)]


def day_curve(chosen: MixedParameters, peak: float) -> Floats:
    """Return the wanted tasks of each hour ``[24]`` as a share of the highest number: a wave with its top at ``peak``.

    The count of an hour is that of its busiest moment.
    """
    moments = np.arange(DAY_HOURS)[:, None] + np.linspace(0, 1, 5)[None, :]
    wave = (1 + np.cos(2 * np.pi * (moments - peak) / DAY_HOURS)) / 2
    curve: Floats = (chosen.night + (1 - chosen.night) * wave).max(axis=1)
    return curve


def add_services(rows: Rows, rng: np.random.Generator, chosen: MixedParameters, work: float) -> Floats:
    """Add services that reserve ``work`` core seconds without their surges.

    Return the cores that each group wants in each hour ``[groups, 24]``.
    """
    names = names_of("services", chosen.groups)
    count = chosen.groups * chosen.applications
    curves = np.array([day_curve(chosen, hour) for hour in chosen.peak + chosen.apart * rng.standard_normal(count)])
    sizes = rng.lognormal(0.0, 0.5, count)
    cores, memory = rng.choice(SERVICE_CORES, count), rng.choice(SERVICE_MEMORY, count)
    # All services together reserve the work; the part of each is in proportion to its size.
    highest = work / (chosen.days * HOUR * (sizes[:, None] * curves).sum()) * sizes
    wanted = np.zeros((chosen.groups, DAY_HOURS))
    kind = rows.template(type=JobType.SERVICE, plan=Service())
    end = chosen.days * DAY_HOURS * HOUR
    for i in range(count if work > 0 else 0):
        usual = np.maximum(1, np.rint(highest[i] * curves[i] / cores[i])).astype(np.int64)
        group = i % chosen.groups
        wanted[group] += usual * cores[i]
        position = rows.add(
            f"{names[group]}-app{i // chosen.groups + 1}",
            names[group],
            cores=cores[i],
            memory=cores[i] * memory[i],
            tasks=int(usual[0]),
            use=chosen.service_use,
            until=end,
            template=kind,
        )
        for time, tasks in _changes(rng, chosen, usual):
            rows.scale(position, time, tasks)
    return wanted


def _changes(
    rng: np.random.Generator, chosen: MixedParameters, usual: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[tuple[int, int]]:
    """Return the changes of one service's task count after its start: each hour, and when a surge begins and ends."""
    end = chosen.days * DAY_HOURS * HOUR
    begins = np.sort(rng.integers(0, end, rng.poisson(chosen.surges * chosen.days)))
    long = round(chosen.surge_hours * HOUR)
    moments = sorted(
        {
            0,
            *range(HOUR, end, HOUR),
            *begins.tolist(),
            *(end_of_surge for end_of_surge in (begins + long).tolist() if end_of_surge < end),
        }
    )
    found: list[tuple[int, int]] = []
    before = int(usual[0])
    for time in moments:
        surges = bool(((begins <= time) & (time < begins + long)).any())
        tasks = int(usual[time // HOUR % DAY_HOURS])
        tasks = int(np.ceil(tasks * chosen.surge - 1e-9)) if surges else tasks
        if tasks != before:
            found.append((time, tasks))
            before = tasks
    return found


def add_databases(rows: Rows, chosen: MixedParameters, work: float) -> Floats:
    """Add databases that reserve ``work`` core seconds, rounded to whole tasks; return the cores of each group."""
    tasks = round(work / (chosen.days * DAY_HOURS * HOUR) / DATABASE_CORES)
    names = names_of("services", chosen.groups)
    found = np.zeros(chosen.groups)
    kind = rows.template(type=JobType.DATABASE, plan=Database())
    for i, first in enumerate(range(0, tasks, COPIES)):
        group, count = i % chosen.groups, min(COPIES, tasks - first)
        found[group] += count * DATABASE_CORES
        rows.add(
            f"{names[group]}-db{i // chosen.groups + 1}",
            names[group],
            cores=DATABASE_CORES,
            memory=DATABASE_MEMORY,
            tasks=count,
            use=chosen.database_use,
            until=chosen.days * DAY_HOURS * HOUR,
            template=kind,
        )
    return found


def groups_of(chosen: MixedParameters, wanted: Floats, constant: Floats, total: int) -> tuple[Group, ...]:
    """Return the groups.

    The quota of a group of services changes each hour with their demand; the others have a small quota.
    """
    found = []
    for name, hours, fixed in zip(names_of("services", chosen.groups), wanted, constant.tolist(), strict=True):
        quotas = [
            Quota(scalar=max(1, min(total // 1000, round(tasks))) * 1000)
            for tasks in (hours * chosen.headroom + fixed).tolist()
        ]
        windows = tuple(
            QuotaWindow(days=EVERY_DAY, start=hour * 60, end=(hour + 1) * 60 % (DAY_HOURS * 60), quota=quota)
            for hour, quota in enumerate(quotas)
            if quota != quotas[0]
        )
        found.append(Group(name=name, quota=quotas[0], windows=windows))
    own = Quota(scalar=max(1, round(BATCH_QUOTA * total / 1000 / chosen.groups)) * 1000)
    return (*found, *(Group(name=name, quota=own) for name in names_of("batch", chosen.groups)))
