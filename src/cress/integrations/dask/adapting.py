"""Adaptive growth in whole leases."""

from __future__ import annotations

import math
from typing import Any

from distributed.deploy.adaptive import Adaptive


class LeaseAdaptive(Adaptive):
    """Dask's rules for workers in groups of ``processes``.

    Targets are rounded up to whole leases, and only whole leases close.
    """

    def __init__(self, cluster: Any = None, *, processes: int = 1, **options: Any) -> None:
        self.processes = processes
        if processes > 1:
            options.setdefault("worker_key", lease_of)
        if not math.isinf(maximum := options.get("maximum", math.inf)):
            options["maximum"] = int(maximum) // processes * processes
        super().__init__(cluster, **options)

    async def safe_target(self) -> int:
        """Return the wanted number of workers, rounded up to whole leases."""
        return math.ceil(await super().safe_target() / self.processes) * self.processes


def lease_of(worker: Any) -> str:
    """Return the name of the lease of a worker."""
    return str(worker.name).rpartition("-")[0]
