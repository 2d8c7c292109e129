"""Advance reservations: nodes or amounts that are kept for a group at known times, or closed for maintenance (design
note 0032).

Times are clocks of a zone: a repetition is at the same time of day whatever the clocks do. Where clocks skip the start
it begins after the skip; where they show it twice, it begins at the first and ends at the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from cress.model.resources import ResourceVector
from cress.model.times import DAY, NEVER

# Of a repetition, the occurrences that begin so long after the first one that is not over are known (design note 0032).
HORIZON = 15 * DAY
# Repetitions are looked at for overlaps so long from each start of a reservation on: two years of clocks that are put
# forward and back.
LOOKED_AT = 740 * DAY

KEEP, STOP = "keep", "stop"
AT_END = (KEEP, STOP)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
# No reservation is later: clocks of all zones show it, and a repetition is followed until then (the end of 9989 in
# UTC).
LATEST = (datetime(9990, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND


class AdvanceReservation(msgspec.Struct, frozen=True, kw_only=True):
    """An advance reservation of a group; without a group it is a maintenance window, in which nothing runs.

    It is from ``start`` to ``end`` (µs since the epoch, the first occurrence), and on ``days`` (0 Monday … 6) at the
    same time of day in ``zone`` (empty: UTC); no days: once. ``places`` are its nodes and how often it has ``amounts``
    there; no amounts: whole nodes. ``count`` copies of them were ``chosen`` among the nodes that satisfy
    ``requirement``, and are chosen again when a node is lost; 0: the nodes were named. ``at_end`` says what becomes of
    tasks that started in it and outlast it: ``keep`` or ``stop``.
    """

    name: str
    start: int
    end: int
    group: str = ""
    days: tuple[int, ...] = ()
    zone: str = ""
    places: tuple[tuple[str, int], ...] = ()
    amounts: ResourceVector = ()
    count: int = 0
    requirement: str = ""
    at_end: str = KEEP
    by: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its nodes."""
        return tuple(name for name, _ in self.places)

    @property
    def is_maintenance(self) -> bool:
        """True if it has no group: nothing runs on its nodes at that time."""
        return not self.group


def occurrences(of: AdvanceReservation, after: int, zone: tzinfo) -> Iterator[tuple[int, int]]:
    """Yield the times from ``after`` (µs since the epoch) on at which a reservation holds or will: starts and ends,
    ascending.

    Two that touch or overlap are one.
    """
    held: tuple[int, int] | None = None
    for start, end in _all(of, after, zone):
        if end <= after:
            continue
        if held is not None and start > held[1]:
            yield held
            held = None
        held = (start, end) if held is None else (held[0], max(held[1], end))
        if of.days and held[1] - held[0] > LOOKED_AT:
            # Without a gap it never ends.
            yield held[0], NEVER
            return
    if held is not None:
        yield held


def _all(of: AdvanceReservation, after: int, zone: tzinfo) -> Iterator[tuple[int, int]]:
    if not of.days:
        yield of.start, of.end
        return
    first, last = local(of.start, zone), local(of.end, zone)
    length = last - first
    day = first
    at = local(max(after, of.start), zone) - length - 2 * _DAY
    if at > day:
        day += (at - day) // _DAY * _DAY
    while day.year < 9990:
        if day.weekday() in of.days:
            start = moment(day, zone)
            if start >= of.start:
                yield start, max(start, moment(day + length, zone, last=True))
        day += _DAY


def known(of: AdvanceReservation, now: int, zone: tzinfo) -> tuple[tuple[int, int], ...]:
    """Return the occurrences that are not over at ``now`` and begin within the horizon; all times are µs since the
    epoch.

    The horizon is counted from the first of them, so they change only when one is over.
    """
    found: list[tuple[int, int]] = []
    for start, end in occurrences(of, now, zone):
        if found and start >= found[0][0] + HORIZON:
            break
        found.append((start, end))
    return tuple(found)


def longest_gap(of: AdvanceReservation, now: int, zone: tzinfo) -> int:
    """Return the longest time (µs) between two occurrences of a repetition from ``now`` on; NEVER if it ends."""
    if not of.days:
        return NEVER
    longest, before = 0, now
    for start, end in occurrences(of, now, zone):
        longest = max(longest, start - before)
        before = end
        if start > max(now, of.start) + HORIZON or end >= NEVER:
            break
    return longest


def local(utc: int, zone: tzinfo) -> datetime:
    """Return what clocks of a zone show at a moment (µs since the epoch), without the zone."""
    return (_EPOCH + utc * _MICROSECOND).astimezone(zone).replace(tzinfo=None, fold=0)


def moment(clocks: datetime, zone: tzinfo, *, last: bool = False) -> int:
    """Return the moment at which clocks show that, the first or the ``last`` one; if they skip it, that of the skip."""
    found = _utc(clocks, zone, int(last))
    if local(found, zone) == clocks:
        return found
    before, after = _utc(clocks, zone, 1), _utc(clocks, zone, 0)
    low, high = min(before, after), max(before, after)
    offset = local(low, zone) - local(low, UTC)
    while high - low > 1:
        middle = (low + high) // 2
        if local(middle, zone) - local(middle, UTC) == offset:
            low = middle
        else:
            high = middle
    return high


def _utc(clocks: datetime, zone: tzinfo, fold: int) -> int:
    return (clocks.replace(tzinfo=zone, fold=fold) - _EPOCH) // _MICROSECOND
