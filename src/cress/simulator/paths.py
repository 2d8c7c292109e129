"""The choice of the path: through the lifecycle, as in a live cluster, straight to the scheduler, or as columns.

A plain workload has jobs that are submitted, may depend on each other, run and end, on nodes that stay. For such a
workload the lifecycle leads to the same starts (a property test compares them) and takes more than twice the processor
time, so it goes straight to the scheduler. Everything else goes through the lifecycle: failures and retries, services,
databases and cron jobs, cancellations, tasks that wait for single tasks, nodes that fail or are drained. The order
one-by-one exists on the direct path only, which also supports nodes that fail.

A log of processors under FIFO or EASY needs not even the scheduler (``processors``); property tests compare the starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cress.model.errors import InputError
from cress.model.group import Group
from cress.model.job import Condition
from cress.model.options import OFF, Options
from cress.simulator.attempts import AttemptHistory
from cress.simulator.event_orders import ONE_BY_ONE, Progress
from cress.simulator.processors.path import ProcessorsPath, is_processor_log
from cress.simulator.workload import Bools, Ints, Workload, template

if TYPE_CHECKING:
    from cress.core.scheduler import Scheduler
    from cress.simulator.forecasts import Foretelling

# Keys that only the lifecycle reads; a template with a non-default value of one is not plain.
LIFECYCLE_KEYS = ("type", "plan", "retries", "on_partition", "job_failure", "hold")


class Path(Protocol):
    """A way to run a workload: a scheduler with its nodes and groups, and a loop that drives it."""

    @property
    def core(self) -> Scheduler:
        """Return the scheduler."""

    @property
    def foretelling(self) -> Foretelling | None:
        """Return what foretells starts; ``None`` if nothing does."""

    def never_fit(self, admitted: Ints, groups: list[str]) -> Bools:
        """Return the jobs ``[n]`` among the ``admitted`` positions, of these groups, that could never run."""

    def run(self, jobs: list[int], groups: list[str], *, check: bool, progress: Progress | None) -> AttemptHistory:
        """Run the jobs at these positions in these groups; ``progress`` is called with the number of events so far."""


def path_of(
    workload: Workload,
    groups: tuple[Group, ...],
    options: Options,
    order: str,
    forecasts: int = 0,
    *,
    check: bool = False,
) -> Path:
    """Return the path of the workload in this order of events, ready to run. Raise ``InputError``.

    The start of every ``forecasts``th job that waits is foretold; 0: none. With ``check`` the invariants of the
    scheduler are to be checked, so there must be one.
    """
    if not forecasts and not check and is_processor_log(workload, groups, options):
        return ProcessorsPath(workload, groups, options, order)
    if needs_lifecycle(workload, order, options):
        if forecasts:
            because = _only_lifecycle(workload) or "nodes that fail, or tasks that move"
            raise InputError(
                f"starts are foretold for plain workloads only, and this one has {because}",
                hint="without --forecasts",
                field="--forecasts",
            )
        from cress.simulator.managed import LifecyclePath

        return LifecyclePath(workload, groups, options)
    # Scheduler and lifecycle take most of a second to import, so each is imported only for what needs it.
    from cress.simulator.scheduler_path import DirectPath

    return DirectPath(workload, groups, options, order, forecasts)


def needs_lifecycle(workload: Workload, order: str, options: Options | None = None) -> bool:
    """Return whether the workload needs the lifecycle.

    Raise ``InputError`` if it does and the order of events excludes the lifecycle.
    """
    moves = options is not None and options.rebalance != OFF
    because = _only_lifecycle(workload) or ("tasks that move" if moves else "")
    if order == ONE_BY_ONE:
        if because:
            raise InputError(
                f"one-by-one replays plain logs, and this workload has {because}",
                hint="--events together",
                field="--events",
            )
        return False
    return bool(because or workload.cluster.outages)


def _only_lifecycle(workload: Workload) -> str:
    """Return a part of the workload that the direct path does not support; empty: none."""
    if workload.cluster.drains:
        return "drains"
    if workload.cluster.reservations:
        return "advance reservations"
    if workload.fails is not None and workload.fails.any():
        return "tasks that fail"
    if workload.until is not None and (workload.until >= 0).any():
        return "jobs that are cancelled"
    if workload.scales:
        return "services"
    if any(how is Condition.TASKS for conditions in workload.after or () for _, how in conditions):
        return "tasks that wait for single tasks"
    plain = template()
    for job_template in workload.templates:
        for key in LIFECYCLE_KEYS:
            if getattr(job_template, key) != getattr(plain, key):
                return f"jobs with {key}"
    return ""
