"""The batch work of a mixed workload: arrays submitted by day, dags and cron jobs that run mostly by night."""

from __future__ import annotations

import numpy as np

from cress.model.family import Cron
from cress.model.job import JobType
from cress.simulator.traces.mixed_parameters import MixedParameters
from cress.simulator.traces.mixed_rows import Rows
from cress.simulator.traces.mixed_services import names_of

HOUR, DAY = 3600, 86_400
LONGEST_RUN = 4 * HOUR  # s
MOST_TASKS = 200  # of an array
# Cores of a task, GiB for each core, and their frequency.
CORES, CORES_SHARES = (1, 2, 4, 8), (0.2, 0.3, 0.3, 0.2)
MEMORY, MEMORY_SHARES = (2, 4), (0.5, 0.5)
OFFICE, NIGHT = (9, 18), (0, 6)  # hours
STEPS = (2, 5)  # of a dag: the fewest, the most
CRONS = 6  # cron jobs of each group


class _Shapes:
    """Draws tasks: cores, GiB, run time in seconds and number."""

    def __init__(self, rng: np.random.Generator, chosen: MixedParameters) -> None:
        self._rng, self._chosen = rng, chosen

    def draw(self) -> tuple[int, int, int, int]:
        rng, chosen = self._rng, self._chosen
        cores = int(rng.choice(CORES, p=CORES_SHARES))
        memory = cores * int(rng.choice(MEMORY, p=MEMORY_SHARES))
        run = int(np.clip(np.rint(rng.lognormal(np.log(chosen.run), chosen.spread)), 1, LONGEST_RUN))
        # Log-normal with sigma 1: most arrays are small, a few are large.
        tasks = int(np.clip(np.rint(rng.lognormal(np.log(chosen.tasks) - 0.5, 1.0)), 1, MOST_TASKS))
        return cores, memory, run, tasks


def _moment(rng: np.random.Generator, days: int, hours: tuple[int, int], share: float) -> int:
    """Return a random second of the days: within these hours with the probability ``share``, otherwise at any time."""
    day = int(rng.integers(days)) * DAY
    if rng.random() < share:
        return day + int(rng.integers(hours[0] * HOUR, hours[1] * HOUR))
    return day + int(rng.integers(DAY))


def add_arrays(rows: Rows, rng: np.random.Generator, chosen: MixedParameters, work: float) -> None:
    """Add arrays until they reserve ``work`` core seconds; the last one is the first to exceed it."""
    shapes, names = _Shapes(rng, chosen), names_of("batch", chosen.groups)
    i = 0
    while work > 0:
        cores, memory, run, tasks = shapes.draw()
        work -= cores * run * tasks
        submit = _moment(rng, chosen.days, OFFICE, chosen.office)
        group = names[i % chosen.groups]
        i += 1
        rows.add(
            f"array{i}", group, cores=cores, memory=memory, tasks=tasks, use=chosen.batch_use, submit=submit, run=run
        )


def add_dags(rows: Rows, rng: np.random.Generator, chosen: MixedParameters, work: float) -> None:
    """Add dags of successive steps until they reserve ``work`` core seconds.

    The last dag is the first to exceed it.
    """
    shapes, names = _Shapes(rng, chosen), names_of("batch", chosen.groups)
    i = 0
    while work > 0:
        submit = _moment(rng, chosen.days, NIGHT, chosen.nightly)
        group = names[i % chosen.groups]
        i += 1
        before: int | None = None
        for step in range(int(rng.integers(STEPS[0], STEPS[1] + 1))):
            cores, memory, run, tasks = shapes.draw()
            work -= cores * run * tasks
            before = rows.add(
                f"dag{i}.s{step + 1}",
                group,
                cores=cores,
                memory=memory,
                tasks=tasks,
                use=chosen.batch_use,
                submit=submit,
                run=run,
                family=f"dag{i}",
                after=before,
            )


def add_crons(rows: Rows, rng: np.random.Generator, chosen: MixedParameters, work: float) -> None:
    """Add cron jobs that run once a day or each hour and together reserve about ``work`` core seconds.

    The share of the jobs that run by night is a share of this work. Run time and size are drawn; the number of tasks
    follows from the work.
    """
    names = names_of("batch", chosen.groups)
    count = CRONS * chosen.groups
    nightly = round(chosen.nightly * count)
    for i in range(count if work > 0 else 0):
        cores, memory, run, _ = _Shapes(rng, chosen).draw()
        minute = int(rng.integers(60))
        if i < nightly:
            when, runs = f"{minute} {int(rng.integers(*NIGHT))} * * *", chosen.days
        else:
            # A run ends before the next one is due.
            when, runs, run = f"{minute} * * * *", chosen.days * 24, min(run, HOUR // 2)
        tasks = max(1, round(work / count / (runs * run * cores)))
        rows.add(
            f"cron{i + 1}",
            names[i % chosen.groups],
            cores=cores,
            memory=memory,
            tasks=tasks,
            use=chosen.batch_use,
            run=run,
            until=chosen.days * DAY,
            template=rows.template(type=JobType.CRON, plan=Cron(when=when)),
        )
