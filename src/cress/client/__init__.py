"""The Python API of a center: ``connect()``, one method for each call, and the views that they return.

Cheap to import: names are loaded on first use, since every worker of ``Client.map`` imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cress.client.blocking.http import Http as Client
    from cress.client.blocking.http import connect
    from cress.client.config import Address, NoCenter, find_center
    from cress.client.errors import (
        Broken,
        ClientError,
        NotFound,
        Refused,
        Unauthorized,
        Unavailable,
        Unproven,
        Unreachable,
    )
    from cress.protocol.access_views import (
        AuditEntry,
        AuditPage,
        CallerView,
        JoinTokensPage,
        KeyRotated,
        NewJoinToken,
        NewToken,
        SecretsPage,
        SecretView,
        TokensPage,
        TokenView,
        UsersPage,
        UserView,
    )
    from cress.protocol.centers import CentersPage, CenterView, HandedOver
    from cress.protocol.cluster_views import (
        Applied,
        ConfiguredView,
        ConfigView,
        DeviceUser,
        DeviceView,
        EventView,
        GroupsPage,
        GroupView,
        LoadView,
        MatchView,
        NodeSettingsPage,
        NodeSettingsView,
        NodesPage,
        NodeTask,
        NodeView,
        PlaceView,
        RevisionView,
        StateView,
        UsagePage,
        UsageView,
    )
    from cress.protocol.job_views import (
        AppliedJob,
        AppliedJobs,
        AttemptView,
        CronView,
        DagView,
        DeadlineView,
        EndedView,
        EstimateView,
        ExpectedStartView,
        ExplanationView,
        GroupExplanationView,
        HeldDevice,
        JobsPage,
        JobView,
        KeyChange,
        NodeExplanationView,
        PartView,
        ServiceView,
        StepView,
        Submitted,
        SubmittedPage,
        TaskCounts,
        TasksPage,
        TaskView,
    )
    from cress.protocol.lease_views import (
        DeviceName,
        FreeView,
        LeasesPage,
        LeaseTask,
        LeaseView,
        LicencesPage,
        LicenceUse,
        LicenceView,
        MoveView,
        PlanView,
        ReservationsPage,
        ReservationView,
        RoundView,
        StaysView,
        WorkloadsPage,
        WorkloadView,
    )
    from cress.protocol.trial_views import (
        ConsequencesView,
        CourseView,
        GroupCourseView,
        PlannedView,
        ShiftView,
        StoppedView,
    )
    from cress.protocol.views import ErrorView, Fault

__all__ = [
    "Address",
    "Applied",
    "AppliedJob",
    "AppliedJobs",
    "AttemptView",
    "AuditEntry",
    "AuditPage",
    "Broken",
    "CallerView",
    "CenterView",
    "CentersPage",
    "Client",
    "ClientError",
    "ConfigView",
    "ConfiguredView",
    "ConsequencesView",
    "CourseView",
    "CronView",
    "DagView",
    "DeadlineView",
    "DeviceName",
    "DeviceUser",
    "DeviceView",
    "EndedView",
    "ErrorView",
    "EstimateView",
    "EventView",
    "ExpectedStartView",
    "ExplanationView",
    "Fault",
    "FreeView",
    "GroupCourseView",
    "GroupExplanationView",
    "GroupView",
    "GroupsPage",
    "HandedOver",
    "HeldDevice",
    "JobView",
    "JobsPage",
    "JoinTokensPage",
    "KeyChange",
    "KeyRotated",
    "LeaseTask",
    "LeaseView",
    "LeasesPage",
    "LicenceUse",
    "LicenceView",
    "LicencesPage",
    "LoadView",
    "MatchView",
    "MoveView",
    "NewJoinToken",
    "NewToken",
    "NoCenter",
    "NodeExplanationView",
    "NodeSettingsPage",
    "NodeSettingsView",
    "NodeTask",
    "NodeView",
    "NodesPage",
    "NotFound",
    "PartView",
    "PlaceView",
    "PlanView",
    "PlannedView",
    "Refused",
    "ReservationView",
    "ReservationsPage",
    "RevisionView",
    "RoundView",
    "SecretView",
    "SecretsPage",
    "ServiceView",
    "ShiftView",
    "StateView",
    "StaysView",
    "StepView",
    "StoppedView",
    "Submitted",
    "SubmittedPage",
    "TaskCounts",
    "TaskView",
    "TasksPage",
    "TokenView",
    "TokensPage",
    "Unauthorized",
    "Unavailable",
    "Unproven",
    "Unreachable",
    "UsagePage",
    "UsageView",
    "UserView",
    "UsersPage",
    "WorkloadView",
    "WorkloadsPage",
    "connect",
    "find_center",
]


# The modules of the names.
_PLACES = (
    "cress.client.config",
    "cress.client.errors",
    "cress.protocol.views",
    "cress.protocol.job_views",
    "cress.protocol.cluster_views",
    "cress.protocol.lease_views",
    "cress.protocol.access_views",
    "cress.protocol.trial_views",
    "cress.protocol.centers",
)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in {"Client", "connect"}:
        return getattr(import_module("cress.client.blocking.http"), "Http" if name == "Client" else name)
    if name in __all__:
        for place in _PLACES:
            module = import_module(place)
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
