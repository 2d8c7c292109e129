"""The ring of events, held against a plain deque."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from cress.protocol.cluster_views import EventView
from cress.shell.center.event_ring import PART, EventRing


@given(
    added=st.lists(st.integers(0, 3 * PART), max_size=8),
    most=st.sampled_from([1, PART - 1, PART, 2 * PART + 5]),
    skip=st.integers(-5, 4 * PART),
    wanted=st.integers(0, 3 * PART),
)
def test_it_holds_what_a_deque_holds(added: list[int], most: int, skip: int, wanted: int) -> None:
    ring, plain = EventRing(most), deque[EventView](maxlen=most)
    number = 0
    for count in added:
        events = [EventView(number=number + each, at=1.5, kind="task.ended", code=0) for each in range(count)]
        number += count
        ring.add(events)
        plain.extend(events)
        assert len(ring) == len(plain)
    first = max(0, skip)
    assert ring.some(skip, wanted) == list(plain)[first : first + wanted]
    ring.clear()
    assert (len(ring), ring.some(0, 9)) == (0, [])
