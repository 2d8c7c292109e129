"""Policies: the interface to the cycle, with first come, first served as its default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Self

from cress.core.groups.policies.queue import J, Queue
from cress.core.placing.fit import Fit
from cress.core.tables.arrays import Ints
from cress.model.group import Group
from cress.model.options import Options


class Policy(Generic[J]):
    """First come, first served over one queue; the other policies change the key or offer more than the head."""

    # Whether jobs behind the head are offered when the head does not fit.
    offers_more = False
    # Whether users have limits, so that a head may be passed over.
    limits_users = False
    # Whether every waiting job has a planned start.
    plans = False

    def __init__(self) -> None:
        self.queue: Queue[J] = Queue()

    @classmethod
    def of(cls, group: Group, options: Options, fit: Fit) -> Self:
        """Make the policy of a group, with the group's own options; ``fit`` is the fit table of the cluster."""
        return cls()

    def __len__(self) -> int:
        return len(self.queue)

    def __iter__(self) -> Iterator[J]:
        """The waiting jobs in their order."""
        return iter(self.queue)

    def key(self, job: J) -> tuple[int, int]:
        """The place of a job in the order: it never changes while the job lives, and is unique."""
        return (job.submitted, job.job.id)

    def add(self, job: J) -> None:
        """The job has a waiting task (again)."""
        job.key = self.key(job)
        self.queue.add(job)

    def remove(self, job: J) -> None:
        """The job has no waiting task left."""
        self.queue.remove(job)

    def reshaped(self, job: J) -> None:
        """A waiting job has another shape now."""

    def head(self) -> J | None:
        """The job whose next unit is offered first."""
        return self.queue.head()

    def later(self, head: J, memo: tuple[int, tuple[int, ...]] | None) -> Iterator[J]:
        """What else is offered when ``head`` does not fit; only for policies with ``offers_more``.

        ``memo`` tells apart situations in which what failed before may fit; as long as it stays the same, a job
        that was offered and not placed need not come again. With ``None`` everything is offered.
        """
        return iter(())

    def looked_at(self) -> list[J]:
        """The jobs that may be offered at all, in order."""
        head = self.head()
        return [] if head is None else [head]

    def looks_at(self, job: J) -> bool:
        """Whether the job may be offered at all."""
        return job is self.head()

    def set_quota(self, quota: list[int]) -> None:
        """What the group is guaranteed, in its measures."""

    def count_lacking(self, fit: Fit, counts: Ints) -> None:
        """Add to ``counts``, per dimension, the offered jobs for which no node has enough of it."""
        head = self.head()
        if head is not None:
            fit.count_lack(head.shape, counts)

    def charged(self, job: J, change: tuple[int, ...]) -> None:
        """The user of ``job`` holds that much more, or less."""

    def forget_charges(self) -> None:
        """Users are charged anew."""

    def may_use_more(self, job: J, charge: tuple[int, ...], quota: list[int]) -> bool:
        """Whether the policy's own limit lets the user of ``job`` start one more unit."""
        return True
