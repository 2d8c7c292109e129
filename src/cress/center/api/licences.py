"""Calls about licences."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of, sees_number
from cress.center.api.routes import Routes
from cress.center.views.licences import licences_page
from cress.protocol.calls import lease_calls
from cress.protocol.lease_views import LicencesPage

router = Routes()


@router.answers(lease_calls.LICENCES)
async def licences(request: Request) -> Response:
    """Return the licences of the cluster: their numbers, and the jobs that hold them or wait for them."""
    page = await licences_page(committer_of(request))
    views = (
        msgspec.structs.replace(
            licence,
            jobs=tuple(use for use in licence.jobs if sees_number(request, use.job)),
            waiters=tuple(use for use in licence.waiters if sees_number(request, use.job)),
        )
        for licence in page.licences
    )
    return reply(LicencesPage(licences=tuple(views)))
