"""What is on its way into the store: readers look here too, so that nothing is out of sight for a moment."""

from __future__ import annotations

from cress.model.records import AttemptRecord, JobRecord
from cress.model.run import Run
from cress.store.base import Batch


class Flight:
    """The finished work and the new runs of the batch that is being committed."""

    def __init__(self, batch: Batch | None = None, runs: dict[int, Run] | None = None) -> None:
        self.jobs: dict[int, JobRecord] = {}
        self.attempts: dict[int, list[AttemptRecord]] = {}
        self.runs: dict[int, Run] = runs or {}
        if batch is not None:
            self.jobs = {record.id: record for record in batch.jobs}
            for record in batch.attempts:
                self.attempts.setdefault(record.job, []).append(record)
