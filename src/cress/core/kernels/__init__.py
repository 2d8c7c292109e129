"""The compiled loops. The tests have a plain version of each, with the same operations in the same order."""

from __future__ import annotations

from numba import config

_LOCATORS = ("UserProvided", "InTree", "UserWide")
config.CACHE_LOCATOR_CLASSES = ",".join(f"{__name__}.cache.{name}" for name in _LOCATORS)  # type: ignore[attr-defined]
