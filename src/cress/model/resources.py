"""Resource vectors: integer amounts per dimension, and the dimensions of a cluster.

A vector is a tuple of integers in the order of ``Dimensions.names``: cpu in millicores, memory in bytes, network in
bit/s (egress), disk_read and disk_write in bytes/s, iops_read and iops_write in operations/s, custom dimensions in
thousandths of a unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeAlias

from cress.model.errors import InputError

ResourceVector: TypeAlias = tuple[int, ...]


class Measure(Enum):
    """The unit in which the amounts of a dimension are counted and written."""

    MILLI = "milli"  # thousandths of a core, a GPU, a slot
    BYTES = "bytes"  # K, M, G, T are powers of 1024
    BITS_PER_SECOND = "bit/s"  # K, M, G, T are powers of 1000
    BYTES_PER_SECOND = "bytes/s"  # powers of 1000
    OPERATIONS_PER_SECOND = "1/s"  # powers of 1000


BASE_DIMENSIONS: dict[str, Measure] = {
    "cpu": Measure.MILLI,
    "memory": Measure.BYTES,
    "network": Measure.BITS_PER_SECOND,
    "disk_read": Measure.BYTES_PER_SECOND,
    "disk_write": Measure.BYTES_PER_SECOND,
    "iops_read": Measure.OPERATIONS_PER_SECOND,
    "iops_write": Measure.OPERATIONS_PER_SECOND,
}

# ``disk`` is the word in texts for these four together, so no dimension may have that name.
DISK = "disk"
DISK_DIMENSIONS = ("disk_read", "disk_write", "iops_read", "iops_write")

# The kernels keep "lacks dimension k" as bits of an int32.
MAX_DIMENSIONS = 24


class Dimensions:
    """The dimensions of one cluster: the seven built-in ones, then the declared ones in their order."""

    def __init__(self, custom: tuple[str, ...] = ()) -> None:
        for name in custom:
            if not (name.isascii() and name.isidentifier()) or name != name.lower():
                raise InputError(
                    f"{name!r} is not a name for a dimension", hint="lower-case letters, digits and _, like gpu"
                )
            if name == DISK:
                raise InputError(f"{name!r} is taken", hint="it stands for " + ", ".join(DISK_DIMENSIONS))
            if name in BASE_DIMENSIONS or custom.count(name) > 1:
                raise InputError(f"dimension {name!r} is declared twice", hint="each name once")
        if len(BASE_DIMENSIONS) + len(custom) > MAX_DIMENSIONS:
            raise InputError(
                f"{len(custom)} custom dimensions are too many",
                hint=f"at most {MAX_DIMENSIONS - len(BASE_DIMENSIONS)}",
            )
        self.custom = custom
        self.names: tuple[str, ...] = (*BASE_DIMENSIONS, *custom)
        self.index: dict[str, int] = {name: k for k, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dimensions) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Dimensions({self.custom!r})"

    def with_more(self, names: Iterable[str]) -> Dimensions:
        """Return these dimensions followed by the new ones of ``names``. Raises InputError."""
        return Dimensions((*self.custom, *(name for name in dict.fromkeys(names) if name not in self.index)))

    def padded(self, vector: ResourceVector) -> ResourceVector:
        """Extend a vector of fewer dimensions, from before others were declared, with zeros."""
        return (*vector, *(0 for _ in range(len(self.names) - len(vector))))

    def measure(self, name: str) -> Measure:
        """Return the unit of the amounts of dimension ``name``."""
        return BASE_DIMENSIONS.get(name, Measure.MILLI)

    def vector(self, **amounts: int) -> ResourceVector:
        """Return the vector with these raw integer amounts and 0 elsewhere."""
        for name in amounts:
            if name not in self.index:
                raise InputError(f"unknown dimension {name!r}", hint="one of " + ", ".join(self.names))
        return tuple(amounts.get(name, 0) for name in self.names)
