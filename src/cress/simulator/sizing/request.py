"""Structs of a sizing: the request, the prepared search, its trials and its results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cress.simulator.request import Plan, Request, Result
from cress.simulator.sizing.criteria import Criteria, Figures, JobSubset
from cress.simulator.sizing.kinds import Scaling
from cress.simulator.workload import Workload

GROUP, TYPE = "group", "type"
SEPARATE = ("", GROUP, TYPE)


@dataclass(frozen=True, kw_only=True)
class SizeRequest:
    """The arguments of a sizing.

    ``run`` are the arguments of the simulations, ``node_resource`` is the vector of the nodes, ``vary`` the kind that
    varies. ``separate`` says which jobs get clusters of their own for the comparison; empty: none.
    """

    run: Request
    criteria: Criteria = field(default_factory=Criteria)
    node_resource: str = ""
    vary: str = ""
    separate: str = ""


@dataclass(frozen=True, kw_only=True)
class SizePlan:
    """The workload, the scaling of its cluster, and the subsets of the jobs; nothing has run yet.

    ``groups`` are as they were given.
    """

    request: SizeRequest
    plan: Plan
    scaling: Scaling
    subsets: tuple[JobSubset, ...]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One simulation: the size and its figures; ``unmet`` are the unmet criteria."""

    size: int
    figures: Figures
    unmet: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Return the keys of ``size.json``."""
        return {"size": self.size, "enough": not self.unmet, "unmet": list(self.unmet), **self.figures.as_data()}


@dataclass(frozen=True, kw_only=True)
class Sized:
    """The size that a cluster needs under one policy.

    It comes with the number of nodes of each kind, the trials, and the simulation of that size. ``subset`` is the name
    of the jobs for which the cluster is separate; empty: it is shared by all. ``positions`` are these jobs.
    """

    policy: str
    subset: str
    size: int
    kinds: dict[str, int]
    trials: tuple[Trial, ...]
    workload: Workload
    positions: np.ndarray[tuple[int], np.dtype[np.int64]]
    result: Result

    @property
    def figures(self) -> Figures:
        """Return the figures of the size."""
        return next(trial.figures for trial in self.trials if trial.size == self.size)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One policy: the shared cluster, the clusters of the subsets, and these as if they were one cluster.

    The last two are empty without a comparison.
    """

    shared: Sized
    subsets: tuple[Sized, ...] = ()
    separate: Result | None = None

    @property
    def separate_size(self) -> int:
        """Return the number of nodes of all subsets together."""
        return sum(sized.size for sized in self.subsets)

    @property
    def fewer(self) -> float:
        """Return the share of the separate nodes that the shared cluster saves."""
        return 1 - self.shared.size / self.separate_size if self.separate_size else 0.0
