"""The orders of simultaneous events: see ``direct``, which has the rules."""

from __future__ import annotations

from collections.abc import Callable

TOGETHER, ONE_BY_ONE = "together", "one-by-one"
ORDERS = (TOGETHER, ONE_BY_ONE)

# Called with the number of events that have been handled.
Progress = Callable[[int], None]
