"""Attempts of a job that ended before their tasks were done, with their reasons."""

from __future__ import annotations

from cress.center.access.redaction import redacted
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob
from cress.center.views.members import tasks_page
from cress.lifecycle.attempts.end_reasons import without_rule
from cress.model.events import Outcome
from cress.model.records import AttemptRecord
from cress.model.times import SECOND
from cress.protocol.job_views import EndedView

# Tasks whose attempts are looked at, and the attempts that are told.
MOST_TASKS, MOST_TOLD = 100, 10


async def ended_views(committer: Committer, job: AnyJob) -> tuple[EndedView, ...]:
    """Return the latest attempts of a job that were preempted, lost, moved or failed, newest first."""
    page, _ = await tasks_page(committer, job, limit=MOST_TASKS, after=-1, state="")
    records = [
        (record, task.index)
        for task, _ in page
        for record in task.finished
        if record.outcome not in (Outcome.SUCCEEDED, Outcome.CANCELLED)
    ]
    records.sort(key=lambda pair: -pair[0].ended)
    return tuple(
        EndedView(
            task=index,
            attempt=record.attempt,
            node=record.node,
            outcome=record.outcome.value,
            at=record.ended / SECOND,
            ran=max(0, record.ended - record.started) / SECOND if record.started else 0.0,
            why=redacted(without_rule(record.error)[0]) or _code(record),
            rule=redacted(without_rule(record.error)[1]),
        )
        for record, index in records[:MOST_TOLD]
    )


def _code(record: AttemptRecord) -> str:
    if record.code is None:
        return ""
    return f"exit code {record.code}" if record.code >= 0 else f"signal {-record.code}"
