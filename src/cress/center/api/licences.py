"""Calls about licences."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of
from cress.center.show.licences import licences_page

router = APIRouter(prefix="/v1")


@router.get("/licences")
async def licences(request: Request) -> Response:
    """Return the licences of the cluster: their numbers, the jobs that hold them, the jobs that wait for them."""
    return reply(await licences_page(committer_of(request)))
