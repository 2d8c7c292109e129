"""Estimates of the run time of tasks, from earlier runs (design note 0022)."""

from __future__ import annotations

import msgspec


class RunEstimate(msgspec.Struct, frozen=True):
    """Forecast of the run time of one task of a job, in µs; no value is above the job's time limit.

    10 % of such runs are shorter than ``optimistic``, 10 % longer than ``pessimistic``, and half are longer than
    ``run``, which predicts the end of a task. Without earlier runs of the same name ``optimistic`` is 0, since a limit
    and other jobs do not exclude a short run. For 10 % of such runs the ratio of run time to their time limit is below
    the ratio of ``least`` to this limit. Where limits are accurate, ``least`` equals the limit, even if run times
    differ much. ``least`` is 0 if unknown.
    """

    optimistic: int
    mean: int
    pessimistic: int
    run: int
    least: int = 0
