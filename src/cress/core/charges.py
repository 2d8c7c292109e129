"""Charges: the cores that a task counts for in its group, or its share of its dominant dimension."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from cress.model.resources import ResourceVector

MILLION = 1_000_000

# What a request is charged on a node of a capacity.
Share: TypeAlias = Callable[[ResourceVector, ResourceVector], int]


@lru_cache(maxsize=4096)
def core_share(request: ResourceVector, capacity: ResourceVector) -> int:
    """Return the cores (millicores) that a task takes of a node, rounded up.

    That is its request, or if larger, the share of its dominant resource applied to the cores of the node. A task with
    all of the memory leaves nothing of the node, however few cores it asks for (design note 0014).
    """
    cores = capacity[0]
    shares = (-(-amount * cores // total) for amount, total in zip(request, capacity, strict=True) if amount and total)
    return max(request[0], max(shares, default=0))


def dominant_share(request: ResourceVector, capacity: ResourceVector) -> int:
    """Return the maximum over the dimensions of request / capacity, in millionths, rounded up (G's key resource)."""
    return max(
        (-(-amount * MILLION // total) for amount, total in zip(request, capacity, strict=True) if amount and total),
        default=0,
    )
