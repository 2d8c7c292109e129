"""Routes of calls, each declared by its row of the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, Request

from cress.center.api.context import demand
from cress.protocol.calls.row import CallRow
from cress.protocol.rights import Action

F = TypeVar("F", bound=Callable[..., Any])


class Routes(APIRouter):
    """A router whose routes are rows: method, path, and the action that is demanded of the caller."""

    def answers(self, row: CallRow[Any]) -> Callable[[F], F]:
        """Return a decorator for the function that answers a call."""
        needs = [] if row.needs is None else [Depends(_demanding(row.needs))]
        return self.api_route(row.path, methods=[row.method], dependencies=needs)


def _demanding(action: Action) -> Callable[[Request], Awaitable[None]]:
    async def demanded(request: Request) -> None:
        demand(request, action)

    return demanded
