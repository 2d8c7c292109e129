"""What every store does: ``load`` what was, ``commit`` what is new; and look up finished work."""

from __future__ import annotations

from typing import Protocol

import msgspec

from cress.model.records import AttemptRecord, JobRecord

WAY_OUT = "`cress store check` says more, `cress store restore FILE` takes a backup back"


class StoreError(Exception):
    """The store cannot do what it was asked; the sentence says what, where and what would help."""


class Damaged(StoreError):
    """What was stored is not there any more, or not as it was stored."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} ({WAY_OUT})")


class Batch(msgspec.Struct, kw_only=True):
    """What is stored together, or not at all.

    ``records`` go to the end of the log. A ``snapshot`` replaces the whole log, with the ``records`` of this batch.
    ``runs`` are how to run a job, by job id; ``templates`` are further runs of a family: their id, its id, the run. ``jobs`` and ``attempts`` are finished; ``meta`` replaces by key.
    ``moved_jobs`` (with their runs, and those of a family) and ``moved_attempts`` (job, task, attempt) are in the history now and go.
    """

    records: list[bytes] = []
    snapshot: bytes | None = None
    runs: list[tuple[int, bytes]] = []
    templates: list[tuple[int, int, bytes]] = []
    jobs: list[JobRecord] = []
    attempts: list[AttemptRecord] = []
    meta: dict[str, bytes] = {}
    moved_jobs: list[int] = []
    moved_attempts: list[tuple[int, int, int]] = []


class Saved(msgspec.Struct, kw_only=True):
    """What a store holds: the last snapshot (``None``: it is new), the log since then, all of ``meta``."""

    snapshot: bytes | None
    records: list[bytes]
    meta: dict[str, bytes]


class Store(Protocol):
    """Where the center's state survives.

    ``commit`` returns when the batch is durable, and raises ``StoreError`` when nothing of it is. It is called by one
    thread at a time, maybe another one than the reads; they see whole batches.
    """

    def load(self) -> Saved:
        """Everything that a center needs to go on."""

    def commit(self, batch: Batch) -> None:
        """Store all of the batch durably, or nothing."""

    def run(self, job: int) -> bytes | None:
        """How to run this job, as it was stored."""

    def job(self, job: int) -> JobRecord | None:
        """A finished job."""

    def jobs(
        self,
        *,
        limit: int,
        before: int | None = None,
        group: str = "",
        user: str = "",
        state: str = "",
        name: str = "",
        type: str = "",  # noqa: A002
        family: int = 0,
    ) -> list[JobRecord]:
        """Finished jobs with an id below ``before``, newest first, at most ``limit``; an empty filter lets all pass.

        ``family``: its members alone; 0: all but the members of services and databases, which nobody submitted.
        """

    def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """The finished attempts of the tasks ``first`` … ``last`` (included) of a job, by task, oldest first."""

    def finished(self, most: int) -> tuple[list[JobRecord], list[AttemptRecord]]:
        """Up to ``most`` finished attempts, by job; then, when there are fewer, up to ``most`` finished jobs.

        Members come before their families, whose runs they need.
        """

    def close(self) -> None:
        """Give the store back; nothing is lost without."""
