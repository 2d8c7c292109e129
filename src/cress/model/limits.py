"""Limits of a group: numbers of running, waiting and unfinished jobs, for all users and for each, and the size and time
of one job.
"""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a group; ``None``: no limit.

    ``running``, ``waiting`` and ``jobs`` (both together) count jobs; those with ``_per_user`` count the jobs of each
    user. For one job: ``tasks`` limits its number of tasks; ``size`` limits the total request of its tasks that may run
    at once (millicores in the accounting ``cpu``, millionths of a server in ``dominant``), ``amounts`` the amounts by
    dimension. Times are in µs.
    """

    running: int | None = None
    running_per_user: int | None = None
    jobs: int | None = None
    jobs_per_user: int | None = None
    waiting: int | None = None
    waiting_per_user: int | None = None
    tasks: int | None = None
    size: int | None = None
    amounts: tuple[tuple[str, int], ...] = ()
    time_limit: int | None = None
    default_time_limit: int | None = None

    @property
    def at_start(self) -> bool:
        """Flag: some limit applies when jobs start."""
        return self.running is not None or self.running_per_user is not None
