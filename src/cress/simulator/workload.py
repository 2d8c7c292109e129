"""A workload: the jobs of a trace as columns, and the cluster and groups for which they are intended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cress.model.advancetext import ReservationText
from cress.model.distances import Distance
from cress.model.group import Group
from cress.model.job import Condition, Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector
from cress.simulator.trace_notes import TraceNotes

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
# For each job, the positions of its predecessors, and how each must have ended.
After: TypeAlias = tuple[tuple[tuple[int, Condition], ...], ...]

NO_LIMIT = -1

# 1970-01-05, a Monday, 00:00 UTC: the time of second 0 of a trace without a date.
UNDATED_START = 4 * 86_400 * 1_000_000


@dataclass(frozen=True)
class Outage:
    """Node ``node`` (its position) is gone from ``start`` until ``end`` (``None``: for good); µs of the trace."""

    node: int
    start: int
    end: int | None = None


@dataclass(frozen=True)
class SimulatedCluster:
    """The nodes to simulate, with their dimensions.

    Also neighbouring racks, outages, licences and advance reservations.
    """

    dimensions: Dimensions
    nodes: tuple[Node, ...]
    neighbours: tuple[tuple[str, str], ...] = ()
    outages: tuple[Outage, ...] = ()
    licences: tuple[tuple[str, int], ...] = ()
    drains: tuple[PlannedDrain, ...] = ()
    reservations: tuple[WrittenReservation, ...] = ()
    distances: tuple[Distance, ...] = ()

    def total(self) -> ResourceVector:
        """Return the sum of the nodes' capacities."""
        return tuple(sum(column) for column in zip(*(node.capacity for node in self.nodes), strict=True))


@dataclass(frozen=True)
class WrittenReservation:
    """An advance reservation as it was written, and its place in the file."""

    text: ReservationText
    file: str
    line: int


@dataclass(frozen=True)
class PlannedDrain:
    """Node ``node`` (its position) takes no new tasks from ``start`` on, and is empty at most ``deadline`` µs later.

    It takes tasks again at ``end`` (``None``: never); µs of the trace.
    """

    node: int
    start: int
    deadline: int
    end: int | None = None


def template(**keys: Any) -> Job:
    """Return a job with these keys; the columns of the workload are filled in when it is submitted."""
    return Job(id=0, group="", request=(), **keys)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """``n`` jobs in order of submission. All columns have the length ``n``; times are microseconds.

    ``submit`` is counted from second 0 of the trace, which is ``utc`` on the wall clock (µs since the epoch). ``run``
    is ``NO_LIMIT`` if tasks run until they are stopped. ``limit`` is ``NO_LIMIT`` if a job has no known end; otherwise
    ``run <= limit``, and ``killed`` jobs were cut there.

    ``request_index``, ``user_index`` and ``group_index`` point into ``requests`` (the request of one task), ``users``
    and ``group_names``. ``template_index`` points into ``templates``, the other keys of jobs (``None``: all have the
    first one). ``line`` is the job's line in the file, 0 if there is none. A job with the group "" names none: it goes
    to the group of its user (see ``groups.place``). ``after`` are the dependencies of the jobs; ``None``: there are
    none. ``family_index`` points into ``family_names``, the dags of which the jobs are steps, "" for none.

    ``fails`` is the number of attempts of each task that fail at first, ``until`` the time when the job is cancelled
    (``NO_LIMIT``: never), ``deadline`` the time by which it should have ended (``NO_LIMIT``: no deadline).
    ``tightness_index`` points into ``tightness_names``, the kinds of deadlines that were drawn (``None``: none were).
    ``scales`` are changes of the task counts of services and databases, in order of time: (time, position of the job,
    tasks). ``used`` is, for the dimensions of which it is known, the amount that one task really uses on average; the
    scheduler does not know it. ``options`` are those of the center that recorded the jobs; ``None``: the defaults.
    """

    name: str
    cluster: SimulatedCluster
    ids: list[str]
    submit: Ints
    run: Ints
    limit: Ints
    tasks: Ints
    gang: Bools
    killed: Bools
    priority: Ints
    request_index: Ints
    requests: list[ResourceVector]
    user_index: Ints
    users: list[str]
    group_index: Ints
    group_names: list[str]
    line: Ints
    notes: TraceNotes
    template_index: Ints | None = None
    templates: tuple[Job, ...] = (template(),)
    after: After | None = None
    family_index: Ints | None = None
    family_names: tuple[str, ...] = ("",)
    fails: Ints | None = None
    until: Ints | None = None
    think: Ints | None = None
    deadline: Ints | None = None
    tightness_index: Ints | None = None
    tightness_names: tuple[str, ...] = ()
    scales: tuple[tuple[int, int, int], ...] = ()
    used: dict[str, Floats] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    utc: int = UNDATED_START
    zone: tzinfo = field(default=UTC)
    options: Options | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def begin(self) -> int:
        """Return the beginning of the simulation: the first submission, or an earlier failure or drain of a node."""
        cluster = self.cluster
        changes = [*(outage.start for outage in cluster.outages), *(drain.start for drain in cluster.drains)]
        return min(int(self.submit[0]), *changes) if changes else int(self.submit[0])

    def select(self, keep: npt.NDArray[np.bool_] | Ints) -> Workload:
        """Return the workload with these jobs only: a mask, or the positions in their new order."""
        positions = np.flatnonzero(keep) if keep.dtype == np.bool_ else keep
        return replace(
            self,
            ids=[self.ids[i] for i in positions.tolist()],
            **{name: getattr(self, name)[positions] for name in COLUMNS},
            template_index=None if self.template_index is None else self.template_index[positions],
            family_index=None if self.family_index is None else self.family_index[positions],
            fails=None if self.fails is None else self.fails[positions],
            until=None if self.until is None else self.until[positions],
            think=None if self.think is None else self.think[positions],
            deadline=None if self.deadline is None else self.deadline[positions],
            tightness_index=None if self.tightness_index is None else self.tightness_index[positions],
            after=self._after_of(positions.tolist()),
            scales=self._scales_of(positions.tolist()),
            used={name: amounts[positions] for name, amounts in self.used.items()},
        )

    def _after_of(self, positions: list[int]) -> After | None:
        """Return the dependencies among these jobs, by their new positions."""
        if self.after is None:
            return None
        new = {old: i for i, old in enumerate(positions)}
        return tuple(tuple((new[first], how) for first, how in self.after[old] if first in new) for old in positions)

    def _scales_of(self, positions: list[int]) -> tuple[tuple[int, int, int], ...]:
        """Return the changes of task counts of these jobs, by their new positions."""
        new = {old: i for i, old in enumerate(positions)}
        return tuple((time, new[job], tasks) for time, job, tasks in self.scales if job in new)

    def template(self, position: int) -> Job:
        """Return the template of the job at ``position``."""
        return self.templates[0 if self.template_index is None else int(self.template_index[position])]

    def exact_estimates(self) -> Workload:
        """Return the workload with the run time of every job as its time limit."""
        return replace(self, limit=self.run.copy())


COLUMNS = (
    "submit",
    "run",
    "limit",
    "tasks",
    "gang",
    "killed",
    "priority",
    "request_index",
    "user_index",
    "group_index",
    "line",
)
