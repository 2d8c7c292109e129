"""The use of the cluster and of its groups over the past hour, day and week, as rings of means.

A curve takes 3.5 KB, and there are at most ``MOST_CURVES``. Nothing here is needed to decide: what is lost, such as
the time in which the center was down, is a gap in a drawing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from math import isnan, nan
from typing import NamedTuple

import msgspec

# Curves of one span that are kept.
MOST_CURVES = 1_000
# The kinds of curves: used / capacity of a dimension, use / quota of a group, numbers of tasks.
USE, GROUP, TASKS = "use", "group", "tasks"

Values = Mapping[tuple[str, str], float]


class CurveSpan(NamedTuple):
    """A span of time: the seconds for which one point stands, and the number of points."""

    step: int
    points: int


SPANS = {"hour": CurveSpan(15, 240), "day": CurveSpan(300, 288), "week": CurveSpan(1800, 336)}


class _StoredRing(msgspec.Struct, array_like=True):
    """A ring as it is written: the last slot, and the bytes of each curve, by kind and name."""

    step: int
    last: int
    curves: list[tuple[str, str, bytes]]


class _Ring:
    """The curves of one span. A slot is a time in steps since the epoch; it is the mean of the samples within it."""

    def __init__(self, span: CurveSpan) -> None:
        self.span = span
        self.last = -1
        self.curves: dict[tuple[str, str], array[float]] = {}
        # The sums and numbers of the samples in the last slot.
        self._sums: dict[tuple[str, str], tuple[float, int]] = {}

    def add(self, at: float, values: Values) -> None:
        slot = int(at // self.span.step)
        if self.last - self.span.points < slot < self.last:
            return  # the clock was set back: what is known of that time stays
        if slot < self.last:
            # Far back, so the clock was wrong before: without this the curves would stop until that time comes.
            self.curves, self.last = {}, -1
        if slot > self.last:
            self._advance(slot)
        for key, value in values.items():
            before, count = self._sums.get(key, (0.0, 0))
            self._sums[key] = before + value, count + 1
            curve = self.curves.get(key)
            if curve is None:
                if len(self.curves) >= MOST_CURVES and not self._drop_one(values):
                    continue
                curve = self.curves[key] = array("f", [nan]) * self.span.points
            curve[slot % self.span.points] = (before + value) / (count + 1)

    def _advance(self, slot: int) -> None:
        """Begin a slot, and empty those without a sample in between; a curve without a point is over."""
        self._sums = {}
        empty = range(max(self.last + 1, slot - self.span.points + 1), slot + 1)
        for key, curve in list(self.curves.items()):
            for skipped in empty:
                curve[skipped % self.span.points] = nan
            if slot % self.span.points == 0 and all(map(isnan, curve)):
                del self.curves[key]
        self.last = slot

    def _drop_one(self, values: Values) -> bool:
        """Make room for a curve, by one that has no sample now."""
        over = next((key for key in self.curves if key not in values), None)
        if over is not None:
            del self.curves[over]
        return over is not None

    def points(self, now: float) -> Iterator[tuple[tuple[str, str], list[float | None]]]:
        """Yield each curve until ``now``, oldest point first; None where nothing is known."""
        end = int(now // self.span.step)
        slots = range(end - self.span.points + 1, end + 1)
        # There may be a sample between two of them.
        for key, curve in list(self.curves.items()):
            yield (
                key,
                [
                    None if slot > self.last or slot <= self.last - self.span.points else _known(curve, slot)
                    for slot in slots
                ],
            )


def _known(curve: array[float], slot: int) -> float | None:
    value = curve[slot % len(curve)]
    return None if isnan(value) else round(value, 4)


class PastUse:
    """The curves of all spans."""

    def __init__(self) -> None:
        self._rings = {name: _Ring(span) for name, span in SPANS.items()}

    def add(self, at: float, values: Values) -> None:
        """Note values of the moment ``at`` (seconds since the epoch), by kind and name."""
        for ring in self._rings.values():
            ring.add(at, values)

    def begin(self, span: str, now: float) -> float:
        """Return the time of the first point of a span that ends ``now``."""
        step, points = SPANS[span]
        return float((now // step - points + 1) * step)

    def curves(self, span: str, now: float) -> Iterator[tuple[tuple[str, str], list[float | None]]]:
        """Yield the curves of a span that ends ``now``, by kind and name; None where nothing is known."""
        return self._rings[span].points(now)

    def encoded(self) -> bytes:
        """Return all curves as bytes."""
        rings = [
            _StoredRing(ring.span.step, ring.last, [(*key, curve.tobytes()) for key, curve in ring.curves.items()])
            for ring in self._rings.values()
        ]
        return msgspec.msgpack.encode(rings)

    @classmethod
    def decoded(cls, data: bytes) -> PastUse:
        """Return curves from their bytes; spans with other steps begin anew. Raises ValueError."""
        made = cls()
        rings = {ring.span.step: ring for ring in made._rings.values()}
        for stored in msgspec.msgpack.decode(data, type=list[_StoredRing]):
            ring = rings.get(stored.step)
            if ring is None:
                continue
            for kind, name, content in stored.curves[:MOST_CURVES]:
                curve = array("f")
                curve.frombytes(content)
                if len(curve) != ring.span.points:
                    raise ValueError(f"the curve of {kind} {name} has {len(curve)} points")
                ring.curves[kind, name] = curve
            ring.last = stored.last
        return made
