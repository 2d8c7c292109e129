"""Advance reservations: nodes or amounts kept for a group at known times, or closed for maintenance (design note 0032).

Times are local times of a zone: a repetition begins at the same time of day before and after a change of the clocks. If
the clocks skip its start, it begins after the skip. If they show a time twice, it begins at the first and ends at the
last.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from cress.model.resources import ResourceVector
from cress.model.times import DAY, NEVER

# The core knows the occurrences of a repetition that begin within this time after the first unfinished one (design note
# 0032).
HORIZON = 15 * DAY
# Search for overlaps of repetitions, from each start of a reservation: two years of changes of the clocks.
LOOKED_AT = 740 * DAY

KEEP, STOP = "keep", "stop"
AT_END = (KEEP, STOP)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
# The latest time of a reservation (the end of 9989 in UTC), which clocks of all zones can show; repetitions are
# followed until then.
LATEST = (datetime(9990, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND


class AdvanceReservation(msgspec.Struct, frozen=True, kw_only=True):
    """An advance reservation of a group; without a group, a maintenance window, in which nothing runs.

    The first occurrence lasts from ``start`` to ``end`` (µs since the epoch). It is repeated on ``days`` (0 Monday … 6)
    at the same time of day in ``zone`` (empty: UTC); without days it happens once. ``places`` are its nodes, each with
    the number of copies of ``amounts`` that it keeps there; without amounts it keeps whole nodes. ``count`` copies were
    ``chosen`` among the nodes that satisfy ``requirement``, and are chosen again when a node is lost; ``count`` 0: the
    nodes were named. ``at_end`` is the rule for tasks that started in the reservation and outlast it: ``keep`` or
    ``stop``.
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
        """Flag: it has no group, so nothing runs on its nodes during its time."""
        return not self.group


def occurrences(of: AdvanceReservation, after: int, zone: tzinfo) -> Iterator[tuple[int, int]]:
    """Yield the occurrences of a reservation that end after ``after`` as starts and ends (µs since the epoch),
    ascending.

    Occurrences that touch or overlap are merged.
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
    """Return the unfinished occurrences at ``now`` that begin within the horizon; all times are µs since the epoch.

    The horizon is counted from the first of them, so the result changes only when an occurrence ends.
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
    """Return the local time (without a zone) of a moment (µs since the epoch)."""
    return (_EPOCH + utc * _MICROSECOND).astimezone(zone).replace(tzinfo=None, fold=0)


def moment(clocks: datetime, zone: tzinfo, *, last: bool = False) -> int:
    """Return the moment of a local time: the first one, or the ``last``; for a skipped time, the moment of the skip."""
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
