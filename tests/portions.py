"""How tests are handed to several processes: the longest first, and less at a time towards the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby, islice

# The most tests that are handed over at once, and how many times each process is to ask for more at least.
MOST, TIMES = 16, 12


def portions(names: Sequence[str], longest: Collection[str], processes: int) -> list[list[int]]:
    """Return the places of tests in the portions in which processes get them, one portion after the other.

    Each of the longest is a portion, before all others. A portion has tests of one file, whose fixtures they may share.
    It becomes smaller towards the end, which no process reaches long after another.
    """
    found = [[place] for place, name in enumerate(names) if name in longest]
    left = len(names) - len(found)
    others = (place for place, name in enumerate(names) if name not in longest)
    for _, places in groupby(others, key=lambda place: names[place].partition("::")[0]):
        while part := list(islice(places, max(1, min(MOST, left // (TIMES * processes))))):
            found.append(part)
            left -= len(part)
    return found
