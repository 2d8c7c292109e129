"""Jobs of a workload in the form for the scheduler and the machine."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cress.model.job import Job
from cress.simulator.workload import NO_LIMIT, Workload


class Jobs:
    """Makes the job at a position of the workload; ``groups`` has the group of each submitted position."""

    def __init__(self, workload: Workload, positions: Sequence[int], groups: Sequence[str]) -> None:
        self._ids = workload.ids
        self._group = dict(zip(positions, groups, strict=True))
        self._templates = workload.templates
        n = len(workload)
        self._template: list[int] = [0] * n if workload.template_index is None else workload.template_index.tolist()
        self._requests = workload.requests
        self._request: list[int] = workload.request_index.tolist()
        self._users = workload.users
        self._user: list[int] = workload.user_index.tolist()
        self._tasks: list[int] = workload.tasks.tolist()
        self._gang: list[bool] = workload.gang.tolist()
        self._priority: list[int] = workload.priority.tolist()
        self._limit: list[int] = workload.limit.tolist()
        self._utc = workload.utc
        self._deadline: list[int] = [NO_LIMIT] * n if workload.deadline is None else workload.deadline.tolist()

    def make(self, i: int, number: int) -> Job:
        """Return the job at position ``i``, with the id ``number`` and without its dependencies."""
        limit, deadline = self._limit[i], self._deadline[i]
        template = self._templates[self._template[i]]
        return replace(
            template,
            id=number,
            name=self._ids[i],
            group=self._group[i],
            request=template.request if template.parts else self._requests[self._request[i]],
            user=self._users[self._user[i]],
            tasks=self._tasks[i],
            gang=self._gang[i],
            priority=self._priority[i],
            time_limit=None if limit == NO_LIMIT else limit,
            deadline=0 if deadline == NO_LIMIT else self._utc + deadline,
        )
