"""A store in memory, and a center's access to it, in which the center may be killed."""

from __future__ import annotations

from cress.model.records import AttemptRecord, JobRecord
from cress.store.base import Batch, Changed, Checkpoint, Fenced, FinishedReader, Saved, StateSnapshot, StoreError
from tests.faults.world import Mortal


class SimulatedStore:
    """A ``Store``.

    ``fault`` befalls the next commit of a center: ``refused`` (nothing is stored), ``unanswered`` (it is stored, and
    reported as failed all the same). ``full``: nothing can be stored. With ``fenced`` off, a center of any epoch may
    write.
    """

    def __init__(self) -> None:
        self.state: bytes | None = None
        self.records: list[bytes] = []
        self.runs: dict[int, bytes] = {}
        self.meta: dict[str, bytes] = {}
        self.number = 0
        self.epoch = 0
        self.cluster = ""
        self.finished_jobs: dict[int, JobRecord] = {}
        self.finished: dict[int, AttemptRecord] = {}
        self.fault = ""
        self.full = False
        self.commits = 0
        self.fenced = True

    def load(self) -> Saved:
        """See ``Store``."""
        return Saved(
            snapshot=self.state,
            records=list(self.records),
            meta=dict(self.meta),
            number=self.number,
            epoch=self.epoch,
            cluster=self.cluster,
        )

    def take_over(self, epoch: int, number: int, cluster: str) -> int:
        """See ``Store``."""
        if (self.epoch, self.number) != (epoch, number):
            raise Changed("the store has changed since it was read")
        self.epoch, self.cluster = epoch + 1, cluster
        return self.epoch

    def newest_epoch(self) -> int:
        """See ``Store``."""
        return self.epoch

    def note(self, key: str) -> bytes | None:
        """See ``Store``."""
        return self.meta.get(key)

    def commit(self, batch: Batch, epoch: int) -> None:
        """See ``Store``."""
        self._fence(epoch)
        self.check(batch)
        self.epoch = max(self.epoch, epoch)
        self.put(batch)
        self.commits += 1

    def check(self, batch: Batch) -> None:
        """Refuse what is there already."""
        for what, new, old in (
            ("run", [*(job for job, _ in batch.runs), *(each[0] for each in batch.templates)], self.runs.keys()),
            ("job", [record.id for record in batch.jobs], self.finished_jobs.keys()),
            ("attempt", [record.attempt for record in batch.attempts], self.finished.keys()),
        ):
            if len(set(new)) < len(new) or old & set(new):
                raise StoreError(f"UNIQUE constraint failed: a {what} is there already")

    def put(self, batch: Batch) -> None:
        """Write the rows."""
        self.records += batch.records
        self.number += len(batch.records)
        self.runs.update(batch.runs)
        self.runs.update((number, run) for number, _, run in batch.templates)
        self.meta.update(batch.meta)
        self.finished_jobs.update((record.id, record) for record in batch.jobs)
        self.finished.update((record.attempt, record) for record in batch.attempts)

    def upload(self, snapshot: StateSnapshot) -> None:
        """See ``Store``."""

    def snapshot(self, snapshot: StateSnapshot, epoch: int, uploaded: Checkpoint | None = None) -> None:
        """See ``Store``."""
        self._fence(epoch)
        self.cover(snapshot.number, snapshot.state)
        self.epoch = max(self.epoch, epoch)
        self.meta.update(snapshot.meta)

    def cover(self, number: int, state: bytes | memoryview) -> None:
        """Put the state in the place of the log up to this record."""
        behind = max(0, self.number - number)
        if behind > len(self.records):
            raise StoreError("it is older than the snapshot that is stored")
        self.number = max(self.number, number)
        self.state, self.records = bytes(state), self.records[len(self.records) - behind :]

    def _fence(self, epoch: int) -> None:
        if self.fenced and epoch < self.epoch:
            raise Fenced(epoch, self.epoch)

    def run(self, job: int) -> bytes | None:
        """See ``Store``."""
        return self.runs.get(job)

    def job(self, job: int) -> JobRecord | None:
        """See ``Store``."""
        return self.finished_jobs.get(job)

    def reader(self) -> FinishedReader:
        """See ``Store``."""
        raise NotImplementedError

    def close(self) -> None:
        """See ``Store``."""


class Access:
    """A center's way to the store: it may be killed before and after it stores something."""

    def __init__(self, store: SimulatedStore, center: Mortal) -> None:
        self.store = store
        self.center = center
        self.epoch = 0

    @property
    def replaced(self) -> bool:
        """Whether another center has begun an epoch since this one did."""
        return self.store.fenced and 0 < self.epoch < self.store.epoch

    def load(self) -> Saved:
        """See ``Store``."""
        return self.store.load()

    def take_over(self, epoch: int, number: int, cluster: str) -> int:
        """See ``Store``."""
        self.center.point("before it takes over")
        if self.store.full:
            raise StoreError("the disk is full")
        self.epoch = self.store.take_over(epoch, number, cluster)
        self.center.point("after it took over")
        return self.epoch

    def newest_epoch(self) -> int:
        """See ``Store``."""
        return self.store.newest_epoch()

    def note(self, key: str) -> bytes | None:
        """See ``Store``."""
        return self.store.note(key)

    def commit(self, batch: Batch, epoch: int) -> None:
        """See ``Store``."""
        fault = self._fault("commit")
        self.store.commit(batch, epoch)
        self._answer(fault, "commit")

    def upload(self, snapshot: StateSnapshot) -> None:
        """See ``Store``."""

    def snapshot(self, snapshot: StateSnapshot, epoch: int, uploaded: Checkpoint | None = None) -> None:
        """See ``Store``."""
        fault = self._fault("snapshot")
        self.store.snapshot(snapshot, epoch)
        self._answer(fault, "snapshot")

    def _fault(self, what: str) -> str:
        self.center.point(f"before a {what}")
        store = self.store
        if store.full:
            raise StoreError("the disk is full")
        fault, store.fault = store.fault, ""
        if fault == "refused":
            raise StoreError("the disk says no")
        return fault

    def _answer(self, fault: str, what: str) -> None:
        if fault == "unanswered":
            raise StoreError("the disk does not say yes")
        self.center.point(f"after a {what}")

    def run(self, job: int) -> bytes | None:
        """See ``Store``."""
        return self.store.run(job)

    def job(self, job: int) -> JobRecord | None:
        """See ``Store``."""
        return self.store.job(job)

    def reader(self) -> FinishedReader:
        """See ``Store``."""
        return self.store.reader()

    def close(self) -> None:
        """See ``Store``."""
