"""Groups: tenants with a guaranteed quota, users and policies (G)."""

from __future__ import annotations

from enum import Enum

import msgspec

from cress.model.limits import Limits
from cress.model.notify import Notify

EVERYONE = "*"
# The group of jobs without a group (G).
DEFAULT_GROUP = "default"
MAX_GROUP_NAME_LENGTH = 64


class SchedPolicy(Enum):
    """The order of the jobs inside a group (G, E, S; EDF: earliest deadline first)."""

    FIFO = "FIFO"
    PRIORITY = "Priority"
    CAPACITY = "Capacity"
    BACKFILL = "BackFill"
    URGENCY = "Urgency"
    EDF = "EDF"


class PreemptivePolicy(Enum):
    """The order in which tasks of other groups are preempted (G)."""

    LOW_PRIORITY_FIRST = "LowPriorityFirst"
    MOST_RECENT_FIRST = "MostRecentFirst"
    LOWEST_URGENCY_FIRST = "LowestUrgencyFirst"


class Quota(msgspec.Struct, frozen=True):
    """A guaranteed minimum.

    Either ``scalar`` (millicores in the accounting ``cpu``, millionths of a server in the accounting ``dominant``), or
    ``amounts``, raw positive amounts by dimension name, only in the accounting ``dominant``.
    """

    scalar: int = 0
    amounts: tuple[tuple[str, int], ...] = ()


class QuotaWindow(msgspec.Struct, frozen=True):
    """A part of the week with another quota.

    ``days`` are 0 (Monday) … 6; ``start`` and ``end`` are minutes of the local day. A window whose end is not after its
    start crosses midnight and belongs to the day on which it starts.
    """

    days: tuple[int, ...]
    start: int
    end: int
    quota: Quota


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One group as configured. ``options`` holds its own values of the per-group options of ``Options``.

    ``parent`` is the group above it; empty: none. ``max_quota`` limits the group's use, ``lendable`` the use of its
    idle quota by others; ``None``: no limit. A group that is ``closed`` takes no new jobs; ``closed_at`` (wall clock,
    µs) is the time of closing, entered by the machine. Among groups that may be preempted, those with the lowest
    ``preempt_priority`` yield first. ``admins`` are the users who control its jobs and change its limits.
    ``notify`` are addresses that are told what becomes of its jobs.
    """

    name: str
    quota: Quota = Quota()
    windows: tuple[QuotaWindow, ...] = ()
    users: tuple[str, ...] = (EVERYONE,)
    policy: SchedPolicy = SchedPolicy.FIFO
    preemptive: PreemptivePolicy = PreemptivePolicy.LOW_PRIORITY_FIRST
    weight: int = 1
    user_weights: tuple[tuple[str, int], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    limits: Limits = Limits()
    closed: bool = False
    closed_at: int = 0
    preempt_priority: int = 0
    admins: tuple[str, ...] = ()
    notify: tuple[Notify, ...] = ()
    parent: str = ""
    max_quota: Quota | None = None
    lendable: Quota | None = None

    def admits(self, user: str) -> bool:
        """Return whether ``user`` may submit jobs to this group."""
        return EVERYONE in self.users or user in self.users
