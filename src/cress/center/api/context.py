"""The context of a call: the engine, and the user who calls."""

from __future__ import annotations

from fastapi import Request

from cress.center.engine import Engine


def engine_of(request: Request) -> Engine:
    """The center's engine."""
    engine: Engine = request.app.state.engine
    return engine


def user_of(request: Request) -> str:
    """The user whom the token belongs to."""
    user: str = request.app.state.user
    return user
