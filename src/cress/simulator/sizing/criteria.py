"""The criteria that a size must meet, and the figures of a simulation that they test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cress.model.times import MINUTE, SECOND
from cress.simulator.attempts import JobEnd
from cress.simulator.day_measures import day_of
from cress.simulator.measures import MeasuredRun
from cress.simulator.request import Result
from cress.simulator.workload import Bools, Workload

DEFAULT_WAIT = 10 * MINUTE
DEFAULT_SHORT = 0.001
WAIT_PERCENTILE = 95


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """Criteria of a size; one that is ``None`` does not count.

    ``wait_p95`` is the largest 95th percentile of the waits (µs), ``missed`` the largest share of missed deadlines,
    ``short`` the largest share of the wanted task time that a service or database may lack. In addition every job that
    ends by itself must end.
    """

    wait_p95: int | None = DEFAULT_WAIT
    missed: float | None = None
    short: float | None = DEFAULT_SHORT

    def hold(self, figures: Figures) -> bool:
        """Return whether the figures meet all criteria."""
        return not self.unmet(figures)

    def unmet(self, figures: Figures) -> list[str]:
        """Return the unmet criteria, in words."""
        found = []
        if figures.unfinished:
            found.append("jobs that do not run")
        if self.wait_p95 is not None and figures.wait_p95 > self.wait_p95:
            found.append("waits")
        if self.missed is not None and figures.missed > self.missed:
            found.append("deadlines missed")
        if self.short is not None and figures.short > self.short:
            found.append("services short of tasks")
        return found


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one simulation.

    ``wait_p95`` is in µs, the largest of all subsets; ``short`` is that of the worst service, 0 without services.
    """

    unfinished: int
    wait_p95: int
    missed: float
    short: float

    def as_data(self) -> dict[str, float]:
        """Return the keys of ``size.json``."""
        return {
            "jobs_unfinished": self.unfinished,
            "wait_p95_s": self.wait_p95 / SECOND,
            "deadlines_missed_share": self.missed,
            "services_short_worst": self.short,
        }


@dataclass(frozen=True)
class JobSubset:
    """A part of the jobs, ``[n]``, to which the criterion of the waits applies separately."""

    name: str
    jobs: Bools


def by_group(names: tuple[str, ...], group_of: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[JobSubset, ...]:
    """Return the jobs of each group that has any, by the names and positions from ``groups.place``."""
    return tuple(JobSubset(name, group_of == i) for i, name in enumerate(names) if (group_of == i).any())


def by_type(workload: Workload) -> tuple[JobSubset, ...]:
    """Return services, databases, cron jobs, dags and other batch jobs, without empty subsets."""
    kinds = np.array([template.type.value for template in workload.templates])
    index = np.zeros(len(workload), dtype=np.int64) if workload.template_index is None else workload.template_index
    kind = kinds[index].astype("U16")
    if workload.family_index is not None:
        step = np.array([bool(name) for name in workload.family_names])[workload.family_index]
        kind[step & (kind == "batch")] = "dag"
    return tuple(
        JobSubset(name, np.asarray(kind == name))
        for name in ("service", "database", "batch", "dag", "cron")
        if (kind == name).any()
    )


def stuck_in(run: MeasuredRun) -> Bools:
    """Return the jobs ``[n]`` that did not run to their end: they fit no node, were refused, or waited at the end."""
    return np.asarray(run.rejected | run.waiting | run.ended(JobEnd.REFUSED))


def figures_of(result: Result, subsets: tuple[JobSubset, ...]) -> Figures:
    """Return the figures of a simulation; without subsets the waits of all jobs together count."""
    run, times = result.run, result.analysis.times
    masks = [subset.jobs for subset in subsets] or [np.ones(len(run.workload), dtype=np.bool_)]
    waits = [times.wait[mask & times.waited] for mask in masks]
    day = result.analysis.day
    short = day.short if day is not None else None
    return Figures(
        unfinished=int(stuck_in(run).sum()),
        wait_p95=max((int(np.percentile(wait, WAIT_PERCENTILE)) for wait in waits if len(wait)), default=0),
        missed=result.analysis.deadlines.total.missed_share,
        short=0.0 if short is None else short.worst,
    )


def peak_of(result: Result) -> dict[str, float]:
    """Return the measures of the day, for any workload."""
    day = result.analysis.day or day_of(result.run.workload, result.run.history)
    return day.summary()
