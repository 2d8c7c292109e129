"""What happened in a run: every attempt of every task, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

# The time of what did not happen.
NOT_YET = -1


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """``m`` attempts in the order in which they started; times are microseconds of the trace.

    ``job`` and ``task`` are positions in the workload and in the job, ``node`` a position in the cluster's
    nodes. ``preempted`` and ``lost`` attempts (their node failed) ended before their time and their task ran again.
    """

    job: Ints
    task: Ints
    node: Ints
    start: Ints
    end: Ints
    preempted: npt.NDArray[np.bool_]
    lost: npt.NDArray[np.bool_]

    @property
    def early(self) -> npt.NDArray[np.bool_]:
        """Whether the attempt ended before its time, ``[m]``."""
        return self.preempted | self.lost

    def __len__(self) -> int:
        return len(self.job)
