"""Limits of a group: how many jobs of it run, wait and live, for all users and for each, and how large and long one may
be.
"""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a group; ``None``: there is no such limit.

    ``running``, ``waiting`` and ``jobs`` (both together) count jobs, those with ``_per_user`` the jobs of each user.
    For one job: ``tasks`` it has, ``size`` is the most that its tasks that may run at once ask for together (millicores
    in the accounting ``cpu``, millionths of a server in ``dominant``), or ``amounts`` by dimension; times are µs.
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
        """True if there is a limit that holds when jobs start."""
        return self.running is not None or self.running_per_user is not None
