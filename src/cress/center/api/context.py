"""The context of a call: the committer, and the user who calls."""

from __future__ import annotations

from fastapi import Request

from cress.center.committer import Committer


def committer_of(request: Request) -> Committer:
    """Return the center's committer."""
    committer: Committer = request.app.state.committer
    return committer


def user_of(request: Request) -> str:
    """Return the user whose token the call carries."""
    user: str = request.app.state.user
    return user
