"""Start material: values that an attempt gets when it starts, and that are stored nowhere."""

from __future__ import annotations

import msgspec


class StartMaterial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Environment variables and files of one attempt, by name.

    ``str()`` and ``repr()`` hide the values, so that no log or error contains them.
    """

    environment: dict[str, bytes] = {}
    files: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"StartMaterial({len(self.environment)} variables, {len(self.files)} files)"
