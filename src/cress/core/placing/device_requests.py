"""Device requests: the devices that a task of a shape needs on its node (design note 0007)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cress.core.kernels.devices import DISK_AMOUNTS, DISK_AT, PARTS
from cress.core.placing.constraints import Wants
from cress.core.tables.arrays import Ints
from cress.language.clauses import Clause, Kind
from cress.model.resources import BASE_DIMENSIONS, ResourceVector

_BASE = len(BASE_DIMENSIONS)


def disks_wanted(wants: Wants) -> tuple[int, int]:
    """Return the numbers of exclusive disks that a task requires and that it prefers."""
    must = sum(_number(clause) for clause in wants.hard if clause.kind is Kind.DISK)
    likes = (term.what for term in wants.terms if term.weight > 0 and isinstance(term.what, Clause))
    return must, next((_number(clause) for clause in likes if clause.kind is Kind.DISK), 0)


def _number(clause: Clause) -> int:
    assert isinstance(clause.value, int)
    return clause.value


@lru_cache(maxsize=4096)
def _alone(request: ResourceVector, must: int, likes: int) -> tuple[int, ...]:
    """Return the columns of ``ask`` for one task."""
    disk = request[DISK_AT : DISK_AT + DISK_AMOUNTS]
    count = must or likes
    shared = (0,) * DISK_AMOUNTS if must else disk
    per_disk = tuple(-(-amount // count) for amount in disk) if count else (0,) * DISK_AMOUNTS
    parts = (0,) * _BASE + request[_BASE:]
    asks = int(bool(must or likes or any(shared) or any(parts)))
    return (asks, must, likes, *shared, *per_disk, *parts)


def ask_of(request: ResourceVector, wants: Wants, size: int = 1) -> Ints:
    """Return the device request of each of ``size`` tasks that start together, in the form used by kernels.

    ``UnitDevices`` replaces it for a unit of several jobs.
    """
    if wants.parts:
        return np.zeros(PARTS + len(request), np.int64)
    must, likes = disks_wanted(wants)
    if size > 1 and any(request[DISK_AT : DISK_AT + DISK_AMOUNTS]):
        # A gang task with a preferred whole disk could leave the other tasks without a share.
        likes = 0
    return np.array(_alone(request, must, likes), np.int64)
