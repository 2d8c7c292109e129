"""The Python API of a center: ``connect()``, one method for each call, the views that they give.

Cheap to import: names are loaded when they are used, since every worker of ``Client.map`` comes through here.
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
    from cress.protocol.accessviews import (
        AuditEntry,
        AuditPage,
        CallerView,
        JoinTokensPage,
        NewJoinToken,
        NewToken,
        TokensPage,
        TokenView,
        UsersPage,
        UserView,
    )
    from cress.protocol.configviews import ConfiguredView, ConfigView, RevisionView
    from cress.protocol.familyviews import CronView, DagView, ServiceView, StepView
    from cress.protocol.leadership import CentersPage, CenterView, HandedOver
    from cress.protocol.leaseviews import LeasesPage, LeaseTask, LeaseView
    from cress.protocol.licenceviews import LicencesPage, LicenceUse, LicenceView
    from cress.protocol.moveviews import DeviceName, FreeView, MoveView, PlanView, RoundView, StaysView
    from cress.protocol.reservationviews import ReservationsPage, ReservationView
    from cress.protocol.secretviews import KeyRotated, SecretsPage, SecretView
    from cress.protocol.views import (
        Applied,
        AppliedJob,
        AppliedJobs,
        AttemptView,
        DeadlineView,
        DeviceUser,
        DeviceView,
        ErrorView,
        EstimateView,
        EventView,
        Fault,
        GroupsPage,
        GroupView,
        HeldDevice,
        JobsPage,
        JobView,
        LoadView,
        MatchView,
        NodeSettingsPage,
        NodeSettingsView,
        NodesPage,
        NodeTask,
        NodeView,
        PartView,
        PlaceView,
        StateView,
        Submitted,
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
    "CronView",
    "DagView",
    "DeadlineView",
    "DeviceName",
    "DeviceUser",
    "DeviceView",
    "ErrorView",
    "EstimateView",
    "EventView",
    "Fault",
    "FreeView",
    "GroupView",
    "GroupsPage",
    "HandedOver",
    "HeldDevice",
    "JobView",
    "JobsPage",
    "JoinTokensPage",
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
    "NodeSettingsPage",
    "NodeSettingsView",
    "NodeTask",
    "NodeView",
    "NodesPage",
    "NotFound",
    "PartView",
    "PlaceView",
    "PlanView",
    "Refused",
    "ReservationView",
    "ReservationsPage",
    "RevisionView",
    "RoundView",
    "SecretView",
    "SecretsPage",
    "ServiceView",
    "StateView",
    "StaysView",
    "StepView",
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
    "connect",
    "find_center",
]


# Where the names are.
_PLACES = (
    "cress.client.config",
    "cress.client.errors",
    "cress.protocol.views",
    "cress.protocol.familyviews",
    "cress.protocol.leaseviews",
    "cress.protocol.moveviews",
    "cress.protocol.reservationviews",
    "cress.protocol.licenceviews",
    "cress.protocol.leadership",
    "cress.protocol.accessviews",
    "cress.protocol.secretviews",
    "cress.protocol.configviews",
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
