"""A store: what a commit that returned has stored is there for ever, and nothing of one that raised, as a rule."""

from __future__ import annotations

from cress.model.records import AttemptRecord, JobRecord
from cress.store.base import Batch, Saved, StoreError
from tests.faults.world import Mortal


class SimulatedStore:
    """A ``Store``.

    ``fault`` befalls the next commit: ``refused`` (nothing is stored), ``unanswered`` (it is stored, and reported as
    failed all the same). ``full``: nothing can be stored. ``writer`` is the center that may write, the last that began;
    with ``fenced`` off, any may.
    """

    def __init__(self) -> None:
        self.snapshot: bytes | None = None
        self.records: list[bytes] = []
        self.runs: dict[int, bytes] = {}
        self.meta: dict[str, bytes] = {"cluster": b"one"}
        self.finished_jobs: dict[int, JobRecord] = {}
        self.finished: dict[int, AttemptRecord] = {}
        self.fault = ""
        self.full = False
        self.commits = 0
        self.fenced = True
        self.writer: Mortal | None = None


class ReplacedError(Exception):
    """Another center has taken the store over: this one has to end."""


class Access:
    """A center's way to the store; it may be killed before and after a commit.

    One center at a time has it: on one machine by the lock of the data directory, in a cluster by its election.
    """

    def __init__(self, store: SimulatedStore, center: Mortal) -> None:
        self.store = store
        self.center = center
        store.writer = center

    @property
    def replaced(self) -> bool:
        """Whether another center has the store now."""
        return self.store.fenced and self.store.writer is not self.center

    def load(self) -> Saved:
        """See ``Store``."""
        store = self.store
        return Saved(snapshot=store.snapshot, records=list(store.records), meta=dict(store.meta))

    def commit(self, batch: Batch) -> None:
        """See ``Store``."""
        self.center.point("before a commit")
        store = self.store
        if self.replaced:
            self.center.say("is not in charge any more")
            raise ReplacedError
        if store.full:
            raise StoreError("the disk is full")
        fault, store.fault = store.fault, ""
        if fault == "refused":
            raise StoreError("the disk says no")
        self._write(batch)
        if fault == "unanswered":
            raise StoreError("the disk does not say yes")
        self.center.point("after a commit")

    def _write(self, batch: Batch) -> None:
        store = self.store
        for what, new, old in (
            ("run", [*(job for job, _ in batch.runs), *(each[0] for each in batch.templates)], store.runs.keys()),
            ("job", [record.id for record in batch.jobs], store.finished_jobs.keys()),
            ("attempt", [record.attempt for record in batch.attempts], store.finished.keys()),
        ):
            if len(set(new)) < len(new) or old & set(new):
                raise StoreError(f"UNIQUE constraint failed: a {what} is there already")
        if batch.snapshot is None:
            store.records += batch.records
        else:
            store.snapshot, store.records = batch.snapshot, []
        store.runs.update(batch.runs)
        store.runs.update((number, run) for number, _, run in batch.templates)
        store.meta.update(batch.meta)
        store.finished_jobs.update((record.id, record) for record in batch.jobs)
        store.finished.update((record.attempt, record) for record in batch.attempts)
        store.commits += 1

    def run(self, job: int) -> bytes | None:
        """See ``Store``."""
        return self.store.runs.get(job)

    def job(self, job: int) -> JobRecord | None:
        """See ``Store``."""
        return self.store.finished_jobs.get(job)

    def jobs(
        self,
        *,
        limit: int,
        before: int | None = None,
        group: str = "",
        user: str = "",
        state: str = "",
        name: str = "",
        type: str = "",  # noqa: A002  # the name of the field
        family: int = 0,
    ) -> list[JobRecord]:
        """See ``Store``."""
        raise NotImplementedError

    def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """See ``Store``."""
        raise NotImplementedError

    def finished(self, most: int) -> tuple[list[JobRecord], list[AttemptRecord]]:
        """See ``Store``."""
        raise NotImplementedError

    def close(self) -> None:
        """See ``Store``."""
