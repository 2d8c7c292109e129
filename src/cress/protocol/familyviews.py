"""Services, databases, cron jobs and dags, as the API shows what they have beside other jobs.

Times are seconds since the epoch (``None``: never, or not yet).
"""

from __future__ import annotations

import msgspec


class FamilyPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the view of a job."""


class ServiceView(FamilyPart, frozen=True):
    """A service or database that is alive.

    ``ready`` of ``wanted`` tasks are ready; ``version`` counts its versions from 1, and ``updated`` tasks are of this
    one. ``updating``: an update is under way, ``waits`` for what. ``returned``: a version was taken back, because of
    ``returned_because``: version ``returned_version``, whose member ``returned_job`` (a job with a log) never was
    ready. ``next`` is when the timetable makes the task count another one, ``next_tasks``, which is read in the
    ``zone``. ``failing``: why the version would be rolled back if there was an earlier one; it is tried again and
    again, and its task has failed ``failures`` times in a row.
    """

    wanted: int
    ready: int
    version: int
    updated: int = 0
    updating: bool = False
    waits: str = ""
    returned: bool = False
    returned_because: str = ""
    returned_version: int | None = None
    returned_job: int | None = None
    next: float | None = None
    next_tasks: int | None = None
    zone: str = "UTC"
    failing: str = ""
    failures: int = 0


class CronView(FamilyPart, frozen=True):
    """A cron job that is alive: its ``next`` moments (three at most), and its ``last`` run, the job ``last_job``.

    Counts: ``runs`` that were made, moments ``skipped`` because a run was not over, moments ``missed``.
    """

    when: str
    zone: str
    overlap: str
    missed_runs: str
    next: tuple[float, ...] = ()
    last: float | None = None
    last_job: int | None = None
    last_state: str = ""
    runs: int = 0
    skipped: int = 0
    missed: int = 0


class StepView(FamilyPart, frozen=True):
    """A step of a dag: the job ``id``; ``after`` are the steps that must end first, and how."""

    name: str
    id: int
    state: str
    after: dict[str, str] = {}
    reason: str = ""


class DagView(FamilyPart, frozen=True):
    """A dag. Its steps are told of a single job; ``resumed`` is the dag whose steps that succeeded were left out."""

    steps: tuple[StepView, ...] = ()
    resumed: int | None = None
