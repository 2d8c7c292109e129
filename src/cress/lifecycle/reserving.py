"""Advance reservations: made, changed and removed by an administrator."""

from __future__ import annotations

from cress.core.advance.choice import FoundNodes, find, no_reservation
from cress.lifecycle.context import Context
from cress.model.advance import AdvanceReservation
from cress.model.errors import InputError, NotAccepted
from cress.model.events import AdvanceReservationRemoved, AdvanceReserved

# Maximum number in a cluster.
MOST = 1_000


def take(context: Context, word: AdvanceReserved | AdvanceReservationRemoved) -> None:
    """Make or remove a reservation."""
    if isinstance(word, AdvanceReservationRemoved):
        if word.name not in context.core.advance_reservations.by_name:
            raise no_reservation(context.core.books, word.name)
        context.observe(AdvanceReservationRemoved(word.name))
        return
    found = checked(context, word.reservation, replace=word.replace)
    context.observe(AdvanceReserved(found.reservation))


def checked(context: Context, reservation: AdvanceReservation, *, replace: bool) -> FoundNodes:
    """Return a reservation with its nodes, and the tasks that it would stop. Raises ``InputError`` and
    ``NotAccepted``.
    """
    known = context.core.advance_reservations.by_name
    if reservation.name in known and not replace:
        raise NotAccepted(
            f"there is a reservation {reservation.name} already", hint="another name, or --replace", field="name"
        )
    if replace:
        _check_replaced(context, reservation)
    if len(known) >= MOST and reservation.name not in known:
        raise NotAccepted(f"there are {MOST:,} reservations already", hint="remove some: `cress reservations`")
    return find(context.core.books, reservation)


def _check_replaced(context: Context, reservation: AdvanceReservation) -> None:
    """Raise ``InputError`` if there is nothing to replace, or a group would lose its reservation to maintenance."""
    name = reservation.name
    known = context.core.advance_reservations.by_name
    if name not in known:
        missing = no_reservation(context.core.books, name)
        raise InputError(f"there is no reservation {name!r} to replace", hint=missing.hint, field="name")
    if (group := known[name].spec.group) and reservation.is_maintenance:
        raise InputError(
            f"reservation {name} is of group {group}, and without a group it would be for maintenance",
            hint=f"say --group {group}, or remove it first",
            field="group",
        )
