"""The interface of a store: a log with a fence, snapshots, and a reader of finished work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from cress.model.records import AttemptRecord, JobRecord

WAY_OUT = "`cress store check` shows details, `cress store restore FILE` restores a backup"


class StoreError(Exception):
    """An operation of the store failed; the sentence names the operation, the place and the remedy."""


class Fenced(StoreError):
    """A newer epoch has begun: another center leads, and this one can no longer store anything."""

    def __init__(self, epoch: int, newest: int) -> None:
        super().__init__(
            f"this center (epoch {epoch}) does not lead any more: another one has taken the store over "
            f"(epoch {newest}); stop this one"
        )


class Changed(StoreError):
    """Something was stored since the state was loaded; load it again."""


class Unstorable(Exception):
    """A batch cannot be stored because of its content: it would fail again, while others do not."""


class Damaged(StoreError):
    """Stored data is missing, or differs from what was written; ``way_out`` is the remedy, empty if ``what`` has it."""

    def __init__(self, what: str, way_out: str = WAY_OUT) -> None:
        super().__init__(f"{what} ({way_out})" if way_out else what)


class Batch(msgspec.Struct, kw_only=True):
    """Rows that are stored together or not at all.

    ``records`` are appended to the log. ``runs`` are the runs of jobs, by job id; ``templates`` are further runs of a
    family: their id, the family's id, the run. ``jobs`` and ``attempts`` are finished; ``meta`` replaces notes by key.
    ``moved_jobs`` (with their runs, and those of a family) and ``moved_attempts`` (job, task, attempt) are in the
    history now and are removed here.
    """

    records: list[bytes] = []
    runs: list[tuple[int, bytes]] = []
    templates: list[tuple[int, int, bytes]] = []
    jobs: list[JobRecord] = []
    attempts: list[AttemptRecord] = []
    meta: dict[str, bytes] = {}
    moved_jobs: list[int] = []
    moved_attempts: list[tuple[int, int, int]] = []


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on jobs; an empty one accepts all jobs, the state ``failed`` all kinds of failure.

    Submitted from ``since`` on, before ``until`` (µs). ``family``: only its members; 0: all jobs except the members of
    services and databases, which no user submitted. ``seen`` is a user and groups: only the jobs of that user, and
    those in the groups.
    """

    group: str = ""
    user: str = ""
    state: str = ""
    name: str = ""
    type: str = ""
    family: int = 0
    since: int | None = None
    until: int | None = None
    seen: tuple[str, tuple[str, ...]] | None = None

    @property
    def values(self) -> dict[str, str | int]:
        """The required values of columns, by name of the column."""
        columns = ("group", "user", "name", "type", "family")
        return {name: value for name in columns if (value := getattr(self, name))}


EVERY_JOB = JobFilter()


class Saved(msgspec.Struct, kw_only=True):
    """The data with which a center continues.

    ``snapshot`` is None in a new store; ``records`` are the log since then, and ``number`` is the number of the last
    record, counted from the first one ever. ``epoch`` is the newest epoch (0: none has begun), ``cluster`` the id of
    the cluster.
    """

    snapshot: bytes | None
    records: list[bytes]
    meta: dict[str, bytes]
    number: int = 0
    epoch: int = 0
    cluster: str = ""


class StateSnapshot(msgspec.Struct, frozen=True):
    """The whole state after record ``number``; ``meta`` replaces notes by key."""

    number: int
    state: bytes | memoryview
    meta: Mapping[str, bytes] = {}


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint that covers a shared log up to entry ``number``, in ``pieces`` pieces at ``place``; ``entry`` is the
    entry that announced it.
    """

    number: int
    place: str
    pieces: int
    entry: int = 0


class Store(Protocol):
    """The log of a cluster, its last snapshot, and the runs of its jobs.

    A batch is durable when the method returns; if it raises ``StoreError``, nothing of it is stored. One thread at a
    time writes, others may look up runs and jobs; they see every batch whose commit has returned.
    """

    def load(self) -> Saved:
        """Return the data with which a center continues."""

    def take_over(self, epoch: int, number: int, cluster: str) -> int:
        """Begin a new epoch after a loaded state, and return it: older epochs can no longer store anything.

        ``epoch`` and ``number`` are those of the state. Raises ``Changed`` if they are no longer the newest.
        """

    def newest_epoch(self) -> int:
        """Return the newest epoch that a center has begun here until now."""

    def note(self, key: str) -> bytes | None:
        """Return a note of ``Batch.meta`` from all batches in this store; None if it is missing."""

    def commit(self, batch: Batch, epoch: int) -> None:
        """Store a batch. Raises ``Fenced`` when ``epoch`` is older than the newest; a newer one begins."""

    def upload(self, snapshot: StateSnapshot) -> Checkpoint | None:
        """Do the slow part of storing a snapshot; the result goes to ``snapshot``.

        It is called by another thread than the writer's, while batches are committed.
        """

    def snapshot(self, snapshot: StateSnapshot, epoch: int, uploaded: Checkpoint | None = None) -> None:
        """Store a snapshot in place of the last one and of the log up to its record.

        A number beyond the last record replaces the whole log. Raises ``Fenced`` as ``commit`` does.
        """

    def run(self, job: int) -> bytes | None:
        """Return the run of this job as stored."""

    def job(self, job: int) -> JobRecord | None:
        """Return a finished job."""

    def reader(self) -> FinishedReader:
        """Open a reader of finished work; close it before the store."""

    def close(self) -> None:
        """Close the store; without a close nothing is lost."""


class FinishedReader(Protocol):
    """Reads finished work on its own connection; one thread at a time."""

    def job(self, job: int) -> JobRecord | None:
        """Return a finished job."""

    def some(self, ids: Sequence[int]) -> list[JobRecord]:
        """Return the stored ones of these jobs, in any order."""

    def run(self, job: int) -> bytes | None:
        """Return the run of this job as stored."""

    def jobs(self, filters: JobFilter = EVERY_JOB, *, limit: int, before: int | None = None) -> list[JobRecord]:
        """Return at most ``limit`` finished jobs that pass, with an id below ``before``, newest first."""

    def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """Return the finished attempts of the tasks ``first`` … ``last`` (included) of a job, by task, oldest first."""

    def attempts_on(self, nodes: Sequence[str], *, since: int, until: int, limit: int) -> list[AttemptRecord]:
        """Return at most ``limit`` finished attempts on these nodes that ended from ``since`` on (µs since the epoch)
        and were placed before ``until``, the latest ends first.
        """

    def finished(self, most: int) -> tuple[list[JobRecord], list[AttemptRecord]]:
        """Return up to ``most`` finished attempts, by job; if there are fewer, also up to ``most`` finished jobs.

        Members come before their families, whose runs they need.
        """

    def close(self) -> None:
        """Close the connection."""
