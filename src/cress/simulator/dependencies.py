"""Dependencies between the jobs of a workload: jobs that wait, and the effects of each job's end on later ones.

The conditions have the same meaning as in a live cluster: ``lifecycle.conditions`` decides. A job that was cut at its
time limit has failed. A job that fits no node, or was refused, counts as cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from cress.lifecycle.jobs.conditions import holds
from cress.model.errors import InputError
from cress.model.events import Event, JobAfter, JobCancelled
from cress.model.job import Condition
from cress.model.records import JobState
from cress.simulator.workload import After, Ints, Workload

# Most jobs of a cycle that a message names.
NAMED = 6

Pairs: TypeAlias = tuple[Ints, Ints]


def pairs(after: After) -> Pairs:
    """Return all dependencies as two columns of positions: the predecessor, and the dependent job."""
    found = [(first, i) for i, conditions in enumerate(after) for first, _ in conditions]
    table = np.array(found, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def in_order(after: After, ids: Sequence[str]) -> list[int]:
    """Return all positions in an order in which the jobs can run. Raise ``InputError`` if dependencies form a cycle."""
    left = [len(conditions) for conditions in after]
    behind: list[list[int]] = [[] for _ in after]
    for i, conditions in enumerate(after):
        for first, _ in conditions:
            behind[first].append(i)
    found = [i for i, count in enumerate(left) if not count]
    for i in found:
        for other in behind[i]:
            left[other] -= 1
            if not left[other]:
                found.append(other)
    if len(found) < len(after):
        stuck = next(i for i, count in enumerate(left) if count)
        path: list[int] = []
        while stuck not in path:
            path.append(stuck)
            stuck = next(first for first, _ in after[stuck] if left[first])
        circle = [ids[i] for i in (*path[path.index(stuck) :], stuck)]
        names = " → ".join(circle[:NAMED]) + (" → …" if len(circle) > NAMED else "")
        raise InputError(f"these jobs wait for each other: {names}", hint="dependencies without a cycle")
    return found


class Dependencies:
    """The open dependencies while a workload runs.

    ``jobs`` are the positions that are submitted; the id of a job is its position + 1.
    """

    def __init__(self, workload: Workload, jobs: Iterable[int]) -> None:
        after = workload.after or ()
        self._after = after
        self._killed: list[bool] = workload.killed.tolist()
        self._unmet: dict[int, list[tuple[int, Condition]]] = {}
        self._behind: dict[int, list[int]] = {}
        # Final states; a job that is never submitted counts as cancelled.
        submitted = set(jobs)
        self._over = {i: JobState.CANCELLED for i in range(len(after)) if i not in submitted}
        self.cancelled: set[int] = set()

    def submitted(self, position: int) -> int | None:
        """Submit a job; return the id of the first job that it waits for. The job may be ``cancelled`` at once."""
        for first, condition in self._after[position]:
            state = self._over.get(first)
            if state is None:
                self._unmet.setdefault(position, []).append((first, condition))
                self._behind.setdefault(first, []).append(position)
            elif not holds(condition, state):
                self._unmet.pop(position, None)
                self.cancelled.add(position)
                return None
        unmet = self._unmet.get(position)
        return unmet[0][0] + 1 if unmet else None

    def ended(self, position: int) -> list[Event]:
        """End a job whose tasks all ran to their ends; return the events of its dependent jobs."""
        return self._settle(position, JobState.FAILED if self._killed[position] else JobState.SUCCEEDED)

    def dropped(self, position: int) -> list[Event]:
        """Cancel a job that was just submitted; return the events of its dependent jobs."""
        return self._settle(position, JobState.CANCELLED)

    def _settle(self, position: int, state: JobState) -> list[Event]:
        events: list[Event] = []
        over = [(position, state)]
        for first, how in over:
            self._over[first] = how
            for other in self._behind.pop(first, ()):
                unmet = self._unmet.get(other)
                if unmet is None:
                    continue
                condition = next(wanted for number, wanted in unmet if number == first)
                if holds(condition, how):
                    unmet.remove((first, condition))
                    events.append(JobAfter(other + 1, unmet[0][0] + 1 if unmet else None))
                    if not unmet:
                        del self._unmet[other]
                else:
                    del self._unmet[other]
                    self.cancelled.add(other)
                    events.append(JobCancelled(other + 1))
                    over.append((other, JobState.CANCELLED))
        return events
