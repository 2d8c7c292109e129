"""The status of the replicas of a service in an update, by index: an update never looks at all of them.

It is derived from the members: it is rebuilt after a restore and whenever the version or the count changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import Enum

from cress.lifecycle.tables.family_rows import Family, ReplicaState


class ReplicaStatus(Enum):
    """The status of the replica of one index."""

    DONE = "done"  # of the newest version, and ready
    NEW = "new"  # of the newest version, not ready yet
    STUMBLING = "stumbling"  # of the newest version, not ready, and it has failed
    MISSING = "missing"  # without a member, or with one that ends
    IDLE = "idle"  # of another version, and only waits for a node
    OLD = "old"  # of another version, not ready
    OLD_READY = "old and ready"

    # Hash by identity: an enum hashes its name, which is slow.
    __hash__ = object.__hash__


class ReplicaIndex:
    """The indices below ``tasks`` by the status of their replicas, each list in order.

    ``changed`` are the indices that may have changed since the last look, also beyond ``tasks``.
    """

    def __init__(self, family: Family) -> None:
        self.template, self.tasks = family.template, family.job.tasks
        self.of: dict[int, ReplicaStatus] = {}
        self.lists: dict[ReplicaStatus, list[int]] = {status: [] for status in ReplicaStatus}
        surging = family.state.surging if isinstance(family.state, ReplicaState) else 0
        self.changed: set[int] = {*range(self.tasks + surging), *family.members}

    def set(self, index: int, status: ReplicaStatus) -> None:
        """Note the status of an index below ``tasks``."""
        before = self.of.get(index)
        if before is status:
            return
        if before is not None:
            there = self.lists[before]
            place = bisect_left(there, index)
            assert there[place] == index, f"index {index} is not among those that are {before.value}"
            del there[place]
        self.of[index] = status
        insort(self.lists[status], index)
