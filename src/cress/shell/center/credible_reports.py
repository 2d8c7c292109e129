"""Credible reports: what an executor reports about its attempts, limited to what can be true.

A node is believed about its own tasks. But times, usage and texts of reports count beyond the node: in the usage of
groups, in estimates for other tasks of the job, and in the history.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cress.lifecycle.slices import Slices
from cress.lifecycle.tables.rows import LiveAttempt
from cress.model.reports import Checked, Ended, Report, Usage
from cress.model.times import SECOND

# How far the clock of a node may be ahead of the center's (µs), without a correction of its times.
AHEAD = 600 * SECOND
# Most characters of a reason that are kept.
MOST_REASON = 2_000
# Most processors and bytes of memory of one machine.
MOST_PROCESSORS, MOST_MEMORY = 4_096, 2**50


# Reports that are examined without a pause.
PART = 1_000


class Credible(tuple[Report, ...]):
    """Reports that were examined already."""

    __slots__ = ()


def examining(reports: tuple[Report, ...], attempts: Mapping[int, LiveAttempt], utc: int) -> Slices[Credible]:
    """Examine many reports as ``credible`` does, with pauses."""
    found: list[Report] = []
    for first in range(0, len(reports), PART):
        found += credible(reports[first : first + PART], attempts, utc)
        yield
    return Credible(found)


def credible(reports: tuple[Report, ...], attempts: Mapping[int, LiveAttempt], utc: int) -> tuple[Report, ...]:
    """Return the reports with credible values at ``utc`` (µs, the center's wall clock).

    No time is later than the center's, and no attempt ran for longer than since it was placed. A node whose clock is
    wrong keeps the lengths of its runs.
    """
    if isinstance(reports, Credible):
        return reports
    return tuple(_credible(report, attempts.get(report.attempt), utc + AHEAD) for report in reports)


def _credible(report: Report, attempt: LiveAttempt | None, latest: int) -> Report:
    if isinstance(report, Ended):
        return _ended(report, attempt, latest)
    if report.at > latest:
        report = msgspec.structs.replace(report, at=latest)
    if isinstance(report, Checked) and len(report.why) > MOST_REASON:
        report = msgspec.structs.replace(report, why=_short(report.why))
    return report


def _ended(report: Ended, attempt: LiveAttempt | None, latest: int) -> Ended:
    at = min(report.at, latest)
    run = max(0, report.at - report.started) if report.started else 0
    most = run if attempt is None else min(run, max(0, latest - attempt.placed))
    started = report.started if report.at == at and most == run else max(1, at - most) * bool(report.started)
    usage = Usage(
        min(report.usage.cpu, max(most, SECOND) * MOST_PROCESSORS) if attempt is not None else report.usage.cpu,
        min(report.usage.memory, MOST_MEMORY),
    )
    error = _short(report.error)
    if (at, started, usage, error) == (report.at, report.started, report.usage, report.error):
        return report
    return msgspec.structs.replace(report, at=at, started=started, usage=usage, error=error)


def _short(text: str) -> str:
    return text if len(text) <= MOST_REASON else text[:MOST_REASON] + "…"
