"""Explanations as the API shows them: times in seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cress.center.access.redaction import redacted
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import AnyJob, id_of
from cress.lifecycle.jobs.reasons import lasting
from cress.lifecycle.tables.rows import LiveAttempt
from cress.model.deadlines import deadline_of
from cress.model.explanation import ExpectedStart, Explanation, Finding, Remedy
from cress.model.records import JobRecord
from cress.model.times import SECOND
from cress.protocol.job_views import ExpectedStartView, ExplanationView


def findings(found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return reasons without the jobs that their reader does not see."""
    return tuple(Finding(one.kind, redacted(one.text)) for one in found)


def late_by(committer: Committer, job: AnyJob) -> str:
    """Return how late a job ended, or is; empty if it is not late or has no deadline."""
    run = committer.run(id_of(job))
    if isinstance(job, JobRecord):
        # Its run may have the deadline as submitted: a time from the submission on.
        deadline = 0 if run is None else deadline_of(job, run)
    else:
        deadline = job.job.deadline
    ended = job.ended if isinstance(job, JobRecord) else 0
    over = (ended or committer.clock.utc()) - deadline
    if not deadline or over <= 0:
        return ""
    said = f"{'it ended' if ended else 'it is'} {lasting(over)} after its deadline"
    if not job.started:
        return f"{said}; it has not started since its submission"
    waited, ran = job.started - job.submitted, (ended or committer.clock.utc()) - job.started
    return (
        f"{said}: it waited for {lasting(waited)}, and {'took' if ended else 'has taken'} {lasting(ran)} from its start"
    )


def starting(committer: Committer, running: Sequence[LiveAttempt]) -> str:
    """Return what is known of the oldest task whose program has not begun; empty if all have begun.

    The node tells of nothing before the program begins, or the attempt ends.
    """
    waiting = [attempt for attempt in running if not attempt.started]
    if not waiting:
        return ""
    first = min(waiting, key=lambda attempt: attempt.placed)
    node, run = committer.machine.nodes.get(first.node), committer.run(first.job)
    fetched = () if run is None else (*("its image",) * (run.image is not None), *("its files",) * bool(run.files))
    since = lasting(committer.clock.utc() - first.placed)
    if node is None or not node.connected:
        doing = f"the executor of {first.node} is not connected"
    else:
        doing = f"{first.node} was told to start {'it' if len(waiting) == 1 else 'one of them'} {since} ago"
        if fetched:
            doing += f", and first fetches {' and '.join(fetched)}"
    of = f"{len(waiting):,} of {len(running):,} programs have" if len(running) > 1 else "its program has"
    return f"{of} not begun: {doing}"


def explanation_view(found: Explanation, sees: Callable[[int], bool]) -> ExplanationView:
    """Return the view of an explanation for a reader who ``sees`` some jobs."""
    return ExplanationView(
        job=found.job,
        reason=redacted(found.reason),
        start=start_view(found.start, sees),
        clauses=found.clauses,
        nearest=found.nearest,
        remedies=tuple(Remedy(remedy.kind, redacted(remedy.text), remedy.change) for remedy in found.remedies),
        kind=found.kind,
    )


def start_view(start: ExpectedStart, sees: Callable[[int], bool]) -> ExpectedStartView:
    """Return the view of an expected start for a reader who ``sees`` some jobs."""
    because = start.because if start.because is not None and sees(start.because) else None
    earliest, likely, latest = (
        None if at is None else at / SECOND for at in (start.earliest, start.likely, start.latest)
    )
    return ExpectedStartView(
        earliest=earliest, likely=likely, latest=latest, because=because, behind=start.behind, ahead=start.ahead
    )
