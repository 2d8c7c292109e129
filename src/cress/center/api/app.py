"""The application: all calls, their errors, and the middleware around them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette

from cress.center.access.audited import Audited
from cress.center.access.callers import Callers
from cress.center.access.guard import Guard
from cress.center.api import (
    access,
    attempts,
    cancel,
    centers,
    changes,
    config,
    docs_page,
    errors,
    events,
    execution,
    explaining,
    families,
    files,
    groups,
    hold,
    job_files,
    jobs,
    join,
    leases,
    licences,
    login,
    logs,
    metrics,
    node_settings,
    nodes,
    rebalance,
    reservations,
    schemas,
    secrets,
    uploads,
    usage,
    versions,
    what_if,
)
from cress.center.api import names as name_service
from cress.center.api.context import Readers
from cress.center.api.leader_routing import LeaderRouting
from cress.center.api.routes import CallRoute
from cress.center.committing.committer import Committer
from cress.center.keeping.audit import Audit
from cress.center.leader.explaining import Explainer
from cress.center.leader.failover import Failover
from cress.center.leader.rebalancing import Planner
from cress.center.leader.trials import Trials
from cress.center.secrets.vault import Vault
from cress.center.web.asgi import App
from cress.center.web.request_rates import RequestRates

if TYPE_CHECKING:
    from cress.center.access.oidc import Provider
    from cress.center.tls.admission import Admission

# The modules with the functions that answer the calls of the table.
ROUTES = (
    jobs,
    explaining,
    cancel,
    changes,
    job_files,
    hold,
    families,
    versions,
    logs,
    execution,
    files,
    groups,
    node_settings,
    nodes,
    attempts,
    leases,
    rebalance,
    reservations,
    licences,
    config,
    name_service,
    events,
    usage,
    access,
    join,
    login,
    secrets,
    uploads,
    centers,
    what_if,
)


def make_app(
    committer: Committer,
    *,
    token: str,
    callers: Callers,
    vault: Vault,
    names: Iterable[str],
    failover: Failover | None = None,
    admission: Admission | None = None,
    provider: Provider | None = None,
    audit: Audit | None = None,
) -> App:
    """Return the API of ``committer``.

    ``token`` is the secret of the owner, and ``names`` are the accepted host names. ``admission`` makes the
    certificates of joining nodes, and ``provider`` signs users in. ``audit`` is the audit log of the center.
    """
    failover = failover or Failover(committer, committer.election, None, "")
    routes = [route for module in ROUTES for route in module.router.routes]
    app = Starlette(routes=[*routes, *docs_page.ROUTES, *metrics.ROUTES])
    app.router.redirect_slashes = False
    app.state.committer = committer
    app.state.callers = callers
    app.state.admission = admission
    app.state.provider = provider
    app.state.vault = vault
    app.state.failover = failover
    app.state.planner = Planner(committer)
    app.state.explainer = Explainer(committer)
    app.state.trials = Trials(committer)
    app.state.audit = audit = audit or Audit(committer.settings.data)
    app.state.document = document
    errors.install(app)
    rates = RequestRates(committer.settings.user_rate, committer.settings.address_rate)
    guarded = Guard(Readers(cast(App, app)), token=token, names=names, callers=callers, rates=rates)
    return LeaderRouting(Audited(guarded, audit), failover, committer.stored)


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document, made at the first request for it."""
    routes = [route for module in ROUTES for route in module.router.routes]
    return schemas.openapi(route for route in routes if isinstance(route, CallRoute))
