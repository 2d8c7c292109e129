"""Trials of changes of the cluster on a copy, for the page "What if"."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError
from cress.model.access import Role, role_of
from cress.model.errors import InputError
from cress.portal.sessions import BrowserSession
from cress.portal.trials import TrialResult, tried
from cress.portal.web import FormError, changing, page, sentences, signed_in, status_of

# Seconds that a trial may take, as people choose them.
PATIENCE = ("5", "20", "60")


@signed_in
async def what_if(request: Request, session: BrowserSession) -> Response:
    """Show the form; with ``?groups=1`` it has the present groups as text."""
    form = dict(request.query_params)
    if form.pop("groups", ""):
        form["groups"] = (await session.viewer.ask(calls.groups())).text
    return await _page(request, session, form)


async def _page(
    request: Request,
    session: BrowserSession,
    form: Mapping[str, str],
    *,
    trial: TrialResult | None = None,
    mistakes: list[str] | None = None,
    status: int = 200,
) -> Response:
    caller = await session.viewer.caller()
    return await page(
        request,
        session,
        "whatif.html",
        status,
        form=form,
        trial=trial,
        mistakes=mistakes or [],
        may=role_of(caller.role).rank >= Role.USER.rank,
        patience=PATIENCE,
    )


async def change_of(request: Request, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the change that a form describes, as in ``WhatIfBody``. Raises InputError."""
    change: dict[str, Any] = {}
    for key in ("remove_nodes", "add_nodes"):
        # A text such as 10x<16, 64G> has commas inside.
        lines = [line.strip() for line in form.get(key, "").splitlines() if line.strip()]
        names = [
            name for line in lines for name in (line.replace(",", " ").split() if key == "remove_nodes" else [line])
        ]
        if names:
            change[key] = names
    options: dict[str, str | None] = {}
    for line in form.get("options", "").splitlines():
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{line[:80]!r} is not an option", hint="KEY=VALUE, one on each line", field="options")
        options[key.strip()] = value.strip() or None
    if options:
        change["options"] = options
    if form.get("groups", "").strip():
        change["groups"] = form["groups"]
    if form.get("jobs", "").strip():
        written = await asyncio.to_thread(request.app.state.settings.read_jobs, form["jobs"])
        change["jobs"] = [job.mapping for job in written]
    if not change:
        raise FormError("no change is described: fill in at least one field", 422)
    return change


@changing
async def trial(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Try a change and show its consequences; nothing is stored."""
    seconds = float(form.get("seconds", "20")) if form.get("seconds", "20") in PATIENCE else 20.0
    try:
        change = await change_of(request, form)
        found = await tried(session.viewer, change, seconds)
    except (InputError, ClientError, FormError) as error:
        return await _page(request, session, form, mistakes=sentences(error), status=status_of(error))
    return await _page(request, session, form, trial=found)


ROUTES = [Route("/what-if", what_if, methods=["GET"]), Route("/what-if", trial, methods=["POST"])]
