"""The history of a run: every attempt of every task as columns, and how each job ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from cress.simulator.services import ServiceCounts

if TYPE_CHECKING:
    from cress.simulator.fragments import Fragments
    from cress.simulator.packing.device_use import DeviceUse

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

# The time of an event that did not happen.
NOT_YET = -1


class How(IntEnum):
    """The way in which an attempt ended."""

    FINISHED = 0  # the task ran to its end or to its time limit
    PREEMPTED = 1
    LOST = 2  # with its node
    STOPPED = 3  # with its gang, by a drain, or because its job was cancelled
    FAILED = 4  # with a non-zero exit code, or at its time limit with a retry to come
    RUNNING = 5  # still running when the simulation ended
    MOVED = 6  # to another node, where the task began anew


class JobEnd(IntEnum):
    """The way in which a job ended."""

    WAITING = 0  # it did not end: some task never ran to its end
    FINISHED = 1  # all tasks ran to their ends or to their time limits
    FAILED = 2  # a task failed for good
    CANCELLED = 3  # a dependency ended in another way than required, or the job reached its ``until``
    KEPT = 4  # a service, database or cron job that was alive when the simulation ended
    REFUSED = 5  # the job was not accepted


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """``m`` attempts in the order in which they started; times are microseconds of the trace.

    ``job`` and ``task`` are positions in the workload and in the job, ``node`` a position in the cluster's nodes,
    ``how`` a value of ``How``. The end of an attempt that is ``RUNNING`` is the end of the simulation.
    """

    job: Ints
    task: Ints
    node: Ints
    start: Ints
    end: Ints
    how: Ints

    @property
    def early(self) -> Bools:
        """Return whether the attempt ended before its task was done, ``[m]``."""
        return np.asarray((self.how != How.FINISHED) & (self.how != How.RUNNING))

    @property
    def finished(self) -> Bools:
        """Return whether the attempt completed its task, ``[m]``."""
        return np.asarray(self.how == How.FINISHED)

    @property
    def preempted(self) -> Bools:
        """Return whether the attempt was preempted, ``[m]``."""
        return np.asarray(self.how == How.PREEMPTED)

    @property
    def lost(self) -> Bools:
        """Return whether the attempt was lost with its node, ``[m]``."""
        return np.asarray(self.how == How.LOST)

    def __len__(self) -> int:
        return len(self.job)


@dataclass(frozen=True, kw_only=True)
class AttemptHistory:
    """The result of a run: its attempts, the ``JobEnd`` of each job ``[n]``, and the number of events.

    ``refusals`` are the reasons of refused jobs, by position. ``fragments`` is ``None`` if no lease had an idle part,
    ``services`` if there is no service or database, ``devices`` if no job takes devices that nodes count one by one.
    """

    attempts: Attempts
    ends: Ints
    events: int
    refusals: dict[int, str]
    fragments: Fragments | None = None
    services: ServiceCounts | None = None
    devices: DeviceUse | None = None
