"""Types of arrays, and growth of tables."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Bools: TypeAlias = npt.NDArray[np.bool_]
# Per node, other than 0 if no task may be placed on it; as long as there are nodes, or longer.
Closed: TypeAlias = npt.NDArray[np.int32]


def grown(table: npt.NDArray[Any], rows: int, axis: int = 0) -> npt.NDArray[Any]:
    """Return a copy of ``table`` with ``rows`` places along ``axis``, the new ones zero; C-contiguous."""
    shape = list(table.shape)
    shape[axis] = rows
    new = np.zeros(shape, table.dtype)
    new[tuple(slice(0, n) for n in table.shape)] = table
    return new
