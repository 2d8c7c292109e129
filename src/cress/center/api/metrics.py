"""``/metrics``: numbers about the cluster for Prometheus."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.center.api.context import committer_of

if TYPE_CHECKING:
    from types import ModuleType

    from cress.center.views.metrics import Scrapes

TEXT = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(request: Request) -> Response:
    """Return the numbers of this center in the text format of Prometheus. Any token of a user opens them."""
    # The library takes some 50 ms to load, and not every center is scraped.
    view = await asyncio.to_thread(_library)
    state = request.app.state
    if not hasattr(state, "numbers"):
        state.numbers = view.Scrapes(committer_of(request))
    numbers: Scrapes = state.numbers
    families = await numbers.collected()
    text = await asyncio.to_thread(view.written, families)
    return Response(text, media_type=TEXT)


def _library() -> ModuleType:
    from cress.center.views import metrics as view

    return view


ROUTES = (Route("/metrics", metrics),)
