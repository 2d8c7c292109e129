"""Estimates of how long tasks will run, from earlier runs (design note 0022)."""

from __future__ import annotations

import msgspec


class RunEstimate(msgspec.Struct, frozen=True):
    """Forecast of how long one task of a job will run, in µs; none of them is above its time limit.

    10 % of such runs are shorter than ``optimistic``, 10 % longer than ``pessimistic``; half of them are longer than ``run``,
    from which the end of a task is predicted.
    """

    optimistic: int
    mean: int
    pessimistic: int
    run: int
