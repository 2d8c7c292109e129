"""The context of a call: the engine, and the user who calls."""

from __future__ import annotations

from fastapi import Request

from cress.center.engine import Engine


def engine_of(request: Request) -> Engine:
    """Return the center's engine."""
    engine: Engine = request.app.state.engine
    return engine


def user_of(request: Request) -> str:
    """Return the user whose token the call carries."""
    user: str = request.app.state.user
    return user
