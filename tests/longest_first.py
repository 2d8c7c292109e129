"""The order of tests in a run with several processes: the longest begin first, so that the end waits for none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice


def longest_first(names: Sequence[str], longest: Collection[str], processes: int) -> list[int]:
    """Return the places of tests in the order in which they are to run.

    pytest-xdist gives each process an equal share of the list, one after the other; idle processes take tests from the
    ends of others' shares. So each share begins with its part of the longest.
    """
    first = [place for place, name in enumerate(names) if name in longest]
    others = iter([place for place, name in enumerate(names) if name not in longest])
    order: list[int] = []
    for number in range(processes):
        size = (len(names) - len(order)) // (processes - number)
        part = first[number::processes][:size]
        order += part
        order += islice(others, size - len(part))
    known = set(order)
    return [*order, *(place for place in range(len(names)) if place not in known)]
