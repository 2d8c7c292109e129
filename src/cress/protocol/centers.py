"""Centers that share a store: headers of their answers, and the views of them."""

from __future__ import annotations

from cress.protocol.views import View

# Seconds by which an answer may be old, and the address of the center that leads, in answers of one that stands by.
AGE, LEADER = "Cress-Age", "Cress-Leader"
# In queries: ``ok`` lets a center that stands by answer, ``no`` does not.
STALE = "stale"


class CenterView(View, frozen=True):
    """A center: its ``address``, whether it leads, and whether it is the one that answers."""

    address: str
    leads: bool = False
    here: bool = False


class CentersPage(View, frozen=True):
    """The centers that share a store. ``age``: seconds by which the state of the one that answers may be behind."""

    centers: tuple[CenterView, ...]
    age: float = 0.0


class HandedOver(View, frozen=True):
    """The address of the center that leads now."""

    leader: str
