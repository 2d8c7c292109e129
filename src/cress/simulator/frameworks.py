"""Frameworks that share a cluster.

The jobs of a workload are dealt to groups, each with a named workload that keeps leases.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec.structs import replace as changed

from cress.model.group import Group, Quota
from cress.simulator.workload import Workload


def as_frameworks(workload: Workload, count: int) -> Workload:
    """Return the workload with its jobs, dags as a whole, dealt in turn to ``count`` frameworks with equal quotas."""
    n = len(workload)
    family = np.arange(n) + len(workload.family_names)
    if workload.family_index is not None:
        member = np.array([bool(name) for name in workload.family_names])[workload.family_index]
        family = np.where(member, workload.family_index, family)
    _, first, where = np.unique(family, return_index=True, return_inverse=True)
    # In the order of submission, so that the frameworks are busy at the same times.
    turn = np.empty(len(first), dtype=np.int64)
    turn[np.argsort(first, kind="stable")] = np.arange(len(first))
    framework = (turn % count)[where]
    names = [f"framework{i + 1}" for i in range(count)]
    quota = Quota(scalar=max(1, workload.cluster.total()[0] // count))
    before = np.zeros(n, dtype=np.int64) if workload.template_index is None else workload.template_index
    return replace(
        workload,
        group_index=framework,
        group_names=names,
        template_index=before * count + framework,
        templates=tuple(changed(template, workload=name) for template in workload.templates for name in names),
        groups=tuple(Group(name=name, quota=quota) for name in names),
    )
