"""The mix: the shapes of tasks with devices that are likely to come next, learned from recent and waiting tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from cress.model.job import Job
from cress.model.resources import BASE_DIMENSIONS, ResourceVector

# The largest number of shapes in the mix: the most frequent ones.
MOST_SHAPES = 128
# The number of tasks after which the first mix is computed.
FIRST = 32
# A new mix counts all waiting jobs, so one task must arrive first for each of this many jobs.
JOBS_PER_TASK = 64

Kind = tuple[ResourceVector, str]


class MixState(msgspec.Struct, omit_defaults=True):
    """A mix as stored in a state: the recent tasks by request and requirement, and the likely shapes."""

    arrived: list[Likely] = []
    fresh: int = 0
    likely: list[Likely] = []


class Likely(NamedTuple):
    """A shape of the mix: its request, the requirement of its jobs, and the number of its recent and waiting tasks."""

    request: ResourceVector
    requirement: str
    tasks: int


def asks_for_devices(job: Job) -> bool:
    """Return True if the job requests a dimension that may be counted in devices."""
    others = len(BASE_DIMENSIONS)
    return len(job.request) > others and any(any(request[others:]) for request, _ in job.requests)


def _kinds(job: Job, tasks: int) -> Iterator[tuple[Kind, int]]:
    """Yield the requests of ``tasks`` tasks of a job with their numbers; a gang with parts waits as a whole."""
    if not job.parts:
        yield (job.request, job.requirement), tasks
    for part in job.parts:
        yield (part.request, part.requirement), part.tasks


class Mix:
    """The likely shapes, computed anew from time to time.

    Only events change it, so schedulers with the same events have the same mix. ``window`` is the approximate number
    of recent tasks that count.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.arrived: Counter[Kind] = Counter()
        # The number of tasks that arrived since the mix was computed.
        self.fresh = 0
        self.likely: tuple[Likely, ...] = ()
        self._tasks = 0
        # A counter of changes of the mix.
        self.version = 0

    def arrive(self, job: Job) -> None:
        """Count the tasks of a submitted job that asks for devices."""
        for kind, number in _kinds(job, job.tasks):
            tasks = min(number, self.window)
            self.arrived[kind] += tasks
            self.fresh += tasks

    def due(self, jobs: int) -> bool:
        """Return True if the mix is due for renewal in a cluster with ``jobs`` jobs."""
        return self.fresh >= max(FIRST, min(self._tasks, self.window), jobs // JOBS_PER_TASK)

    def renew(self, waiting: Iterable[tuple[Job, int]]) -> None:
        """Compute the mix from recent tasks and the ``waiting`` jobs, each with the number of its waiting tasks."""
        counts = Counter(self.arrived)
        for job, tasks in waiting:
            for kind, number in _kinds(job, tasks):
                counts[kind] += min(number, self.window)
        order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        self._set(Likely(*kind, tasks) for kind, tasks in order[:MOST_SHAPES])
        self.fresh = 0
        if self.arrived.total() >= 2 * self.window:
            self.arrived = Counter({kind: tasks // 2 for kind, tasks in self.arrived.items() if tasks > 1})

    def _set(self, likely: Iterable[Likely]) -> None:
        self.likely = tuple(likely)
        self._tasks = sum(shape.tasks for shape in self.likely)
        self.version += 1

    def export(self) -> MixState:
        """Return the mix in the form for a state."""
        arrived = [Likely(request, requirement, tasks) for (request, requirement), tasks in self.arrived.items()]
        return MixState(arrived, self.fresh, list(self.likely))

    def restore(self, state: MixState) -> None:
        """Take over an exported mix."""
        self.arrived = Counter({(arrived.request, arrived.requirement): arrived.tasks for arrived in state.arrived})
        self.fresh = state.fresh
        self._set(state.likely)
