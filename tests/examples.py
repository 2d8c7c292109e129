"""The number of examples of a property that needs more or fewer than usual, in every profile of hypothesis."""

from __future__ import annotations

from hypothesis import settings

# Examples of a property in the usual profile, and how many times as many a long run tries.
USUAL, LONGER = 30, 10


def examples(count: int) -> settings:
    """Return the setting of a property with ``count`` examples in the usual profile, and as many times more in a long
    run.
    """
    return settings(max_examples=count * settings().max_examples // USUAL)
