"""The tokens that sign-ins make: what is known of them without the packages that check ID tokens."""

from __future__ import annotations

from cress.model.access import Token
from cress.model.times import SECOND

# Seconds by which clocks may differ, and the greatest age of an ID token at sign-in.
LEEWAY, MOST_AGE = 60.0, 600.0
# Seconds after a sign-in in which its ID token is still young enough for another one.
USABLE = MOST_AGE + 2 * LEEWAY
# The names of these tokens begin with it; the rest is the digest of the ID token.
PREFIX = "login-"


def holds_id_token(token: Token, utc: int) -> bool:
    """Return whether nothing but this token keeps the ID token of its sign-in from being used again."""
    return token.name.startswith(PREFIX) and utc < token.created + round(USABLE * SECOND)
