"""Places in which compiled kernels are cached, and the stamp by which they become stale.

numba checks only the file of a function to decide if the cached machine code is valid. But kernels use constants and
other kernels from their neighbours, so a change in one of them makes all of them stale.
"""

from __future__ import annotations

from typing import Any

from numba.core import caching

# All modules with kernels of the scheduler.
MODULES = (
    "alike",
    "balance",
    "choice",
    "devices",
    "domains",
    "filling",
    "fragmentation",
    "fragments",
    "holding",
    "order",
    "runs",
    "shape_blocks",
    "timeline",
    "unrolled",
    "urgency",
    "victims",
)
FILES = tuple(f"{name}.py" for name in MODULES)


# Found once in a process: the stamps of all files in a folder, and the folders in which caches can be written. numba
# asks for both anew for each of some 140 kernels, which took a quarter of the time of their import.
_stamps: dict[str, tuple[Any, ...]] = {}
_writable: set[str] = set()


class _AllKernels:
    """A stamp made of the stamps of all kernel files."""

    _py_file: str

    def ensure_cache_path(self) -> None:
        """Make the folder of the cache; raise ``OSError`` if it cannot be written."""
        folder = self.get_cache_path()  # type: ignore[attr-defined]
        if folder not in _writable:
            super().ensure_cache_path()  # type: ignore[misc]
            _writable.add(folder)

    def get_source_stamp(self) -> tuple[Any, ...]:
        """Return the stamp that the cached code must have to be valid."""
        own = self._py_file
        folder, slash, name = own.rpartition("/")
        if name not in FILES:
            # A kernel of another room, alone in its file.
            return super().get_source_stamp()  # type: ignore[misc, no-any-return]
        if folder not in _stamps:
            stamps = []
            for name in FILES:
                self._py_file = folder + slash + name
                stamps.append(super().get_source_stamp())  # type: ignore[misc]
            self._py_file = own
            _stamps[folder] = tuple(stamps)
        return _stamps[folder]


class InTree(_AllKernels, caching.InTreeCacheLocator):
    """A cache beside the source, if that directory is writable."""


class UserWide(_AllKernels, caching.UserWideCacheLocator):
    """A cache in the user's cache directory."""


class UserProvided(_AllKernels, caching.UserProvidedCacheLocator):
    """A cache in the directory ``NUMBA_CACHE_DIR``."""
