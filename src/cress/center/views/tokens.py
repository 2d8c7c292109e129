"""Views of tokens."""

from __future__ import annotations

from cress.model.access import Token
from cress.model.times import SECOND
from cress.protocol.access_views import TokenView


def token_view(token: Token, utc: int) -> TokenView:
    """Return the view of a token at a time (µs)."""
    return TokenView(
        id=token.id,
        name=token.name,
        user=token.user,
        role=token.role.value,
        created=token.created / SECOND,
        expires=token.expires / SECOND if token.expires else None,
        expired=token.is_over(utc),
    )
