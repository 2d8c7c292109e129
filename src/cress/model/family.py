"""Families: jobs whose tasks are jobs themselves, called members: service, database, cron, dag (design note 0006).

The spec of a family (``Job.plan``) says how its members are made and replaced.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from cress.model.step_values import Values
from cress.model.times import MINUTE


class Overlap(Enum):
    """The rule for a run of a cron job that is due before the previous run has ended."""

    FORBID = "forbid"  # this run is skipped
    ALLOW = "allow"  # both run
    REPLACE = "replace"  # the previous run is cancelled


class Missed(Enum):
    """The rule for runs that were due while no center ran or the job was held."""

    SKIP = "skip"
    ONCE = "once"  # one run, for any number of missed ones


class _Spec(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    pass


class Service(_Spec, frozen=True):
    """A job that is kept at its task count. Each task is one member.

    ``checked``: its runs have a readiness check; otherwise a task is ready ``ready_after`` µs after its start. An
    update takes at most ``max_unavailable`` tasks out of service at once, and runs ``surge`` tasks more than the count
    while it goes on. With ``canary`` it replaces only so many tasks until it is promoted (0: all). If a task of a new
    version is not ready ``update_timeout`` µs after it was placed and started, the version is rolled back.
    ``timetable``: cron expressions and the task counts that hold from these moments on, in the time zone ``zone``.
    """

    checked: bool = False
    ready_after: int = 0
    max_unavailable: int = 1
    update_timeout: int = 5 * MINUTE
    timetable: tuple[tuple[str, int], ...] = ()
    zone: str = "UTC"
    surge: int = 0
    canary: int = 0


class Database(_Spec, frozen=True):
    """A service whose tasks have an identity: index, directory and node stay, and each is alive at most once.

    They start in order, each when the one before is ready; an update goes in the reverse order, one at a time. A task
    returns to its node while that exists, and moves after the node was away for ``move_after`` µs. It is never
    preempted.
    """

    checked: bool = False
    ready_after: int = 0
    update_timeout: int = 5 * MINUTE
    move_after: int = 5 * MINUTE


class Cron(_Spec, frozen=True):
    """Runs at the moments of the expression ``when``, in the time zone ``zone``. Its members are its runs."""

    when: str
    zone: str = "UTC"
    overlap: Overlap = Overlap.FORBID
    missed: Missed = Missed.SKIP


class StepEnd(msgspec.Struct, frozen=True, array_like=True):
    """The end of a step in an earlier dag: its name, the word for its state, and its values."""

    name: str
    state: str
    values: Values = ()


class Dag(_Spec, frozen=True):
    """Steps that depend on each other. Its members are the jobs ``steps`` of the same submit, in their order.

    ``resumed`` is the dag whose successful steps were left out; 0: none. ``before`` are the ends of these steps.
    """

    steps: tuple[str, ...] = ()
    resumed: int = 0
    before: tuple[StepEnd, ...] = ()


FamilySpec: TypeAlias = Service | Database | Cron | Dag
