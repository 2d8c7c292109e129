"""Expected starts of jobs that wait at their submission, beside the starts that came (design note 0054)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from cress.core.answers.forward import Forecast, Forward
from cress.core.answers.start_errors import Interval, StartErrors
from cress.core.estimator import Estimator
from cress.core.openings import EndsBy
from cress.core.scheduler import Scheduler
from cress.model.decisions import Decisions, Start
from cress.model.events import Event, JobCancelled, JobSubmitted, Outcome, TaskEnded
from cress.model.job import Job
from cress.model.resources import ResourceVector
from cress.model.times import SECOND
from cress.simulator.files import whole_file
from cress.simulator.workload import Workload

# A wait below this counts as this (µs), where a width is divided by a wait.
LEAST_WAIT = 60 * SECOND

# Column → meaning; docs/simulate.md shows the same list.
COLUMNS: dict[str, str] = {
    "job": "the trace's own id",
    "submit": "submit time, at which the start was foretold",
    "earliest": "the start that one in ten should precede",
    "likely": "the start that half should precede",
    "latest": "the start that nine in ten should precede",
    "by_limits": "the start if every task took its whole time limit; empty when there is none",
    "start": "the start that came; empty when it did not start",
    "because": "the job whose end was expected to let it start; empty when it is the clock",
    "behind": "the number of jobs that were expected to start before it",
}

# Key → meaning; docs/simulate.md shows the same list.
MEASURES: dict[str, str] = {
    "forecasts": "jobs whose start was foretold",
    "started": "those of them that started; the rest of the measures are of these",
    "inside_share": "share of the starts between `earliest` and `latest`; 0.8 is intended",
    "earlier_share": "share of the starts before `earliest`",
    "later_share": "share of the starts after `latest`",
    "width_by_wait_median": "median of (`latest` − `earliest`) / wait; waits below a minute count as a minute",
    "wait_mean_s": "mean wait",
    "error_mean_s": "mean distance of `likely` from the start",
    "error_median_s": "median of the same",
    "run_forward_error_mean_s": "mean distance of the start in the run forward, before anything was learned",
    "limits_error_mean_s": "mean distance of `by_limits` from the start, where there are limits",
    "limits_error_median_s": "median of the same",
}


class Foretold(NamedTuple):
    """One forecast: its moment (µs), the run forward by the means and the wait there (µs), the interval (waits, µs),
    and the start by limits.
    """

    at: int
    run: Forecast
    wait: int
    interval: Interval
    by_limits: int | None


class Foretelling:
    """A scheduler as the simulator calls it, which also foretells the start of every ``every``th job that waits.

    A job is foretold when the time goes on after its submission, so it has had its first chance to start by then.
    Decisions are those of the scheduler without it.
    """

    def __init__(self, core: Scheduler, every: int) -> None:
        self._core = core
        self._every = every
        self._waiting = 0
        self._fresh: list[int] = []
        self._estimator = Estimator(core.settled)
        self._errors = StartErrors()
        self.foretold: dict[int, Foretold] = {}
        self.started: dict[int, int] = {}

    def __getstate__(self) -> dict[str, object]:
        """Return what a copy in another process has: what was foretold and what came, without the scheduler."""
        return {"foretold": self.foretold, "started": self.started}

    def observe(self, now: int, events: Sequence[Event]) -> None:
        """Bring the scheduler up to date; learn from ends, as a center does."""
        self._foretell(now)
        attempts = self._core.attempts
        for event in events:
            if isinstance(event, JobSubmitted):
                self._fresh.append(event.job.id)
            elif isinstance(event, JobCancelled):
                self._errors.dropped(event.job)
            elif isinstance(event, TaskEnded) and event.outcome is Outcome.SUCCEEDED and event.attempt in attempts:
                attempt = attempts[event.attempt]
                self._estimator.ended(attempt.job.job, now - attempt.start)
        self._core.observe(now, events)

    def decide(self, now: int) -> Decisions:
        """Decide, and note first starts."""
        self._foretell(now)
        decided = self._core.decide(now)
        for item in decided.items:
            if isinstance(item, Start) and item.job not in self.started:
                self.started[item.job] = now
                self._errors.started(item.job, now)
        return decided

    def next_wakeup(self) -> int | None:
        """Return the time when something changes without an event."""
        return self._core.next_wakeup()

    def fits_now(self, request: ResourceVector) -> bool:
        """Return whether one task fits on some node."""
        return self._core.fits_now(request)

    def validate(self) -> list[str]:
        """Return the broken invariants."""
        return self._core.validate()

    def needs_estimate(self, job: Job) -> bool:
        """Return whether the job's group works with estimates."""
        return self._core.needs_estimate(job)

    def settled(self, jobs: Iterable[int]) -> list[int]:
        """Return the jobs without waiting tasks."""
        return self._core.settled(jobs)

    def _foretell(self, now: int) -> None:
        """Foretell the starts of new jobs that still wait, from the state of their moment, once that is over."""
        core = self._core
        if not self._fresh or now <= core.now:
            return
        waiting = [job for job in self._fresh if job not in self.started and job in core.jobs]
        self._fresh.clear()
        chosen = [job for place, job in enumerate(waiting, self._waiting + 1) if place % self._every == 0]
        self._waiting += len(waiting)
        if not chosen:
            return
        state = msgspec.msgpack.encode(core.export())
        estimates = {number: self._estimator.expected(entry.job) for number, entry in core.jobs.items()}
        by_means, by_limits = (
            Forward(Scheduler.restore(msgspec.msgpack.decode(state)), by, estimates).until_starts(chosen)
            for by in (EndsBy.MEAN, EndsBy.LIMIT)
        )
        self._errors.waits(core.now)
        for job in chosen:
            found = by_means.get(job)
            if found is not None and found.start is not None:
                limit = by_limits[job].start if job in by_limits else None
                waits = found.start - core.now, None if limit is None else limit - core.now
                interval = self._errors.interval(*waits)
                self.foretold[job] = Foretold(core.now, found, waits[0], interval, limit)
                self._errors.told(job, core.now, *waits, interval)


def measures(watched: Foretelling) -> dict[str, float]:
    """Return how good the forecasts were: the content of ``forecasts`` in ``summary.json``."""
    both = [(known, watched.started[job]) for job, known in watched.foretold.items() if job in watched.started]
    result: dict[str, float] = {"forecasts": len(watched.foretold), "started": len(both)}
    if not both:
        return result
    waits = np.array([(*known.interval, known.wait, start - known.at) for known, start in both])
    early, likely, late, plain, real = waits.astype(np.float64).T
    result |= {
        "inside_share": float(((early <= real) & (real <= late)).mean()),
        "earlier_share": float((real < early).mean()),
        "later_share": float((real > late).mean()),
        "width_by_wait_median": float(np.median((late - early) / np.maximum(real, LEAST_WAIT))),
        "wait_mean_s": float(real.mean() / SECOND),
        "error_mean_s": float(np.abs(likely - real).mean() / SECOND),
        "error_median_s": float(np.median(np.abs(likely - real)) / SECOND),
        "run_forward_error_mean_s": float(np.abs(plain - real).mean() / SECOND),
    }
    limits = np.array(
        [(known.by_limits - known.at, start - known.at) for known, start in both if known.by_limits is not None]
    ).reshape(-1, 2)
    if len(limits):
        errors = np.abs(limits[:, 0] - limits[:, 1]) / SECOND
        result |= {"limits_error_mean_s": float(errors.mean()), "limits_error_median_s": float(np.median(errors))}
    return result


def write_forecasts(path: Path, watched: Foretelling, workload: Workload) -> None:
    """Write the table, in the order of the forecasts. Times are seconds of the trace."""

    def name(job: int | None) -> str:
        return "" if job is None else workload.ids[job - 1]

    def seconds(moment: int | None) -> str:
        return "" if moment is None else f"{moment / SECOND:.6f}".rstrip("0").rstrip(".")

    with whole_file(path) as file:
        file.write((",".join(COLUMNS) + "\n").encode())
        for job, known in watched.foretold.items():
            moments = [known.at, *(known.at + wait for wait in known.interval), known.by_limits]
            cells = [name(job), *map(seconds, moments), seconds(watched.started.get(job)), name(known.run.because)]
            file.write((",".join([*cells, str(known.run.behind)]) + "\n").encode())
