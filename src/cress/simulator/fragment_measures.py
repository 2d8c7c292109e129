"""Measures of fragments and loans, and the completion times of each workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cress.simulator.attempts import NOT_YET, AttemptHistory, Attempts
from cress.simulator.series import Floats, Ints, Steps
from cress.simulator.workload import Workload

SECOND = 1_000_000


@dataclass(frozen=True)
class WorkloadMeasures:
    """One named workload: its finished applications, their mean time from submission to end (s), and its loans.

    Applications are dags, and jobs outside dags.
    """

    applications: int
    completion_mean_s: float
    loans: int

    def as_data(self) -> dict[str, float]:
        """Return the keys of ``summary.json``."""
        return {
            "applications_finished": self.applications,
            "completion_mean_s": self.completion_mean_s,
            "loans": self.loans,
        }


@dataclass(frozen=True, kw_only=True)
class FragmentMeasures:
    """Leases over time as shares of the cluster's cores, loans, and the named workloads by ``GROUP/NAME``.

    ``idle`` is the part of leases that no task uses, ``second_order`` the part of it in leases with loans, ``lent`` the
    amount on loan.
    """

    idle: Steps
    second_order: Steps
    lent: Steps
    loans: int
    loans_stopped: int
    loan_work_share: float
    loan_lost_share: float
    workloads: dict[str, WorkloadMeasures]

    def summary(self, start: int, end: int) -> dict[str, float]:
        """Return the keys of ``summary.json``, as means from ``start`` to ``end``."""
        return {
            "lease_idle_share_mean": self.idle.mean(start, end),
            "lease_second_order_share_mean": self.second_order.mean(start, end),
            "lease_lent_share_mean": self.lent.mean(start, end),
            "loans": self.loans,
            "loans_stopped": self.loans_stopped,
            "loan_work_share": self.loan_work_share,
            "loan_lost_share": self.loan_lost_share,
        }


def fragments_of(
    workload: Workload, history: AttemptHistory, names: tuple[str, ...], group_of: Ints, end: Ints
) -> FragmentMeasures | None:
    """Return the measures of a run whose jobs ended at ``end`` ``[n]``.

    ``None`` if no workload is named and no lease had an idle part.
    """
    named = any(template.workload for template in workload.templates)
    found = history.fragments
    if found is None and not named:
        return None
    attempts = history.attempts
    total = workload.cluster.total()[0] or 1
    work = _core_work(workload, attempts)
    position = np.array(sorted(found.borrowed) if found is not None else [], dtype=np.int64)
    lost = position[attempts.early[position]]
    whole = float(work.sum()) or 1.0
    nothing = Steps(np.zeros(0, np.int64), np.zeros(0))
    series = (nothing,) * 3 if found is None else (found.idle, found.second_order, found.lent)
    idle, second, lent = (Steps(steps.times, steps.values / total) for steps in series)
    return FragmentMeasures(
        idle=idle,
        second_order=second,
        lent=lent,
        loans=len(position),
        loans_stopped=len(lost),
        loan_work_share=float(work[position].sum()) / whole,
        loan_lost_share=float(work[lost].sum()) / whole,
        workloads=_by_workload(workload, names, group_of, end, attempts.job[position]),
    )


def _core_work(workload: Workload, attempts: Attempts) -> Floats:
    cores = np.array([request[0] for request in workload.requests], dtype=np.float64)
    found: Floats = cores[workload.request_index[attempts.job]] * (attempts.end - attempts.start)
    return found


def _by_workload(
    workload: Workload, names: tuple[str, ...], group_of: Ints, end: Ints, borrowers: Ints
) -> dict[str, WorkloadMeasures]:
    """Return the named workloads of groups, in the order of their names."""
    n = len(workload)
    which = np.zeros(n, dtype=np.int64) if workload.template_index is None else workload.template_index
    labels: list[Any] = [
        f"{names[group]}/{workload.templates[kind].workload}"
        if group >= 0 and workload.templates[kind].workload
        else ""
        for group, kind in zip(group_of.tolist(), which.tolist(), strict=True)
    ]
    family = np.arange(n) + len(workload.family_names)
    if workload.family_index is not None:
        member = np.array([bool(name) for name in workload.family_names])[workload.family_index]
        family = np.where(member, workload.family_index, family)
    found = {}
    label = np.array(labels, dtype=object)
    for name in sorted(set(labels) - {""}):
        mine = np.flatnonzero(label == name)
        _, where = np.unique(family[mine], return_inverse=True)
        count = int(where.max()) + 1
        first = np.full(count, np.iinfo(np.int64).max)
        last = np.zeros(count, dtype=np.int64)
        np.minimum.at(first, where, workload.submit[mine])
        np.maximum.at(last, where, end[mine])
        done = np.ones(count, dtype=np.bool_)
        done[where[end[mine] == NOT_YET]] = False
        times = (last - first)[done] / SECOND
        loans = int((label[borrowers] == name).sum())
        found[name] = WorkloadMeasures(int(done.sum()), float(times.mean()) if len(times) else 0.0, loans)
    return found
