"""A lead without servers, for those who work with one."""

from __future__ import annotations

from cress.store.lead import boottime


class Lead:
    """A ``Lead`` that no other center wants, nor this one if it is not ``wanted``.

    ``certain``: its claims are confirmed in time; others may be another center's by now.
    """

    session = 0.06

    def __init__(self, *, certain: bool = True, wanted: bool = True) -> None:
        self.certain = certain
        self._wanted = wanted
        self.until = 0

    def claim(self) -> bool:
        self.until = boottime() + 1_000_000 if self.certain and self._wanted else 0
        return self._wanted

    def leader(self) -> str:
        return ""

    def wait(self, seconds: float) -> None: ...

    def stand_by(self) -> None: ...

    def others(self) -> list[str]:
        return []

    def release(self) -> None: ...

    def close(self) -> None: ...
