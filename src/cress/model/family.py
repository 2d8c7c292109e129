"""Families: jobs whose tasks are jobs themselves, their members: service, database, cron, dag (design note 0006).

The spec of a family (``Job.plan``) says how its members are made and replaced.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from cress.model.times import MINUTE


class Overlap(Enum):
    """The rule for a cron job that is due while its previous run has not ended."""

    FORBID = "forbid"  # this run is left out
    ALLOW = "allow"  # both run
    REPLACE = "replace"  # the last run is cancelled


class Missed(Enum):
    """The rule for runs that were due while no center ran, or while the job was held."""

    SKIP = "skip"
    ONCE = "once"  # one run, however many were missed


class _Spec(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    pass


class Service(_Spec, frozen=True):
    """A job that is kept at its task count. Each task is one member.

    ``checked``: its runs have a check of readiness, else a task is ready ``ready_after`` µs after its start. An update
    takes at most ``max_unavailable`` tasks out at once; a new version of which a task is not ready ``update_timeout``
    µs after it was placed and started is taken back. ``timetable``: cron expressions and the task counts that hold from
    these moments on, in the time zone ``zone``.
    """

    checked: bool = False
    ready_after: int = 0
    max_unavailable: int = 1
    update_timeout: int = 5 * MINUTE
    timetable: tuple[tuple[str, int], ...] = ()
    zone: str = "UTC"


class Database(_Spec, frozen=True):
    """A service whose tasks have an identity: index, directory and node stay, and each is alive at most once.

    They start in order, each when the one before is ready; an update goes the other way round, one at a time. A task
    returns to its node as long as that lives, and moves when it was away for ``move_after`` µs. Never preempted.
    """

    checked: bool = False
    ready_after: int = 0
    update_timeout: int = 5 * MINUTE
    move_after: int = 5 * MINUTE


class Cron(_Spec, frozen=True):
    """Runs at the moments of the expression ``when``, read in the time zone ``zone``. Its members are its runs."""

    when: str
    zone: str = "UTC"
    overlap: Overlap = Overlap.FORBID
    missed: Missed = Missed.SKIP


class Dag(_Spec, frozen=True):
    """Steps that depend on each other. Its members are jobs of the same submit, named in ``steps``, in their order.

    ``resumed`` is the dag whose successful steps were left out; 0: none.
    """

    steps: tuple[str, ...] = ()
    resumed: int = 0


FamilySpec: TypeAlias = Service | Database | Cron | Dag
