"""Adaptive growth in whole leases."""

from __future__ import annotations

import math
from typing import Any

from distributed.deploy.adaptive import Adaptive


class LeaseAdaptive(Adaptive):
    """Dask's rules, for workers that come ``processes`` at a time: a target is rounded up to whole leases, and whole
    leases are closed.
    """

    def __init__(self, cluster: Any = None, *, processes: int = 1, **options: Any) -> None:
        self.processes = processes
        if processes > 1:
            options.setdefault("worker_key", lease_of)
        if not math.isinf(maximum := options.get("maximum", math.inf)):
            options["maximum"] = int(maximum) // processes * processes
        super().__init__(cluster, **options)

    async def safe_target(self) -> int:
        """Return the number of workers that should be there, as many as whole leases have."""
        return math.ceil(await super().safe_target() / self.processes) * self.processes


def lease_of(worker: Any) -> str:
    """Return the name of the lease that a worker is in."""
    return str(worker.name).rpartition("-")[0]
