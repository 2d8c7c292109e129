"""Trials of a change before it is made: what it would do to waiting and running work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cress.client import calls
from cress.client.errors import ClientError
from cress.portal.consequences import BeforeAfter, GroupShift, cluster_rows, group_rows, limits_of
from cress.portal.viewers import Viewer
from cress.protocol.trial_views import ConsequencesView

# Seconds that a trial may take.
SECONDS = 10.0


class TrialResult(NamedTuple):
    """The consequences of a change as a page shows them; ``problem`` says why they are not known."""

    found: ConsequencesView | None
    cluster: list[BeforeAfter]
    groups: list[GroupShift]
    notes: list[str]
    problem: str = ""


async def tried(viewer: Viewer, change: Mapping[str, object], seconds: float = SECONDS) -> TrialResult:
    """Return the consequences of a change. Mistakes in it are raised (ClientError)."""
    found = await viewer.client.ask(calls.what_if(change, seconds))
    return TrialResult(found, cluster_rows(found), group_rows(found), limits_of(found))


async def tried_if_possible(viewer: Viewer, change: Mapping[str, Any]) -> TrialResult:
    """Return the consequences of a change that was checked already; they may be unknown."""
    try:
        return await tried(viewer, change)
    except ClientError as error:
        return TrialResult(None, [], [], [], str(error))
