"""The path straight to the scheduler: see ``paths``."""

from __future__ import annotations

from cress.core.scheduler import Scheduler
from cress.model.events import ClockSet, Event, GroupsApplied, LicencesSet, NodeAdded, RacksSet
from cress.model.group import Group
from cress.model.options import Options
from cress.simulator.attempts import AttemptHistory
from cress.simulator.direct import DirectRun
from cress.simulator.event_orders import Progress
from cress.simulator.forecasts import Foretelling
from cress.simulator.fragments import FragmentLog
from cress.simulator.never_fit import never_fit
from cress.simulator.packing.devices import device_log
from cress.simulator.workload import Bools, Ints, Workload


class DirectPath:
    """Path straight to the scheduler."""

    def __init__(
        self, workload: Workload, groups: tuple[Group, ...], options: Options, order: str, forecasts: int = 0
    ) -> None:
        cluster = workload.cluster
        self.core = Scheduler(cluster.dimensions, options, workload.zone)
        self._workload = workload
        self._order = order
        self.foretelling = Foretelling(self.core, forecasts) if forecasts else None
        events: list[Event] = [ClockSet(workload.utc + workload.begin), *map(NodeAdded, cluster.nodes)]
        if cluster.neighbours or cluster.distances:
            events.append(RacksSet(cluster.neighbours, cluster.distances))
        if cluster.licences:
            events.append(LicencesSet(cluster.licences))
        self.core.observe(workload.begin, [*events, GroupsApplied(groups)])

    def never_fit(self, admitted: Ints, groups: list[str]) -> Bools:
        """Return the jobs that could never run."""
        return never_fit(self._workload, self.core, admitted, groups)

    def run(self, jobs: list[int], groups: list[str], *, check: bool, progress: Progress | None) -> AttemptHistory:
        """Run the jobs at these positions in these groups."""
        log = FragmentLog(self.core)
        devices = device_log(self.core, self._workload, jobs)
        core = self.foretelling or self.core
        run = DirectRun(self._workload, core, jobs, groups, check=check, progress=progress, log=log, devices=devices)
        return run.run(self._order)
