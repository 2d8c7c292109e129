"""Advance reservations: making, changing and removing them by the word of an administrator."""

from __future__ import annotations

from cress.core.advance.choice import Found, find, no_reservation
from cress.lifecycle.context import Context
from cress.lifecycle.inputs import Reserve, Unreserve
from cress.model.advance import AdvanceReservation
from cress.model.errors import NotAccepted
from cress.model.events import AdvanceReservationRemoved, AdvanceReserved

# All of a cluster.
MOST = 1_000


def take(context: Context, word: Reserve | Unreserve) -> None:
    """Make or remove a reservation."""
    if isinstance(word, Unreserve):
        if word.name not in context.core.advance_reservations.by_name:
            raise no_reservation(context.core, word.name)
        context.observe(AdvanceReservationRemoved(word.name))
        return
    found = checked(context, word.reservation, replace=word.replace)
    context.observe(AdvanceReserved(found.reservation))


def checked(context: Context, reservation: AdvanceReservation, *, replace: bool) -> Found:
    """Return a reservation with its nodes, and the tasks that would have to stop; raises ``InputError`` and ``NotAccepted``."""
    known = context.core.advance_reservations.by_name
    if reservation.name in known and not replace:
        raise NotAccepted(
            f"there is a reservation {reservation.name} already", hint="another name, or --replace", field="name"
        )
    if len(known) >= MOST and reservation.name not in known:
        raise NotAccepted(f"there are {MOST:,} reservations already", hint="remove some: `cress reservations`")
    return find(context.core, reservation)
