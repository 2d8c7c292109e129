"""The devices of a replay: allocated and unusable ones over time, and all of them at chosen moments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cress.core.kernels.devices import LEFT, WHOLE, WIDTH, first_device
from cress.core.scheduler import Scheduler
from cress.model.node import DISK_KIND
from cress.model.times import SECOND
from cress.simulator.packing.device_use import DeviceUse, Moment
from cress.simulator.packing.measured import measured, shape_counts
from cress.simulator.series import Steps
from cress.simulator.workload import Workload

# Records of the devices during the submissions, about. Above the most of those afterwards, every other one is dropped,
# and their interval doubles.
LOOKS, MOST_LOOKS = 200, 128


def allocated_devices(core: Scheduler) -> list[list[int]]:
    """Return, for each node, the allocated thousandths of each device except disks."""
    cluster = core.cluster
    left = cluster.nodes[: cluster.node_count, first_device(cluster.k_count) + LEFT :: WIDTH].tolist()
    found = []
    for f, row in enumerate(left):
        # Removed devices that leases still have come last.
        there = len(cluster.devices[f]) - len(cluster.gone.get(f, ()))
        devices = cluster.devices[f][:there]
        found.append([WHOLE - row[d] for d, device in enumerate(devices) if device.kind != DISK_KIND])
    return found


class DeviceLog:
    """Records the devices of a running scheduler.

    It takes about ``LOOKS`` records while jobs are submitted, then fewer and fewer.
    """

    def __init__(self, core: Scheduler, workload: Workload, submit: Sequence[int]) -> None:
        self._core = core
        self._names = [node.name for node in workload.cluster.nodes]
        dimensions = [workload.cluster.dimensions.index[kind] for kind in counted_kinds(workload)]
        counts = shape_counts(workload)
        self._measure = measured(core, {kind: n for kind, n in counts.items() if any(kind[0][k] for k in dimensions)})
        self._count = _number(workload)
        self._start, self._last = submit[0], submit[-1]
        span = self._last - self._start
        self._period = max(SECOND, span // LOOKS)
        # The moments to keep, the next one last.
        self._marks = [
            (self._last, "the last submission"),
            (self._start + span // 2, "half of the submissions' time"),
            (self._start + span // 4, "a quarter of the submissions' time"),
        ]
        self._next = self._start
        self._rows: list[tuple[int, float, float]] = []
        self._meanwhile = 0  # rows of the time in which jobs are submitted
        self._moments: list[Moment] = []
        self._fullest: Moment | None = None
        self._most = 0.0

    def look(self, now: int) -> None:
        """Record the devices, if it is time."""
        marked = bool(self._marks) and now >= self._marks[-1][0]
        if now < self._next and not marked:
            return
        lost, idle = self._measure.shares()
        allocated = self._count - idle
        self._rows.append((now, allocated / self._count, lost / self._count))
        self._next = now + self._period
        if allocated > self._most:
            self._most = allocated
            self._fullest = self._moment("the most allocated", now)
        name = ""
        while self._marks and now >= self._marks[-1][0]:
            name = self._marks.pop()[1]
        if name:
            self._moments.append(self._moment(name, now))
        if now <= self._last:
            self._meanwhile = len(self._rows)
        elif len(self._rows) - self._meanwhile > MOST_LOOKS:
            del self._rows[self._meanwhile + 1 :: 2]
            self._period *= 2

    def result(self) -> DeviceUse | None:
        """Return the record; ``None`` for a run without events."""
        if not self._rows:
            return None
        times = np.array([row[0] for row in self._rows], np.int64)
        allocated, unusable = (Steps(times, np.array([row[k] for row in self._rows])) for k in (1, 2))
        seen = {moment.time for moment in self._moments}
        moments = list(self._moments)
        if self._fullest is not None and self._fullest.time not in seen:
            moments.append(self._fullest)
        # If all jobs are submitted at once, the means cover the whole run.
        until = self._last if self._last > self._start else self._rows[-1][0]
        return DeviceUse(
            count=self._count, start=self._start, until=until, allocated=allocated, unusable=unusable,
            moments=tuple(sorted(moments, key=lambda moment: moment.time)),
        )  # fmt: skip

    def _moment(self, name: str, now: int) -> Moment:
        found, index = allocated_devices(self._core), self._core.cluster.index
        return Moment(name, now, [found[index[node]] for node in self._names])


def device_log(core: Scheduler, workload: Workload, jobs: Sequence[int]) -> DeviceLog | None:
    """Return a log for a run of the jobs at these positions, in order.

    ``None`` unless nodes count devices one by one and a job requests them.
    """
    dimensions = [workload.cluster.dimensions.index[kind] for kind in counted_kinds(workload)]
    if not jobs or not any(request[k] for request in workload.requests for k in dimensions):
        return None
    return DeviceLog(core, workload, workload.submit[list(jobs)].tolist())


def counted_kinds(workload: Workload) -> set[str]:
    """Return the kinds of devices that nodes count one by one; disks are shared in other ways."""
    kinds = {device.kind for node in workload.cluster.nodes for device in node.devices}
    return {kind for kind in kinds if kind != DISK_KIND and kind in workload.cluster.dimensions.index}


def _number(workload: Workload) -> int:
    kinds = counted_kinds(workload)
    return sum(device.kind in kinds for node in workload.cluster.nodes for device in node.devices)
