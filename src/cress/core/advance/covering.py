"""Tasks whose end would free no room for others, because their group has reserved the amounts in advance."""

from __future__ import annotations

import numpy as np

from cress.core.books import Books
from cress.core.future.advance_reservations import group_of
from cress.core.jobs import Attempt, JobEntry
from cress.core.kernels.holding import END
from cress.core.tables.arrays import Ints


def covering(core: Books, job: JobEntry, until: int, worth: Ints) -> list[int]:
    """Return the slots of tasks that cover reservations which begin before ``until`` (µs), the end of a unit of
    ``job``.

    A reservation keeps what its group does not already hold on the node, so without these tasks it would keep that
    much more. Use beyond the reservations may go, the tasks with the least ``worth`` first.
    """
    shape, cluster, reservations = job.shape, core.cluster, core.advance_reservations
    asked = np.any([kind.request_array > 0 for kind in shape.every_kind], axis=0)
    found: list[int] = []
    for f, all_kept in reservations.on.items():
        ahead = [kept for kept in all_kept if kept.times and kept.times[0][0] < until and not kept.is_of(job.group)]
        for name in dict.fromkeys(kept.spec.group for kept in ahead if not kept.spec.is_maintenance):
            theirs = [kept for kept in ahead if kept.spec.group == name]
            begin = min(kept.times[0][0] for kept in theirs)
            holders = [
                holder
                for holder in core.holders_on(f)
                if group_of(holder) == name and cluster.leases[holder.slot, END] > begin
            ]
            beyond = sum((cluster.held_in(holder.slot) for holder in holders), np.zeros_like(shape.request_array))
            beyond = beyond - sum(reservations.amounts_on(kept, f) for kept in theirs)
            tasks = [holder for holder in holders if isinstance(holder, Attempt)]
            for task in sorted(tasks, key=lambda holder: (worth[holder.slot], -holder.id)):
                left = beyond - cluster.held_in(task.slot)
                if np.any(left[asked & (cluster.held_in(task.slot) > 0)] < 0):
                    found.append(task.slot)
                else:
                    beyond = left
    return found
