"""Shares of what a portal keeps for its users: where there is no room, those who have most give way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def gives_way(owners: Mapping[str, str]) -> str:
    """Return the key that gives way, of keys in order with their owners: the first key of the owner with most keys.

    So nobody loses a place because another one takes many.
    """
    counts = Counter(owners.values())
    most = max(counts.values())
    return next(key for key, owner in owners.items() if counts[owner] == most)
