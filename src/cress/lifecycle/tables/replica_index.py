"""The state of the tasks of a service in an update, by index: an update never looks at all of them.

It follows from the members: it is rebuilt after a restore and whenever the version or the count changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import Enum

from cress.lifecycle.tables.family_rows import Family


class ReplicaStatus(Enum):
    """The status of the replica of one index."""

    DONE = "done"  # its task is of the newest version, and ready
    NEW = "new"  # of the newest version, not ready yet
    STUMBLING = "stumbling"  # the same, and it has failed
    MISSING = "missing"  # it has no member, or one that ends
    IDLE = "idle"  # of another version, and only waits for a node
    OLD = "old"  # of another version, not ready
    OLD_READY = "old and ready"

    # By identity: the hash of an enum is that of its name, which is slow.
    __hash__ = object.__hash__


class ReplicaIndex:
    """The indices below ``tasks`` by the status of their replicas, each list in order.

    ``changed`` are those of which something may be new since they were looked at, wanted or not.
    """

    def __init__(self, family: Family) -> None:
        self.template, self.tasks = family.template, family.job.tasks
        self.of: dict[int, ReplicaStatus] = {}
        self.lists: dict[ReplicaStatus, list[int]] = {status: [] for status in ReplicaStatus}
        self.changed: set[int] = {*range(self.tasks), *family.members}

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
