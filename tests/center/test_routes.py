"""The routes of the center are the rows of the table of calls."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.routing import WebSocketRoute

from cress.center.api.app import ROUTES
from cress.center.api.routes import CallRoute, Routes
from cress.protocol.calls import CALLS
from cress.protocol.calls.row import WEBSOCKET
from tests.center.program import Center

# Values for the words of paths.
VALUES = {"id": "1", "task": "0", "name": "x", "number": "1", "digest": "0" * 64}


def test_each_row_has_one_route_and_each_route_a_row() -> None:
    routes = []
    for module in ROUTES:
        assert isinstance(module.router, Routes)
        for route in module.router.routes:
            if isinstance(route, CallRoute):
                routes += [(method, route.path) for method in sorted(route.methods or ())]
            else:
                assert isinstance(route, WebSocketRoute)
                routes.append((WEBSOCKET, route.path))
    assert sorted(routes) == sorted((row.method, row.path) for row in CALLS)


@pytest.fixture(scope="module")
def viewer(shared: Center) -> dict[str, str]:
    """Headers of a user who may only look."""
    shared.http.put("/v1/users/vera", json={"role": "viewer"})
    made = shared.post("/v1/tokens", {"name": "look", "user": "vera", "role": "viewer"}, 201)
    return {"Authorization": f"Bearer {made['secret']}"}


def test_the_action_of_a_row_is_demanded_before_all_else(shared: Center, viewer: dict[str, str]) -> None:
    told: dict[str, Any] = {}
    for row in (row for row in CALLS if row.needs is not None):
        path = row.path.format(**VALUES)
        answer = shared.http.request(row.method, path, json={} if row.method != "GET" else None, headers=viewer)
        assert row.needs is not None
        if (answer.status_code, row.needs.value in answer.json()["message"]) != (403, True):
            told[f"{row.method} {row.path}"] = answer.text
    assert told == {}
