"""Estimates of how long tasks will run, from earlier runs (design note 0022)."""

from __future__ import annotations

import msgspec


class RunEstimate(msgspec.Struct, frozen=True):
    """Forecast of how long one task of a job will run, in µs; none of them is above its time limit.

    10 % of such runs are shorter than ``optimistic``, 10 % longer than ``pessimistic``; half of them are longer than
    ``run``, from which the end of a task is predicted. Without runs of the same name ``optimistic`` is 0: a limit and
    other jobs do not show that a run cannot be short. 10 % of such runs take a smaller part of their own time limits
    than ``least`` is of this one: where limits are right, it is the limit, however much runs differ. 0 if it is not
    known.
    """

    optimistic: int
    mean: int
    pessimistic: int
    run: int
    least: int = 0
