"""The Python API of a center: ``connect()``, one method for each call, the views that they give. Cheap to import."""

from __future__ import annotations

from pathlib import Path

from cress.client.config import Address, NoCenter, find_center
from cress.client.errors import Broken, ClientError, NotFound, Refused, Unauthorized, Unavailable, Unreachable
from cress.client.http import Client
from cress.protocol.familyviews import CronView, DagView, ServiceView, StepView
from cress.protocol.views import (
    Applied,
    AppliedJob,
    AppliedJobs,
    AttemptView,
    ErrorView,
    EventView,
    Fault,
    GroupsPage,
    GroupView,
    JobsPage,
    JobView,
    MatchView,
    NodesPage,
    NodeTask,
    NodeView,
    PlaceView,
    StateView,
    SubmittedPage,
    TaskCounts,
    TasksPage,
    TaskView,
    UsagePage,
    UsageView,
)

__all__ = [
    "Address",
    "Applied",
    "AppliedJob",
    "AppliedJobs",
    "AttemptView",
    "Broken",
    "Client",
    "ClientError",
    "CronView",
    "DagView",
    "ErrorView",
    "EventView",
    "Fault",
    "GroupView",
    "GroupsPage",
    "JobView",
    "JobsPage",
    "MatchView",
    "NoCenter",
    "NodeTask",
    "NodeView",
    "NodesPage",
    "NotFound",
    "PlaceView",
    "Refused",
    "ServiceView",
    "StateView",
    "StepView",
    "SubmittedPage",
    "TaskCounts",
    "TaskView",
    "TasksPage",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "UsagePage",
    "UsageView",
    "connect",
    "find_center",
]


def connect(data: Path | None = None) -> Client:
    """A client of the center that ``data``, the environment or the user's data directory names."""
    url, token, folder = find_center(data)
    return Client(url, token, advice=f"start one with `cress up --data {folder}`" if folder else "")
