"""The log of the task counts that services and databases want while a machine runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cress.lifecycle.tables.family_rows import Family
from cress.model.family import Database, Service
from cress.simulator.services import ServiceCounts


class ServiceLog:
    """Checks the services and databases of a machine after each step, and records new task counts."""

    def __init__(self, families: Mapping[int, Family]) -> None:
        self._families = families
        self._alive: dict[int, tuple[int, int]] = {}  # by id: the position and the last recorded count
        self._rows: list[tuple[int, int, int]] = []

    def begun(self, position: int, number: int) -> None:
        """Note that the family at this position of the workload was accepted as the job ``number``."""
        family = self._families.get(number)
        if family is not None and isinstance(family.job.plan, Service | Database):
            self._alive[number] = (position, 0)

    def look(self, now: int) -> None:
        """Record the counts that have changed."""
        for number, (position, seen) in list(self._alive.items()):
            family = self._families.get(number)
            tasks = 0 if family is None or family.cancelling else family.job.tasks
            if tasks != seen:
                self._rows.append((position, now, tasks))
                self._alive[number] = (position, tasks)
            if family is None:
                del self._alive[number]

    def result(self) -> ServiceCounts | None:
        """Return the record; ``None`` if no service or database ever wanted a task."""
        if not self._rows:
            return None
        job, time, tasks = np.array(self._rows, dtype=np.int64).T
        return ServiceCounts(job=job, time=time, tasks=tasks)
