"""Jobs for ``cress export`` from the API, for people who have no access to the event log of the center."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cress.client.config import chosen_directory
from cress.model.units import parse_dimension

if TYPE_CHECKING:
    from pathlib import Path

    from cress.client import Client, JobView
    from cress.model.resources import Dimensions, ResourceVector
    from cress.past.recorded_work import RecordedAttempt, RecordedJob, RecordedWork

PAGE = 1_000
MICRO = 1_000_000
CANCELLED = "cancelled"


def is_elsewhere(data: Path | None) -> bool:
    """Return True if the chosen center is known by its address only."""
    return data is None and chosen_directory(None) is None


def work_of(client: Client, since: int, until: int | None) -> RecordedWork:
    """Return the jobs that were submitted in a span (µs since the epoch) and that the caller may see, as recorded work.

    Services, databases and cron jobs are left out; their runs are jobs. Raises ``ClientError``.
    """
    from cress.model.node import Node
    from cress.model.resources import BASE_DIMENSIONS, Dimensions
    from cress.past.recorded_work import RecordedNode, RecordedWork

    views, nodes = list(_jobs(client, since, until)), client.nodes()
    named = dict.fromkeys(name for view in (*views, *nodes) for name in _amounts(view))
    dimensions = Dimensions(tuple(name for name in named if name not in BASE_DIMENSIONS))
    now = int(time.time() * MICRO)
    first = min((round(view.submitted * MICRO) for view in views), default=now)
    work = RecordedWork(dimensions=dimensions, since=max(since, first), until=min(until or now, now))
    for view in sorted(views, key=lambda view: view.id):
        work.jobs[view.id] = _recorded(client, view, dimensions)
    for node in nodes:
        capacity = _vector(node.capacity, dimensions)
        work.nodes[node.name] = RecordedNode(
            Node(name=node.name, rack=node.rack, capacity=capacity), [(work.since, None)]
        )
    return work


def _jobs(client: Client, since: int, until: int | None) -> Iterator[JobView]:
    """Yield the batch jobs of a span, page by page."""
    before: int | None = None
    while True:
        page = client.jobs(
            limit=PAGE, before=before, type="batch", since=since / MICRO, until=None if until is None else until / MICRO
        )
        yield from page.jobs
        before = page.next
        if before is None:
            return


def _recorded(client: Client, view: JobView, dimensions: Dimensions) -> RecordedJob:
    from cress.model.job import Condition, Job
    from cress.past.recorded_work import RecordedJob

    after = tuple((int(number), Condition(how)) for number, how in view.after.items())
    job = Job(
        id=view.id,
        name=view.name,
        group=view.group,
        user=view.user,
        request=_vector(view.resource, dimensions),
        tasks=view.tasks.total,
        gang=view.gang,
        priority=view.priority,
        time_limit=None if view.time_limit is None else round(view.time_limit * MICRO),
        requirement=view.requirement,
        rank=view.rank,
        application=view.application,
        deadline=0 if view.deadline is None else round(view.deadline.at * MICRO),
        after=after,
    )
    ended = None if view.ended is None else round(view.ended * MICRO)
    return RecordedJob(
        job=job,
        submitted=round(view.submitted * MICRO),
        tasks=view.tasks.total,
        held=view.held,
        cancelled=ended if view.state == CANCELLED else None,
        attempts=list(_attempts(client, view)),
    )


def _attempts(client: Client, view: JobView) -> Iterator[RecordedAttempt]:
    from cress.model.events import Outcome
    from cress.past.recorded_work import RecordedAttempt

    if view.started is None:
        return
    after: int | None = None
    while True:
        page = client.tasks(view.id, limit=PAGE, after=after)
        for task in page.tasks:
            for i, attempt in enumerate(task.attempts):
                over = attempt.ended is not None
                yield RecordedAttempt(
                    id=attempt.id,
                    task=task.index,
                    node=attempt.node,
                    placed=round(attempt.placed * MICRO),
                    ended=round(attempt.ended * MICRO) if attempt.ended is not None else None,
                    outcome=Outcome(attempt.outcome) if over else None,
                    again=i + 1 < len(task.attempts) or (over and task.state == "waiting"),
                )
        after = page.next
        if after is None:
            return


def _amounts(view: object) -> dict[str, str]:
    found: dict[str, str] = getattr(view, "resource", None) or getattr(view, "capacity", None) or {}
    return found


def _vector(amounts: dict[str, str], dimensions: Dimensions) -> ResourceVector:
    return dimensions.vector(**{name: parse_dimension(text, name, dimensions) for name, text in amounts.items()})
