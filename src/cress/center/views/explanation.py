"""Explanations as the API shows them: times in seconds."""

from __future__ import annotations

from collections.abc import Callable

from cress.center.access.redaction import redacted
from cress.model.explanation import ExpectedStart, Explanation, Remedy
from cress.model.times import SECOND
from cress.protocol.job_views import ExpectedStartView, ExplanationView


def explanation_view(found: Explanation, sees: Callable[[int], bool]) -> ExplanationView:
    """Return the view of an explanation for a reader who ``sees`` some jobs."""
    return ExplanationView(
        job=found.job,
        reason=redacted(found.reason),
        start=start_view(found.start, sees),
        clauses=found.clauses,
        nearest=found.nearest,
        remedies=tuple(Remedy(remedy.kind, redacted(remedy.text)) for remedy in found.remedies),
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
