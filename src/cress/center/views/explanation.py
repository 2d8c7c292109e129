"""Explanations as the API shows them: times in seconds."""

from __future__ import annotations

from cress.model.explanation import Explanation
from cress.model.times import SECOND
from cress.protocol.job_views import ExpectedStartView, ExplanationView


def explanation_view(found: Explanation) -> ExplanationView:
    """Return the view of an explanation."""
    start = found.start
    earliest, likely, latest = (
        None if at is None else at / SECOND for at in (start.earliest, start.likely, start.latest)
    )
    return ExplanationView(
        job=found.job,
        reason=found.reason,
        start=ExpectedStartView(earliest=earliest, likely=likely, latest=latest, because=start.because),
        clauses=found.clauses,
        nearest=found.nearest,
        remedies=found.remedies,
    )
