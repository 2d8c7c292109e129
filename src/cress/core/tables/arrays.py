"""Types of arrays, and what is asked of them everywhere: room for copies, and growth of tables."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Bools: TypeAlias = npt.NDArray[np.bool_]
# Per node, other than 0 if no task may be placed on it; as long as there are nodes, or longer.
Closed: TypeAlias = npt.NDArray[np.int32]


def copies_in(amounts: Ints, request: Ints, most: int) -> Ints:
    """Return the copies of a request (K) that ``amounts`` (..., K) hold, each at most ``most``."""
    asked = request > 0
    # What asks for nothing finds room anywhere; a node that holds more than it has may have less than nothing left.
    found: Ints = np.maximum((amounts[..., asked] // request[asked]).min(axis=-1, initial=most), 0)
    return found


def suffices(amounts: Ints, request: Ints) -> bool:
    """Return True if ``amounts`` (K) hold a request (K); dimensions that it does not ask for may lack."""
    return bool(copies_in(amounts, request, 1))


def grown(table: npt.NDArray[Any], rows: int, axis: int = 0) -> npt.NDArray[Any]:
    """Return a copy of ``table`` with ``rows`` places along ``axis``, the new ones zero; C-contiguous."""
    shape = list(table.shape)
    shape[axis] = rows
    new = np.zeros(shape, table.dtype)
    new[tuple(slice(0, n) for n in table.shape)] = table
    return new
