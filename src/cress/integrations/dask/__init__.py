"""Dask on leases (docs/dask.md): ``CressCluster``, loaded on first use; it needs the extra ``cress[dask]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cress.integrations.dask.cluster import CressCluster

__all__ = ["CressCluster"]
# Without the extra one of these modules is missing.
_OF_THE_EXTRA = ("dask", "distributed", "tornado")


def __getattr__(name: str) -> object:
    if name != "CressCluster":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from cress.integrations.dask.cluster import CressCluster
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        raise ImportError(
            f"CressCluster needs Dask, and there is no module {error.name}: pip install 'cress[dask]'"
        ) from error
    return CressCluster
