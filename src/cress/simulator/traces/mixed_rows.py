"""Collection of the jobs of a mixed workload while it is generated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cress.model.group import Group
from cress.model.job import Condition, Job
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import DAY, SECOND
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.workload import NO_LIMIT, SimulatedCluster, Workload, template

GIB = 2**30
MONDAY = 18 * DAY  # 1970-01-19, 00:00 UTC: the time of second 0


class Rows:
    """Collects jobs. Times are in seconds; amounts are cores and GiB."""

    def __init__(self, dimensions: Dimensions) -> None:
        self._dimensions = dimensions
        self._ids: list[str] = []
        self._columns: dict[str, list[int]] = {
            name: [] for name in ("submit", "run", "limit", "tasks", "request", "group", "template", "family", "until")
        }
        self._used_cores: list[float] = []
        self._after: list[tuple[tuple[int, Condition], ...]] = []
        self._scales: list[tuple[int, int, int]] = []
        self._requests: dict[ResourceVector, int] = {}
        self._groups: dict[str, int] = {}
        self._families: dict[str, int] = {"": 0}
        self._templates: list[Job] = [template()]

    def __len__(self) -> int:
        return len(self._ids)

    def template(self, **keys: object) -> int:
        """Return the number of a template with these keys, for jobs that are not plain."""
        self._templates.append(template(**keys))
        return len(self._templates) - 1

    def add(
        self,
        name: str,
        group: str,
        *,
        cores: float,
        memory: float,
        tasks: int,
        use: float,
        submit: int = 0,
        run: int = NO_LIMIT,
        until: int = NO_LIMIT,
        template: int = 0,
        family: str = "",
        after: int | None = None,
    ) -> int:
        """Add a job and return its position. ``after`` is the position of a job that must succeed first."""
        request = self._dimensions.vector(cpu=round(cores * 1000), memory=round(memory * GIB))
        values = {
            "submit": submit,
            "run": run,
            # Users request twice the run time.
            "limit": run * 2 if run != NO_LIMIT else NO_LIMIT,
            "tasks": tasks,
            "request": self._requests.setdefault(request, len(self._requests)),
            "group": self._groups.setdefault(group, len(self._groups)),
            "template": template,
            "family": self._families.setdefault(family, len(self._families)),
            "until": until,
        }
        for key, value in values.items():
            self._columns[key].append(value)
        self._ids.append(name)
        self._used_cores.append(request[0] * use)
        self._after.append(() if after is None else ((after, Condition.OK),))
        return len(self._ids) - 1

    def scale(self, position: int, time: int, tasks: int) -> None:
        """Give a service another task count from this time on."""
        self._scales.append((time * SECOND, position, tasks))

    def workload(self, name: str, cluster: SimulatedCluster, groups: Sequence[Group]) -> Workload:
        """Return the jobs in order of submission."""
        n = len(self)
        column = {key: np.array(values, dtype=np.int64) for key, values in self._columns.items()}
        times = {
            key: np.where(column[key] == NO_LIMIT, NO_LIMIT, column[key] * SECOND) for key in ("run", "limit", "until")
        }
        workload = Workload(
            name=name,
            cluster=cluster,
            ids=self._ids,
            submit=column["submit"] * SECOND,
            run=times["run"],
            limit=times["limit"],
            tasks=column["tasks"],
            gang=np.zeros(n, dtype=np.bool_),
            killed=np.zeros(n, dtype=np.bool_),
            priority=np.zeros(n, dtype=np.int64),
            request_index=column["request"],
            requests=list(self._requests),
            user_index=np.zeros(n, dtype=np.int64),
            users=[""],
            group_index=column["group"],
            group_names=list(self._groups),
            line=np.zeros(n, dtype=np.int64),
            notes=TraceNotes(),
            template_index=column["template"],
            templates=tuple(self._templates),
            after=tuple(self._after) if any(self._after) else None,
            family_index=column["family"] if len(self._families) > 1 else None,
            family_names=tuple(self._families),
            until=times["until"] if (times["until"] != NO_LIMIT).any() else None,
            scales=tuple(sorted(self._scales)),
            used={"cpu": np.array(self._used_cores)},
            groups=tuple(groups),
            utc=MONDAY,
        )
        return workload.select(np.argsort(workload.submit, kind="stable"))
