"""Vetoes: the reasons why units are not placed, as data; ``diagnostics/sentences.py`` turns them into sentences."""

from __future__ import annotations

from enum import Enum

import msgspec

from cress.core.accounts import AtBound
from cress.core.tables.measured_load import NO_OVERLOAD, Busy


class Verdict(Enum):
    """The result of a pass for a group, and the kind of a veto."""

    PLACED = "placed"
    HELD = "held"  # the job is held
    FULL = "full"  # its tasks have reached max_running
    AFTER = "after"  # a job on which it depends has not ended
    AFTER_TASKS = "after_tasks"  # each of its tasks waits for the same task of another job
    BACKOFF = "backoff"  # its failed task waits for its backoff
    TOGETHER = "together"  # it restarts with the job on which it depends
    AS_WHOLE = "as_whole"  # a member of a service that starts as a whole: it starts with the others
    MOVING = "moving"  # jobs that depend on it are being stopped, to restart with it
    UNVISITED = "unvisited"  # the passes ended before they reached the group
    COOLING = "cooling"  # the group is in its cooling-off after a preemption
    QUOTA = "quota"  # an earlier group is blocked, and this one is not below its quota
    NEVER = "never"  # no node of this cluster is large enough
    NEVER_SATISFIED = "never_satisfied"  # no node of this cluster satisfies its clauses and is large enough
    NEVER_TOGETHER = "never_together"  # a gang: all nodes together are too small
    LICENCE = "licence"  # too few of a licence are free, or exist at all
    UNSATISFIED = "unsatisfied"  # no node satisfies its clauses at the moment
    NO_NODE = "no_node"  # the nodes that could hold it are absent, cordoned or overloaded
    NO_ROOM = "no_room"  # no node that satisfies its clauses has enough free
    NO_ROOM_TOGETHER = "no_room_together"  # a gang: too few nodes have enough free
    RESERVED_AHEAD = (
        "reserved ahead"  # there is room, but it is reserved in advance for others, now or before its task would end
    )
    NO_GAP = "no gap"  # every time between advance reservations is too short for it
    OWED = "owed"  # there is room, but others could take it back at once
    RESERVED = "reserved"  # there is room, but taking it would delay a reservation
    VICTIMS = "victims"  # tasks of other groups were told to make room
    DRAINING = "draining"  # no known end makes room, so nodes are kept free
    GATE = "gate"  # the balance gate holds it: another waiting unit balances the nodes better
    RUNNING_LIMIT = "running_limit"  # a limit on the running jobs of its group, or of its user there, is reached
    USER_LIMIT = "user_limit"  # its user already uses the most that one user may use in the group
    MAX_QUOTA = "max_quota"  # its group, or one above it, would exceed its MaxQuota
    FORBIDDEN = "forbidden"  # it is larger than its group's quota, and the demand of others leaves no room for it
    KEPT = "kept"  # it would take capacity that other groups keep for themselves
    BEHIND = "behind"  # the group's policy puts another job first
    PLANNED = "planned"  # conservative backfill planned its start
    GANG_RUNS = "gang_runs"  # tasks of the gang still run; it starts again as a whole


class Absent(Enum):
    """The kinds of missing things to which constraints refer."""

    ATTRIBUTE = "attribute"  # no node has it
    TEXT = "text"  # no node has it, and the name stands where a text may be meant
    JOB = "job"  # no live job has this name
    TASK = "task"  # the job has no running task
    LOAD = "load"  # it is not measured
    DATA = "data"  # no node has it
    PORT = "port"  # it is in use
    PATTERN = "pattern"  # no node has such a name
    VALUE = "value"  # no node has an attribute with this value
    OF_JOB = "of job"  # it is an attribute of a job, where no job is given
    PLACE = "place"  # the location of the data is unknown, for a reason or not yet


class Missing(msgspec.Struct, frozen=True):
    """A name in a constraint, as written, that refers to nothing; ``near`` is a similar name that exists.

    ``why`` is the reason, if known.
    """

    kind: Absent
    name: str
    near: str = ""
    why: str = ""


class Reserved(msgspec.Struct, frozen=True):
    """An advance reservation that keeps nodes from a unit, with its time as clocks show it.

    Without a group it is a maintenance window. ``shorter`` is the longest duration (µs) of a task that starts there
    now; 0: the reservation is in force.
    """

    name: str
    group: str
    nodes: tuple[str, ...]
    when: str
    shorter: int = 0
    limited: bool = True


class Veto(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a job waits.

    ``never``: no node of this cluster could ever run it. ``lacking``: per short dimension, the number of usable nodes
    with too little of it free, of ``nodes`` usable ones; nodes excluded by a clause do not count. ``clauses``: per
    clause that excludes some of them, its text and the number that only it excludes. ``behind``: the job for which it
    waits, or which it must not delay. ``until``: the time (µs) at which the reason ends by itself or a clause relaxes,
    or the reserved or planned start. ``missing``: names in the clauses that refer to nothing. ``bound``: constraints on
    all tasks of a gang together. ``overloaded``: nodes excluded only for their load. ``closed``: the numbers of nodes
    that could hold it but are absent, cordoned, and so on. ``level``: the group on whose level of the tree it is held,
    if not its own; ``bounded``: the bound of groups that it would break, as a sentence. ``together``: the jobs that
    depend on it and start, or stay, together with it; the running ones are on the node ``together_on``, and it is to
    start ``beside`` them, or all of them move. ``because``: the reason why the job with which it starts waits.
    ``reserved``: the advance reservations on the nodes with room; ``gap``: the longest time (µs) between reservations.
    ``at_bound``: the accounts at their bounds, or its own number of tasks (``max_running``). ``ends``: ``until`` as
    clocks show it. ``preempted_for``: the job for which tasks of its group were preempted. ``details``: sentences about
    the domains compared by its clauses. ``whole``: what starts as a whole, a gang or a service.
    ``shown`` and ``behind_shown``: the numbers by which people know ``job`` and ``behind``: a task of a service or
    database is known by the number of that.
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
    closed: tuple[tuple[str, int], ...] = ()
    level: str = ""
    bounded: str = ""
    together: tuple[int, ...] = ()
    together_on: str = ""
    beside: bool = False
    because: Veto | None = None
    reserved: Reserved | None = None
    gap: int = 0
    at_bound: tuple[AtBound, ...] = ()
    ends: str = ""
    preempted_for: int | None = None
    details: tuple[str, ...] = ()
    whole: str = "gang"
    shown: int = 0
    behind_shown: int = 0
