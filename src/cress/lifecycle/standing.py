"""How the tasks of a service stand to what is wanted of it, kept up by index: an update never looks at all of them.

Whoever changes something of a member says so by ``mark``. All of it follows from the members: it is made anew after a
restore and whenever the version or the count changes, and no part of the machine's state.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from cress.lifecycle.family import Family, Kept
from cress.lifecycle.live import LiveJob

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


class Stand(Enum):
    """How one index stands."""

    DONE = "done"  # its task is of the newest version, and ready
    NEW = "new"  # of the newest version, not ready yet
    STUMBLING = "stumbling"  # the same, and it has failed
    MISSING = "missing"  # it has no member, or one that ends
    IDLE = "idle"  # of another version, and only waits for a node
    OLD = "old"  # of another version, not ready
    OLD_READY = "old and ready"

    # By identity: the hash of an enum is that of its name, which is slow.
    __hash__ = object.__hash__


class Standing:
    """The indices below ``tasks`` by how they stand, each list in order.

    ``changed`` are those of which something may be new since they were looked at, wanted or not.
    """

    def __init__(self, family: Family) -> None:
        self.template, self.tasks = family.template, family.job.tasks
        self.of: dict[int, Stand] = {}
        self.lists: dict[Stand, list[int]] = {each: [] for each in Stand}
        self.changed: set[int] = {*range(self.tasks), *family.members}

    def set(self, index: int, stand: Stand) -> None:
        """An index below ``tasks`` stands so."""
        before = self.of.get(index)
        if before is stand:
            return
        if before is not None:
            there = self.lists[before]
            del there[bisect_left(there, index)]
        self.of[index] = stand
        insort(self.lists[stand], index)


def standing(machine: Machine, family: Family) -> Standing:
    """How a service stands, as far as it was looked at; made anew if it is to be otherwise than it was."""
    found = machine.standings.get(family.job.id)
    if found is None or (found.template, found.tasks) != (family.template, family.job.tasks):
        found = machine.standings[family.job.id] = Standing(family)
    return found


def mark(machine: Machine, job: LiveJob) -> None:
    """Something of a member is new: its attempt, its failures, whether it is wanted."""
    found = machine.standings.get(job.job.family)
    if found is not None:
        found.changed.add(job.index)


def take(machine: Machine, family: Family) -> list[int]:
    """The indices of which something is new, in order."""
    found = standing(machine, family)
    changed, found.changed = sorted(found.changed), set()
    return changed


def again(machine: Machine, family: Family, index: int) -> None:
    """An index is to be looked at again the next time."""
    standing(machine, family).changed.add(index)


def look(machine: Machine, family: Family, indices: Iterable[int]) -> None:
    """See how these stand now."""
    found = standing(machine, family)
    for index in indices:
        if index < found.tasks:
            found.set(index, stand_of(machine, family, index))


def stand_of(machine: Machine, family: Family, index: int) -> Stand:
    """How an index stands."""
    member = machine.jobs.get(family.members.get(index, 0))
    if member is None or member.ending:
        return Stand.MISSING
    failures = family.state.failures.get(index, 0) if isinstance(family.state, Kept) else 0
    ready = any(each.ready_at is not None and not each.halted for each in member.attempts.values())
    if member.template == family.template:
        return Stand.DONE if ready else Stand.STUMBLING if failures else Stand.NEW
    if ready:
        return Stand.OLD_READY
    return Stand.OLD if member.attempts or failures else Stand.IDLE
