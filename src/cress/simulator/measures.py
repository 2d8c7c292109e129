"""Measures of a run, computed afterwards from its history.

``MEASURES`` lists every key with its meaning; docs/simulate.md shows the same list, and a test compares them. Keys
contain their units; ratios and shares are plain numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cress.model.group import DEFAULT_GROUP, Group, Quota
from cress.model.groups.measures import total_of
from cress.model.groups.timetable import next_change, quota_at_utc
from cress.model.resources import ResourceVector
from cress.simulator.attempts import NOT_YET, AttemptHistory, Attempts, How, JobEnd
from cress.simulator.dags import Dags, dags_of, ready_times
from cress.simulator.day_measures import DayMeasures, day_of, has_day
from cress.simulator.deadline_measures import DeadlineCounts, count_deadlines
from cress.simulator.fragment_measures import FragmentMeasures, fragments_of
from cress.simulator.groups import NOWHERE
from cress.simulator.series import Ints, Steps, accumulate, distinct
from cress.simulator.workload import NO_LIMIT, Workload

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

TAU = 10 * 1_000_000  # bounded slowdown counts runs shorter than 10 s as 10 s
HOUR = 3_600_000_000
SECOND = 1_000_000

# key → meaning. `<dimension>` stands for each dimension that the cluster has and some job requests.
MEASURES: dict[str, str] = {
    "jobs": "jobs of the trace, without those left out in reading",
    "jobs_finished": "jobs whose tasks all ran to their end",
    "jobs_waiting": "jobs with tasks that never ran to their end",
    "jobs_rejected": "jobs that fit no node (a gang: not the whole cluster)",
    "jobs_cancelled": "jobs that were cancelled: a dependency failed, or `until` was reached",
    "jobs_refused": "jobs that a live cluster would not accept",
    "jobs_left_out": "further jobs of the trace, which were left out in reading: the notes tell why",
    "jobs_killed": "finished jobs whose run was cut at the time limit",
    "jobs_failed": "jobs with a task that failed for good",
    "tasks_finished": "tasks that ran to their end",
    "wait_mean_s": "mean wait: first start − submit, over all jobs that started (no services and cron "
    "jobs); of a job that "
    "comes after others: first "
    "start − the last end of these",
    "wait_median_s": "median wait",
    "wait_p95_s": "95th percentile of the waits",
    "wait_max_s": "longest wait",
    "bounded_slowdown_mean": "mean bounded slowdown: max(1, (end − submit) / max(run, 10 s)) over the finished jobs; "
    "for a single task that ran once, end − submit is wait + run; of a job that comes after others as in wait",
    "bounded_slowdown_median": "median bounded slowdown",
    "bounded_slowdown_p95": "95th percentile of the bounded slowdowns",
    "bounded_slowdown_max": "largest bounded slowdown",
    "turnaround_mean_s": "mean of end − submit over the finished jobs",
    "makespan_s": "last end − first submit",
    "utilisation_mean": "mean of the dimensions' utilisations below",
    "utilisation_<dimension>_mean": "allocated / total of the dimension, mean over the makespan",
    "use_<dimension>_mean": (
        "used / total of the dimension, mean over the makespan; only if the trace says what tasks use"
    ),
    "gpu_allocation_mean": "allocated / total GPU thousandths, mean over the makespan; with a dimension gpu",
    "gpu_allocation_max": "the highest GPU allocation at any moment; with a dimension gpu",
    "devices_allocated_mean": "allocated devices / all devices, mean from the first to the last submission (over the "
    "makespan if all "
    "are submitted at once), looked at about 200 times; "
    "where nodes count devices one by one, as all of these",
    "devices_unusable_mean": (
        "devices that are idle and that the next task, by the most frequent shapes of the trace, could not use / "
        "all devices, likewise"
    ),
    "devices_unusable_of_idle": "unusable / idle, of these means",
    "fairness_jain_mean": "Jain index over the groups with demand of min(used, entitled) / entitled, mean over the "
    "time "
    "in which some group has demand; entitled = min(demand, proportional share)",
    "fairness_jain_min": "the lowest Jain index at any moment",
    "deadlines": "jobs with a deadline; with deadlines, as all of these",
    "deadlines_met": "of these, those that finished by then",
    "deadlines_met_share": "met / having one (the deadline guarantee rate)",
    "deadlines_missed_share": "1 − met / having one",
    "bounded_slowdown_without_deadline_mean": "mean bounded slowdown of the finished jobs that have no deadline",
    "dags": "dags of the trace; with dags, as all of these",
    "dags_finished": "dags whose steps all finished",
    "dag_makespan_mean_s": "mean of last end − submission over the finished dags",
    "dag_makespan_median_s": "median of these",
    "dag_makespan_p95_s": "95th percentile",
    "dag_makespan_max_s": "the longest",
    "dag_critical_path_mean_s": "mean critical path of the finished dags: how long they take if every task starts as "
    "soon as "
    "it may, the least that any policy could reach",
    "dag_stretch_mean": "mean of makespan / critical path over the finished dags",
    "dag_stretch_median": "median of these",
    "dag_stretch_p95": "95th percentile",
    "dag_stretch_max": "the largest",
    "utilisation_arrivals_mean": (
        "allocated / total of cores from the first to the last submission; with named workloads or idle parts of "
        "leases, as all of these"
    ),
    "lease_idle_share_mean": (
        "cores in leases that no task uses and nobody borrows (fragments) / all cores, mean over the makespan"
    ),
    "lease_second_order_share_mean": "the part of these in leases of which a part is lent",
    "lease_lent_share_mean": "cores that are lent / all cores",
    "loans": "attempts that borrowed",
    "loans_stopped": "of these, those that ended early, mostly because the owner wanted its lease back",
    "loan_work_share": "work of attempts that borrowed / all work, in core hours",
    "loan_lost_share": "lost work of attempts that borrowed / all work",
    "peak_from_h": (
        "hour of day at which the peak begins: the four hours in which services and databases want most cores; "
        "with services or tasks that use less than they reserve, as all of these"
    ),
    "reserved_peak_mean": "reserved cores / all cores in the peak, mean of the days",
    "used_peak_mean": "used cores (what the tasks use of those that they reserve) / all cores in the peak",
    "reserved_day_mean": (
        "reserved cores / all cores over the day, from the first submission to the last one or the end of the services"
    ),
    "used_day_mean": "used cores / all cores over the day",
    "services_short_share": (
        "task time that services and databases wanted and lacked / wanted; with services or databases"
    ),
    "services_short_worst": "the same of the one that lacked most",
    "preemptions": "attempts that were preempted",
    "jobs_preempted": "jobs with at least one preempted attempt",
    "attempts_lost": "attempts that were lost with their node",
    "attempts_moved": "attempts that were stopped and restarted on another node (`rebalance`)",
    "attempts_stopped": "attempts that were stopped: with their gang, by a drain, or because their job was cancelled",
    "attempts_failed": "attempts that failed",
    "lost_work_core_h": "core hours of attempts that were preempted, lost, moved, stopped or failed; not of services",
    "lost_work_share": "lost work / all work, in core hours",
    "events": "submissions and completions handled",
    "decisions": "starts and preemptions decided",
    "loop_s": "wall-clock seconds of the event loop and the core",
    "events_per_s": "events / loop_s",
}

# Keys of one named workload, in summary.json under workloads.<group>/<name>.
WORKLOAD_MEASURES: dict[str, str] = {
    "applications_finished": "finished dags of the workload, and finished jobs that are in no dag",
    "completion_mean_s": "mean of last end − submission over these",
    "loans": "its attempts that borrowed",
}

# Keys of one group, in summary.json under groups.<name>.
GROUP_MEASURES: dict[str, str] = {
    "jobs": "jobs submitted to the group",
    "jobs_finished": "of these, finished",
    "quota_share": "quota / cluster, mean over the makespan",
    "used_share_mean": "used / cluster, mean over the makespan",
    "entitled_share_mean": "entitled / cluster, mean over the makespan",
    "wait_mean_s": "mean wait of its jobs",
    "bounded_slowdown_mean": "mean bounded slowdown of its jobs",
    "preemptions": "its attempts that were preempted",
    "deadlines": "its jobs with a deadline",
    "deadlines_met": "of these, those that finished by then",
    "deadlines_missed_share": "1 − met / having one; 0 of none",
}


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """One run: the workload, the group of each job, and the history.

    ``group_of`` ``[n]`` points into ``group_names``, ``NOWHERE`` for jobs that were not admitted. ``rejected`` ``[n]``
    marks jobs that could never run. ``groups`` are the configured groups as they ran.
    """

    label: str
    workload: Workload
    groups: tuple[Group, ...]
    group_names: tuple[str, ...]
    group_of: Ints
    rejected: Bools
    history: AttemptHistory
    accounting: str
    loop_s: float

    @property
    def attempts(self) -> Attempts:
        """Return all attempts."""
        return self.history.attempts

    @property
    def submitted(self) -> Bools:
        """Return the jobs that were submitted and accepted, ``[n]``."""
        return np.asarray((self.group_of != NOWHERE) & ~self.rejected & ~self.ended(JobEnd.REFUSED))

    @property
    def families(self) -> Bools:
        """Return the services, databases and cron jobs, ``[n]``."""
        workload = self.workload
        found = np.array([template.plan is not None for template in workload.templates], dtype=np.bool_)
        if workload.template_index is None:
            return np.full(len(workload), found[0])
        return np.asarray(found[workload.template_index])

    @property
    def cancelled(self) -> Bools:
        """Return the cancelled jobs, ``[n]``."""
        return self.ended(JobEnd.CANCELLED)

    @property
    def cancelled_after(self) -> Bools:
        """Return the jobs that were cancelled because a dependency failed, ``[n]``."""
        until = self.workload.until
        return self.cancelled if until is None else np.asarray(self.cancelled & (until == NO_LIMIT))

    @property
    def waiting(self) -> Bools:
        """Return the jobs with tasks that waited or ran at the end, ``[n]``."""
        return np.asarray(self.submitted & self.ended(JobEnd.WAITING))

    def ended(self, end: JobEnd) -> Bools:
        """Return the jobs that ended in this way, ``[n]``."""
        return np.asarray(self.history.ends == end)


@dataclass(frozen=True, kw_only=True)
class JobTimes:
    """Per job ``[n]``: first start and last end (``NOT_YET``), attempts, and which ones finished. Microseconds.

    ``ready`` is the time when the job could start (``dags.ready_times``), from which it waits. ``waited`` are the jobs
    that started and have a waiting time, which services, databases and cron jobs lack.
    """

    ready: Ints
    start: Ints
    end: Ints
    attempts: Ints
    preempted: Ints
    finished: Bools
    waited: Bools
    wait: Ints
    slowdown: Floats


@dataclass(frozen=True, kw_only=True)
class GroupSeries:
    """One group over time, as shares of the cluster."""

    used: Steps
    demand: Steps
    quota: Steps
    entitled: Steps


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """The measures and series of a run."""

    times: JobTimes
    start: int
    end: int
    utilisation: dict[str, Steps]
    groups: dict[str, GroupSeries]
    fairness: Steps
    dags: Dags | None
    deadlines: DeadlineCounts
    fragments: FragmentMeasures | None
    day: DayMeasures | None
    summary: dict[str, float]
    group_summary: dict[str, dict[str, float]]


def analyse(run: MeasuredRun) -> Analysis:
    """Return all measures of a run."""
    times = job_times(run)
    submitted = run.submitted
    submit = run.workload.submit
    start = int(submit[submitted].min()) if submitted.any() else 0
    end = max(int(run.attempts.end.max()) if len(run.attempts) else start, start)
    utilisation = _utilisation(run)
    groups = group_series(run, times.ready, start, end)
    fairness = jain(groups)
    dags = dags_of(run.workload, times.end)
    deadlines = count_deadlines(run.workload, submitted, times.end, times.finished, start)
    fragments = fragments_of(run.workload, run.history, run.group_names, run.group_of, times.end)
    day = day_of(run.workload, run.history) if has_day(run.workload, run.history) else None
    summary = _summary(run, times, start, end, utilisation, _use(run), fairness, dags, deadlines, fragments, day)
    return Analysis(
        times=times,
        start=start,
        end=end,
        utilisation=utilisation,
        groups=groups,
        fairness=fairness,
        dags=dags,
        deadlines=deadlines,
        fragments=fragments,
        day=day,
        summary=summary,
        group_summary={name: _of_group(run, times, name, groups[name], start, end, deadlines) for name in groups},
    )


def job_times(run: MeasuredRun) -> JobTimes:
    """Return first start, last end, wait and bounded slowdown of every job."""
    workload, attempts = run.workload, run.attempts
    n = len(workload)
    start = np.full(n, NOT_YET, dtype=np.int64)
    # Attempts are in the order of their starts, so the last write in reverse order is the first start.
    start[attempts.job[::-1]] = attempts.start[::-1]
    end = np.full(n, NOT_YET, dtype=np.int64)
    np.maximum.at(end, attempts.job, attempts.end)
    tries = np.bincount(attempts.job, minlength=n)
    preempted = np.bincount(attempts.job[attempts.preempted], minlength=n)
    finished = run.ended(JobEnd.FINISHED)
    end = np.where(finished, end, NOT_YET)
    ready = ready_times(workload, end, attempts)
    # After a failed predecessor a job may start before all others finish; then it waits from its submission.
    since = np.where(ready == NOT_YET, workload.submit, ready)
    wait = np.where(start == NOT_YET, 0, start - since)
    turnaround = np.where(finished, end - since, 0)
    slowdown = np.maximum(1.0, turnaround / np.maximum(workload.run, TAU))
    return JobTimes(
        ready=ready,
        start=start,
        end=end,
        attempts=tries,
        preempted=preempted,
        finished=finished,
        waited=np.asarray((start != NOT_YET) & ~run.families),
        wait=wait,
        slowdown=slowdown,
    )


def _utilisation(run: MeasuredRun) -> dict[str, Steps]:
    """Return allocated / total of each dimension that the cluster has and some job requests."""
    workload, attempts = run.workload, run.attempts
    total = workload.cluster.total()
    requests = np.array(workload.requests, dtype=np.int64)
    result = {}
    moments = np.concatenate([attempts.start, attempts.end])
    shape = workload.request_index[attempts.job]
    for k, name in enumerate(workload.cluster.dimensions.names):
        if total[k] and requests[:, k].any():
            amount = requests[shape, k]
            steps = accumulate(moments, np.concatenate([amount, -amount]))
            result[name] = Steps(steps.times, steps.values / total[k])
    return result


def _use(run: MeasuredRun) -> dict[str, Steps]:
    """Return used / total of each dimension of which the trace says what tasks use."""
    workload, attempts = run.workload, run.attempts
    total = dict(zip(workload.cluster.dimensions.names, workload.cluster.total(), strict=True))
    moments = np.concatenate([attempts.start, attempts.end])
    result = {}
    for name, amounts in workload.used.items():
        if total[name]:
            share = amounts[attempts.job] / total[name]
            result[name] = accumulate(moments, np.concatenate([share, -share]))
    return result


def share_of_cluster(request: ResourceVector, total: ResourceVector) -> float:
    """Return a task's share of the cluster: the largest of any dimension."""
    return max((amount / whole for amount, whole in zip(request, total, strict=True) if whole), default=0.0)


def quota_share(quota: Quota, run: MeasuredRun) -> float:
    """Return a quota as a share of the cluster."""
    cluster = run.workload.cluster
    total = cluster.total()
    if quota.amounts:
        whole_of = {name: total_of(name, cluster.nodes, cluster.dimensions) for name, _ in quota.amounts}
        return max((amount / whole_of[name] for name, amount in quota.amounts if whole_of[name]), default=0.0)
    whole = total[0] if run.accounting == "cpu" else len(cluster.nodes) * 1_000_000
    return quota.scalar / whole if whole else 0.0


def _quota_steps(group: Group, run: MeasuredRun, start: int, end: int) -> Steps:
    """Return the group's quota over time as a share of the cluster, with the changes of its timetable."""
    if not group.windows:
        return Steps(np.array([start], dtype=np.int64), np.array([quota_share(group.quota, run)]))
    utc, zone = run.workload.utc, run.workload.zone
    moments, shares = [start], [quota_share(quota_at_utc(group, utc + start, zone), run)]
    change = next_change(group, utc + start, zone)
    while change is not None and change - utc < end:
        moments.append(change - utc)
        shares.append(quota_share(quota_at_utc(group, change, zone), run))
        change = next_change(group, change, zone)
    return Steps(np.array(moments, dtype=np.int64), np.array(shares))


def group_series(run: MeasuredRun, ready: Ints, start: int, end: int) -> dict[str, GroupSeries]:
    """Return used, demand, quota and entitlement over time, for every group that is configured or has jobs.

    A job is wanted from the time when it is ``ready`` ``[n]``.
    """
    workload, attempts = run.workload, run.attempts
    total = workload.cluster.total()
    share = np.array([share_of_cluster(request, total) for request in workload.requests])
    per_task = share[workload.request_index]
    submitted = run.submitted
    by_name = {group.name: group for group in run.groups}
    quotas = {}
    for i, name in enumerate(run.group_names):
        group = by_name.get(name)
        if group is not None:
            quotas[name] = _quota_steps(group, run, start, end)
        elif bool((run.group_of[submitted] == i).any()):
            implied = Group(name=DEFAULT_GROUP, quota=Quota())
            quotas[name] = _quota_steps(implied, run, start, end)
    group_of_attempt = run.group_of[attempts.job]
    counted = np.asarray(submitted & (run.ended(JobEnd.FINISHED) | run.ended(JobEnd.WAITING)))
    result = {}
    for i, name in enumerate(run.group_names):
        if name not in quotas:
            continue
        mine = group_of_attempt == i
        job, began, ended = attempts.job[mine], attempts.start[mine], attempts.end[mine]
        amount = per_task[job]
        used = accumulate(np.concatenate([began, ended]), np.concatenate([amount, -amount]))
        jobs = np.flatnonzero(counted & (run.group_of == i) & (ready != NOT_YET))
        wanted = per_task[jobs] * workload.tasks[jobs]
        # A task is wanted until it is done; tasks of jobs that do not end by themselves, only while they run.
        rest = ~counted[job]
        done = attempts.finished[mine] & ~rest
        demand = accumulate(
            np.concatenate([ready[jobs], ended[done], began[rest], ended[rest]]),
            np.concatenate([wanted, -amount[done], amount[rest], -amount[rest]]),
        )
        result[name] = GroupSeries(used=_clean(used), demand=_clean(demand), quota=quotas[name], entitled=demand)
    return _entitle(result, quotas)


def _clean(steps: Steps) -> Steps:
    """Set rounding errors near 0 to 0, so that they do not count as demand."""
    return Steps(steps.times, np.where(steps.values < 1e-9, 0.0, steps.values))


def _entitle(groups: dict[str, GroupSeries], quotas: dict[str, Steps]) -> dict[str, GroupSeries]:
    changes = distinct(np.concatenate([quota.times for quota in quotas.values()])) if quotas else np.zeros(0, np.int64)
    total = np.zeros(len(changes))
    for quota in quotas.values():
        total += quota.at(changes)
    whole = Steps(changes, np.where(total > 0, total, 1.0))
    result = {}
    for name, group in groups.items():
        moments = np.union1d(group.demand.times, changes)
        fair = quotas[name].at(moments) / np.maximum(whole.at(moments), 1e-12)
        entitled = Steps(moments, np.minimum(group.demand.at(moments), fair))
        result[name] = GroupSeries(used=group.used, demand=group.demand, quota=group.quota, entitled=entitled)
    return result


def jain(groups: dict[str, GroupSeries]) -> Steps:
    """Return the Jain index over time: 1 where all groups with demand have nothing, 0 where no group has demand."""
    if not groups:
        return Steps(np.zeros(0, np.int64), np.zeros(0))
    moments = distinct(
        np.concatenate([steps.times for group in groups.values() for steps in (group.entitled, group.used)])
    )
    count, total, squares = np.zeros(len(moments)), np.zeros(len(moments)), np.zeros(len(moments))
    for group in groups.values():
        entitled = group.entitled.at(moments)
        wants = entitled > 0
        x = np.minimum(group.used.at(moments), entitled) / np.where(wants, entitled, 1.0)
        x = np.where(wants, x, 0.0)
        count += wants
        total += x
        squares += x * x
    index = np.where(squares > 0, total * total / np.where(squares > 0, count * squares, 1.0), 1.0)
    return Steps(moments, np.where(count > 0, index, 0.0))


def _summary(
    run: MeasuredRun,
    times: JobTimes,
    start: int,
    end: int,
    utilisation: dict[str, Steps],
    use: dict[str, Steps],
    fairness: Steps,
    dags: Dags | None,
    deadlines: DeadlineCounts,
    fragments: FragmentMeasures | None,
    day: DayMeasures | None,
) -> dict[str, float]:
    workload, attempts = run.workload, run.attempts
    finished = times.finished
    used = {name: steps.mean(start, end) for name, steps in utilisation.items()}
    cores = np.array([request[0] for request in workload.requests], dtype=np.float64)
    work = cores[workload.request_index[attempts.job]] / 1000 * (attempts.end - attempts.start) / HOUR
    # A stopped service has lost no work.
    lost = float(work[attempts.early & (workload.run[attempts.job] != NO_LIMIT)].sum())
    whole = float(work.sum())
    # The index is 0 only while no group has demand: that time does not count.
    wanted = Steps(fairness.times, (fairness.values > 0).astype(np.float64)).mean(start, end)
    busy = fairness.values[fairness.values > 0]
    preemptions = int(attempts.preempted.sum())
    result: dict[str, float] = {
        "jobs": len(workload),
        "jobs_finished": int(finished.sum()),
        "jobs_waiting": int(run.waiting.sum()),
        "jobs_rejected": int(run.rejected.sum()),
        "jobs_cancelled": int(run.cancelled.sum()),
        "jobs_refused": int(run.ended(JobEnd.REFUSED).sum()),
        "jobs_left_out": workload.notes.left_out,
        "jobs_killed": int((finished & workload.killed).sum()),
        "jobs_failed": int(run.ended(JobEnd.FAILED).sum()),
        "tasks_finished": int(attempts.finished.sum()),
        **_spread("wait", times.wait[times.waited] / SECOND, "_s"),
        **_spread("bounded_slowdown", times.slowdown[finished], ""),
        "turnaround_mean_s": _mean((times.end - workload.submit)[finished] / SECOND),
        "makespan_s": (end - start) / SECOND,
        "utilisation_mean": sum(used.values()) / len(used) if used else 0.0,
        **{f"utilisation_{name}_mean": value for name, value in used.items()},
        **{f"use_{name}_mean": steps.mean(start, end) for name, steps in use.items()},
    }
    if "gpu" in utilisation:
        result["gpu_allocation_mean"] = used["gpu"]
        result["gpu_allocation_max"] = float(utilisation["gpu"].values.max(initial=0.0))
    if run.history.devices is not None:
        result |= run.history.devices.summary()
    if workload.deadline is not None:
        total = deadlines.total
        result |= {
            "deadlines": total.having,
            "deadlines_met": total.met,
            "deadlines_met_share": 1.0 - total.missed_share,
            "deadlines_missed_share": total.missed_share,
            "bounded_slowdown_without_deadline_mean": _mean(times.slowdown[finished & ~deadlines.having]),
        }
    if dags is not None:
        result |= {
            "dags": len(dags.family),
            "dags_finished": int(dags.finished.sum()),
            **_spread("dag_makespan", dags.makespan / SECOND, "_s"),
            "dag_critical_path_mean_s": _mean(dags.path[dags.finished] / SECOND),
            **_spread("dag_stretch", dags.stretch, ""),
        }
    if fragments is not None:
        last = int(workload.submit[run.submitted].max()) if run.submitted.any() else end
        used_cores = utilisation.get("cpu")
        result["utilisation_arrivals_mean"] = used_cores.mean(start, last) if used_cores is not None else 0.0
        result |= fragments.summary(start, end)
    if day is not None:
        result |= day.summary()
    result |= {
        "fairness_jain_mean": fairness.mean(start, end) / wanted if wanted else 1.0,
        "fairness_jain_min": float(busy.min()) if len(busy) else 1.0,
        "preemptions": preemptions,
        "jobs_preempted": int((times.preempted > 0).sum()),
        "attempts_lost": int(attempts.lost.sum()),
        "attempts_moved": int((attempts.how == How.MOVED).sum()),
        "attempts_stopped": int((attempts.how == How.STOPPED).sum()),
        "attempts_failed": int((attempts.how == How.FAILED).sum()),
        "lost_work_core_h": lost,
        "lost_work_share": lost / whole if whole else 0.0,
        "events": run.history.events,
        "decisions": len(attempts) + preemptions,
        "loop_s": run.loop_s,
        "events_per_s": run.history.events / run.loop_s if run.loop_s else 0.0,
    }
    return result


def _of_group(
    run: MeasuredRun, times: JobTimes, name: str, series: GroupSeries, start: int, end: int, deadlines: DeadlineCounts
) -> dict[str, float]:
    number = run.group_names.index(name)
    mine = run.group_of == number
    return {
        "jobs": int(mine.sum()),
        "jobs_finished": int((mine & times.finished).sum()),
        "quota_share": series.quota.mean(start, end),
        "used_share_mean": series.used.mean(start, end),
        "entitled_share_mean": series.entitled.mean(start, end),
        "wait_mean_s": _mean(times.wait[mine & times.waited] / SECOND),
        "bounded_slowdown_mean": _mean(times.slowdown[mine & times.finished]),
        "preemptions": int(times.preempted[mine].sum()),
        **deadlines.of(mine).as_data(),
    }


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


def _spread(name: str, values: Floats, unit: str) -> dict[str, float]:
    keys = [f"{name}_{what}{unit}" for what in ("mean", "median", "p95", "max")]
    if not len(values):
        return dict.fromkeys(keys, 0.0)
    figures = (values.mean(), np.median(values), np.percentile(values, 95), values.max())
    return {key: float(value) for key, value in zip(keys, figures, strict=True)}
