"""Vetoes: the reasons why units are not placed, as data; ``explain.py`` makes sentences of them."""

from __future__ import annotations

from enum import Enum

import msgspec

from cress.core.tables.licences import LicenceShortage
from cress.core.tables.measured_load import NO_OVERLOAD, Busy


class Verdict(Enum):
    """The result of a pass for a group, and the kind of a veto."""

    PLACED = "placed"
    HELD = "held"  # the job is held
    FULL = "full"  # as many tasks of the job run as may at once
    AFTER = "after"  # a job that it depends on is not over
    BACKOFF = "backoff"  # its failed task waits for its backoff
    TOGETHER = "together"  # it starts again with the job that it depends on
    MOVING = "moving"  # jobs that depend on it are being stopped, to start again with it
    UNVISITED = "unvisited"  # the passes ended before they reached the group
    COOLING = "cooling"  # the group was preempted a short time ago
    QUOTA = "quota"  # an earlier group is blocked, and this one is not below its quota
    NEVER = "never"  # no node of this cluster is large enough
    NEVER_SATISFIED = "never_satisfied"  # no node of this cluster satisfies its clauses and is large enough
    NEVER_TOGETHER = "never_together"  # a gang: all nodes together are not large enough
    LICENCE = "licence"  # too few of a licence are free, or there are too few at all
    UNSATISFIED = "unsatisfied"  # no node satisfies its clauses at the moment
    NO_NODE = "no_node"  # the nodes that could hold it are away, cordoned or overloaded
    NO_ROOM = "no_room"  # no node has enough free, of those that satisfy its clauses
    NO_ROOM_TOGETHER = "no_room_together"  # a gang: not enough nodes have enough free
    RESERVED_AHEAD = (
        "reserved ahead"  # there is room, but it is reserved in advance for others, now or before its task would end
    )
    NO_GAP = "no gap"  # no time between advance reservations is long enough for it
    OWED = "owed"  # there is room, but others could take it back at once
    RESERVED = "reserved"  # there is room, but taking it would delay a reservation
    VICTIMS = "victims"  # tasks of other groups were told to make room
    DRAINING = "draining"  # no known end makes room, so nodes are kept free
    GATE = "gate"  # the balance gate holds it: another waiting unit balances the nodes better
    RUNNING_LIMIT = "running_limit"  # as many jobs of its group, or of its user there, run as may at once
    USER_LIMIT = "user_limit"  # its user already uses the most that one user may in the group
    MAX_QUOTA = "max_quota"  # its group, or one that this is in, would have more than its MaxQuota
    FORBIDDEN = "forbidden"  # it is larger than its group's quota, and what others may demand leaves no room for it
    KEPT = "kept"  # it would take what other groups keep for themselves
    BEHIND = "behind"  # the group's policy puts another job first
    PLANNED = "planned"  # conservative backfill planned its start
    GANG_RUNS = "gang_runs"  # tasks of the gang still run; it starts again as a whole


class Absent(Enum):
    """The kinds of things that constraints name and that do not exist."""

    ATTRIBUTE = "attribute"  # no node has it
    TEXT = "text"  # no node has it, and the name stands where a text may be meant
    JOB = "job"  # no live job has this name
    TASK = "task"  # the job has no running task
    LOAD = "load"  # it is not measured
    DATA = "data"  # no node has it
    PORT = "port"  # it is in use
    PATTERN = "pattern"  # no node has such a name
    VALUE = "value"  # no node has an attribute with this value
    OF_JOB = "of job"  # it is an attribute of a job, and no job is there
    PLACE = "place"  # the location of the data is not known, for a reason or not yet


class Missing(msgspec.Struct, frozen=True):
    """A name in a constraint of something that does not exist, as it was written; ``near`` is a similar name that
    exists.

    ``why`` is the reason, if it is known.
    """

    kind: Absent
    name: str
    near: str = ""
    why: str = ""


class Reserved(msgspec.Struct, frozen=True):
    """An advance reservation that keeps nodes from a unit at a time, which is said as clocks show it; without a group
    it is for maintenance.

    ``shorter`` is the longest time (µs) that a task which starts now on one of them may last; 0: it holds already.
    """

    name: str
    group: str
    nodes: tuple[str, ...]
    when: str
    shorter: int = 0
    limited: bool = True


class Reached(msgspec.Struct, frozen=True):
    """A limit on running jobs that is reached: of a group, or (``user``) of a user in it; ``running`` of at most
    ``most``.
    """

    group: str
    user: str
    running: int
    most: int


class Veto(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a job waits.

    ``never``: no node of this cluster could run it, ever. ``lacking``: per dimension that is short, the number of
    usable nodes that have too little of it free, of ``nodes`` usable ones; nodes that a clause excludes do not count.
    ``clauses``: per clause that excludes some of them, its text and the number that only it excludes. ``behind``: the
    job that it waits for or must not delay. ``until``: the time at which the reason ends by itself (or a clause
    relaxes), or the reserved or planned start. ``licences``: those of which too few are free, or exist. ``missing``:
    names in the clauses of things that do not exist. ``bound``: constraints that bind all tasks of a gang together.
    ``overloaded``: nodes that are left out for their load alone. ``closed``: of the nodes that could hold it, how many
    are away, cordoned, and so on. ``level``: the group on whose level of the tree it is held, if not its own;
    ``bounded``: the bound of groups that it would break, as a sentence. ``together``: the jobs that depend on it and
    start, or stay, together with it; those that still run are on the node ``together_on``, and it is to start
    ``beside`` them or all of them move. ``because``: the reason why the job that it starts together with waits.
    ``reserved``: what is reserved in advance on the nodes that have room; ``gap``: the longest time (µs) that
    reservations leave. ``reached``: the limit on running jobs, or on tasks of it (``max_running``), that keeps it from
    starting. ``ends``: ``until`` as clocks show it. ``preempted_for``: the job for which tasks of its group were
    preempted. ``user``: whose limit is reached. ``details`` are sentences about the domains that its clauses compare.
    """

    kind: Verdict
    job: int
    group: str
    never: bool = False
    lacking: tuple[tuple[str, int], ...] = ()
    clauses: tuple[tuple[str, int], ...] = ()
    nodes: int = 0
    behind: int | None = None
    behind_group: str = ""
    until: int | None = None
    places: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    bound: tuple[str, ...] = ()
    overloaded: Busy = NO_OVERLOAD
    licences: tuple[LicenceShortage, ...] = ()
    closed: tuple[tuple[str, int], ...] = ()
    level: str = ""
    bounded: str = ""
    together: tuple[int, ...] = ()
    together_on: str = ""
    beside: bool = False
    because: Veto | None = None
    reserved: Reserved | None = None
    gap: int = 0
    reached: Reached | None = None
    ends: str = ""
    preempted_for: int | None = None
    user: str = ""
    details: tuple[str, ...] = ()
