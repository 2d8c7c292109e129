"""Views of deadlines: urgency, slack and forecast of a live job; for an ended job, whether it met its deadline."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob
from cress.center.process.turns import in_turns
from cress.core.outlook import Behind, TimeLeft
from cress.lifecycle.jobs.deadlines import outlooks
from cress.lifecycle.submits.deadlines import behind_of_submit
from cress.lifecycle.tables.family_rows import Family
from cress.model.deadlines import deadline_of, met
from cress.model.family import Dag
from cress.model.job import Job
from cress.model.outlook import Outlook, Promise
from cress.model.records import JobRecord
from cress.model.run import Run
from cress.model.times import SECOND
from cress.protocol.job_views import DeadlineView

# The worst forecast of a dag's steps counts; steps that wait for others have none.
_WORST_FIRST = (Promise.CANNOT, Promise.AT_RISK, Promise.FINE, Promise.UNKNOWN)


def deadline_view(committer: Committer, job: AnyJob, run: Run | None = None) -> DeadlineView | None:
    """Return the view of a job's deadline; None if it has none. An ended job needs its run."""
    if isinstance(job, JobRecord):
        return None if run is None else _over(job, run)
    if not job.job.deadline:
        return None
    core, now = committer.machine.core, committer.clock.now()
    utc = now - committer.machine.now + committer.machine.utc
    if isinstance(job, Family):
        if not isinstance(job.job.plan, Dag):
            return None
        return _together(job.job.deadline, outlooks(committer.machine, job.job.id, now), utc)
    owner = committer.machine.families.get(job.job.family)
    if owner is None or not owner.job.deadline:
        found = core.outlook(job.job.id, now)
        return None if found is None else _view(found, utc)
    # The time left for later steps comes from their limits, which bound it only from above. Thus a step can only miss
    # the deadline of its dag.
    behind = owner.job.deadline - job.job.deadline
    found = core.outlook(job.job.id, now, Behind(owner.job.deadline, TimeLeft(0, behind, behind)))
    return None if found is None else _view(msgspec.structs.replace(found, deadline=job.job.deadline), utc)


async def foreseen_views(committer: Committer, jobs: Sequence[Job]) -> dict[int, DeadlineView]:
    """Return the expected views of the deadlines of a submit's jobs, by place; a dag has one view for all steps."""
    machine = committer.machine
    timed = machine.resolved(jobs)
    views: dict[int, DeadlineView] = {}
    steps: dict[int, list[Outlook]] = {}
    paths = behind_of_submit(machine, timed)
    async for place, job in in_turns(enumerate(timed)):
        found = machine.foreseen(job, paths.get(place)) if job.plan is None else None
        if found is not None and job.family:
            steps.setdefault(-job.family - 1, []).append(found)
        elif found is not None:
            views[place] = _view(found, machine.utc)
    return views | {place: _together(timed[place].deadline, some, machine.utc) for place, some in steps.items()}


def _over(job: JobRecord, run: Run) -> DeadlineView | None:
    deadline = deadline_of(job, run)
    if not deadline:
        return None
    forecast = {True: "met", False: "missed", None: "cancelled"}[met(job, run)]
    return DeadlineView(at=deadline / SECOND, forecast=forecast, slack=(deadline - job.ended) / SECOND)


def _view(found: Outlook, utc: int) -> DeadlineView:
    slack = found.deadline - utc if found.slack is None else found.slack
    return DeadlineView(
        at=found.deadline / SECOND,
        forecast=found.promise.value,
        slack=slack / SECOND,
        urgency=round(found.urgency, 3),
        chance=None if found.chance is None else round(found.chance, 3),
        earliest_end=None if found.earliest_end is None else found.earliest_end / SECOND,
    )


def _together(deadline: int, steps: Sequence[Outlook], utc: int) -> DeadlineView:
    """Return the view of a dag, combined from the forecasts of its steps."""
    worst = next(
        (promise for promise in _WORST_FIRST if any(step.promise is promise for step in steps)), Promise.UNKNOWN
    )
    slacks = [step.slack for step in steps if step.slack is not None]
    ends = [step.earliest_end for step in steps if step.earliest_end is not None]
    whole = Outlook(
        deadline,
        max((step.urgency for step in steps), default=0.0),
        min(slacks, default=None),
        worst,
        min((step.chance for step in steps if step.chance is not None), default=None),
        max(ends, default=None),
    )
    return _view(whole, utc)
