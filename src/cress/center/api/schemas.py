"""``/openapi.json``: addresses and parameters from the framework, bodies from the structs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import cress
from cress.center.api.bodies import (
    ApplyBody,
    ConfigBody,
    CordonBody,
    CountBody,
    DrainBody,
    GroupBody,
    GroupsBody,
    InsideBody,
    JobsBody,
    JoinBody,
    JoinTokenBody,
    LeaseBody,
    LoginBody,
    NodeSettingsBody,
    RebalanceBody,
    ReserveBody,
    RotateKeyBody,
    ScaleBody,
    SecretBody,
    SignalBody,
    SubmitBody,
    TokenBody,
    UseBody,
    UserBody,
)
from cress.protocol.accessviews import (
    AuditPage,
    AuthorityView,
    CallerView,
    JoinedView,
    JoinTokensPage,
    JoinTokenView,
    LoginView,
    NewJoinToken,
    NewToken,
    TokensPage,
    TokenView,
    UsersPage,
    UserView,
)
from cress.protocol.configviews import ConfiguredView, ConfigView, HistoryView, RevisionView
from cress.protocol.leadership import CentersPage, HandedOver
from cress.protocol.leaseviews import LeasesPage
from cress.protocol.licenceviews import LicencesPage
from cress.protocol.moveviews import PlanView, RoundView
from cress.protocol.reservationviews import ReservationsPage, ReservationView
from cress.protocol.secretviews import KeyRotated, SecretsPage, SecretView
from cress.protocol.views import (
    Applied,
    AppliedJobs,
    CancelledJobs,
    ErrorView,
    EventView,
    GroupsPage,
    HeldJobs,
    JobsPage,
    JobView,
    NodeSettingsPage,
    NodesPage,
    NodeView,
    PlacesChange,
    PlacesPage,
    StateView,
    SubmittedPage,
    TasksPage,
    TaskView,
    UsagePage,
)

_JSON = "application/json"
_REF = "#/components/schemas/{name}"


def _header(name: str, description: str, most: int) -> dict[str, Any]:
    schema = {"type": "string", "maxLength": most}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


# Calls that make something, with answers of other calls.
_MAKING = {
    ("post", "/v1/rebalance"),
    ("post", "/v1/reservations"),
    ("post", "/v1/leases"),
    ("post", "/v1/leases/{id}/grow"),
}

# (method, path): the body of the request, the answer.
CALLS: dict[tuple[str, str], tuple[type | None, type | None]] = {
    ("post", "/v1/jobs"): (SubmitBody, SubmittedPage),
    ("get", "/v1/jobs"): (None, JobsPage),
    ("get", "/v1/jobs/{id}"): (None, JobView),
    ("get", "/v1/jobs/{id}/tasks"): (None, TasksPage),
    ("get", "/v1/jobs/{id}/tasks/{task}"): (None, TaskView),
    ("post", "/v1/jobs/{id}/cancel"): (None, JobView),
    ("post", "/v1/jobs/cancel"): (JobsBody, CancelledJobs),
    ("post", "/v1/jobs/hold"): (JobsBody, HeldJobs),
    ("post", "/v1/jobs/release"): (JobsBody, HeldJobs),
    ("post", "/v1/jobs/{id}/hold"): (None, JobView),
    ("post", "/v1/jobs/{id}/release"): (None, JobView),
    ("post", "/v1/jobs/{id}/scale"): (ScaleBody, JobView),
    ("post", "/v1/jobs/{id}/resume"): (None, SubmittedPage),
    ("post", "/v1/apply"): (ApplyBody, AppliedJobs),
    ("get", "/v1/schema"): (None, None),
    ("post", "/v1/jobs/{id}/signal"): (SignalBody, JobView),
    ("get", "/v1/jobs/{id}/logs"): (None, None),
    ("get", "/v1/groups"): (None, GroupsPage),
    ("put", "/v1/groups"): (GroupsBody, Applied),
    ("post", "/v1/groups/{name}"): (GroupBody, Applied),
    ("get", "/v1/config"): (None, ConfigView),
    ("put", "/v1/config"): (ConfigBody, ConfiguredView),
    ("get", "/v1/config/history"): (None, HistoryView),
    ("get", "/v1/config/history/{number}"): (None, RevisionView),
    ("get", "/v1/nodes"): (None, NodesPage),
    ("get", "/v1/nodes/{name}"): (None, NodeView),
    ("post", "/v1/nodes/{name}/cordon"): (CordonBody, NodeView),
    ("post", "/v1/nodes/{name}/uncordon"): (CordonBody, NodeView),
    ("post", "/v1/nodes/{name}/drain"): (DrainBody, NodeView),
    ("post", "/v1/nodes/{name}/forget"): (None, NodeView),
    ("get", "/v1/nodes/{name}/settings"): (None, NodeSettingsPage),
    ("post", "/v1/nodes/{name}/settings"): (NodeSettingsBody, NodeSettingsPage),
    ("get", "/v1/names/{name}"): (None, PlacesPage),
    ("get", "/v1/names/{name}/watch"): (None, PlacesChange),
    ("post", "/v1/leases"): (LeaseBody, LeasesPage),
    ("get", "/v1/leases"): (None, LeasesPage),
    ("get", "/v1/leases/{id}"): (None, LeasesPage),
    ("delete", "/v1/leases/{id}"): (None, LeasesPage),
    ("post", "/v1/leases/{id}/use"): (UseBody, LeasesPage),
    ("post", "/v1/leases/{id}/tasks"): (InsideBody, SubmittedPage),
    ("post", "/v1/leases/{id}/grow"): (CountBody, LeasesPage),
    ("post", "/v1/leases/{id}/shrink"): (CountBody, LeasesPage),
    ("put", "/v1/leases/{id}/renew"): (None, LeasesPage),
    ("get", "/v1/rebalance"): (None, PlanView),
    ("post", "/v1/rebalance"): (RebalanceBody, RoundView),
    ("delete", "/v1/rebalance"): (None, RoundView),
    ("get", "/v1/rebalance/round"): (None, RoundView),
    ("get", "/v1/reservations"): (None, ReservationsPage),
    ("post", "/v1/reservations"): (ReserveBody, ReservationView),
    ("delete", "/v1/reservations/{name}"): (None, ReservationView),
    ("get", "/v1/licences"): (None, LicencesPage),
    ("get", "/v1/usage"): (None, UsagePage),
    ("get", "/v1/whoami"): (None, CallerView),
    ("get", "/v1/users"): (None, UsersPage),
    ("put", "/v1/users/{name}"): (UserBody, UserView),
    ("get", "/v1/tokens"): (None, TokensPage),
    ("post", "/v1/tokens"): (TokenBody, NewToken),
    ("delete", "/v1/tokens/{name}"): (None, TokenView),
    ("get", "/v1/join-tokens"): (None, JoinTokensPage),
    ("post", "/v1/join-tokens"): (JoinTokenBody, NewJoinToken),
    ("delete", "/v1/join-tokens/{name}"): (None, JoinTokenView),
    ("get", "/v1/login"): (None, LoginView),
    ("post", "/v1/login"): (LoginBody, NewToken),
    ("get", "/v1/ca"): (None, AuthorityView),
    ("post", "/v1/join"): (JoinBody, JoinedView),
    ("get", "/v1/secrets"): (None, SecretsPage),
    ("get", "/v1/secrets/{name}"): (None, SecretView),
    ("put", "/v1/secrets/{name}"): (SecretBody, SecretView),
    ("delete", "/v1/secrets/{name}"): (None, SecretView),
    ("post", "/v1/secret-key/rotate"): (RotateKeyBody, KeyRotated),
    ("get", "/v1/audit"): (None, AuditPage),
    ("get", "/v1/events"): (None, EventView),
    ("get", "/v1/state"): (None, StateView),
    ("get", "/v1/centers"): (None, CentersPage),
    ("post", "/v1/centers/hand-over"): (None, HandedOver),
    ("get", "/v1/health"): (None, None),
}
_KEY = _header("Idempotency-Key", "the same submit with the same key gets the same answer", 200)
# Calls that need no token.
_OPEN = ("/v1/ca", "/v1/login")
_STREAMS = {("get", "/v1/events"), ("get", "/v1/names/{name}/watch")}
# Headers that have an effect.
_HEADERS = {
    ("post", "/v1/jobs"): [_KEY],
    ("post", "/v1/jobs/{id}/resume"): [_KEY],
    ("get", "/v1/events"): [_header("Last-Event-ID", "go on behind this event; counts for more than after", 18)],
    ("get", "/v1/names/{name}/watch"): [
        _header("Last-Event-ID", "go on behind this revision; counts for more than after", 60)
    ],
}
# Errors of a call, besides those of every call.
_EVERY = {"401": "no token, or a wrong one", "403": "the Host is not the center's, or the caller may not do this"}
_BODY = {"413": "the body is too large", "415": "the body is not JSON", "503": "it cannot be stored now"}


def openapi(app: FastAPI) -> dict[str, Any]:
    """Return the document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Cress", version=cress.__version__, summary="Cluster resource manager", routes=app.routes
        )
        kinds = {kind for pair in CALLS.values() for kind in pair if kind is not None} | {ErrorView}
        ordered = sorted(kinds, key=lambda kind: kind.__name__)
        refs, components = msgspec.json.schema_components(ordered, ref_template=_REF)
        by_kind = dict(zip(ordered, refs, strict=True))
        document["components"] = {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        }
        document["security"] = [{"token": []}]
        for method, path, operation in _operations(document):
            _describe(method, path, operation, by_kind)
        app.openapi_schema = document
    return app.openapi_schema


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def _describe(method: str, path: str, operation: dict[str, Any], by_kind: dict[type, dict[str, Any]]) -> None:
    takes, gives = CALLS[method, path]
    if takes is not None:
        required = takes not in (CordonBody, RotateKeyBody)
        operation["requestBody"] = {"required": required, "content": {_JSON: {"schema": by_kind[takes]}}}
    operation.setdefault("parameters", []).extend(_HEADERS.get((method, path), ()))
    content: dict[str, Any] = {_JSON: {"schema": by_kind[gives] if gives else {"type": "object"}}}
    if path.endswith("/logs"):
        content = {"text/plain": {"schema": {"type": "string", "format": "binary"}}}
    if path == "/v1/schema":
        content = {"application/schema+json": {"schema": {"type": "object"}}}
    if (method, path) in _STREAMS:
        # As OpenAPI 3.2 describes such a stream: each event by itself.
        data = {"type": "string", "contentMediaType": _JSON, "contentSchema": content[_JSON]["schema"]}
        event = {"id": {"type": "string"}, "event": {"type": "string"}, "data": data}
        content = {"text/event-stream": {"itemSchema": {"type": "object", "properties": event}}}
    done = "201" if gives in (SubmittedPage, NewToken, NewJoinToken) else "200"
    responses: dict[str, Any] = {done: {"description": "done", "content": content}}
    if (method, path) in _MAKING:
        responses["201"] = responses.pop("200")
    if path == "/v1/health":
        operation["security"] = []
        operation["responses"] = responses
        return
    errors = dict(_EVERY)
    if method == "get" and path in _OPEN:
        operation["security"] = []
        del errors["401"]
        errors["404"] = "this center has none"
    names = "{" in path or takes in (JobsBody, TokenBody, LoginBody) or path == "/v1/rebalance"
    if names and not path.startswith("/v1/names/"):
        errors["404"] = "there is nothing of that name"
    if operation.get("parameters") or takes is not None:
        errors["422"] = "the input is wrong; nothing was changed"
    if method != "get":
        errors |= _BODY | {"409": "well-formed, and not accepted; nothing was changed"}
    if (method, path) == ("get", "/v1/rebalance"):
        errors["409"] = "the job does not wait for room, or could never run"
    if path.endswith("/logs"):
        errors |= {"409": "there is nothing to read", "503": "the node is away"}
    for status, text in sorted(errors.items()):
        responses[status] = {"description": text, "content": {_JSON: {"schema": by_kind[ErrorView]}}}
    operation["responses"] = responses
