"""Start material: values that an attempt gets when it starts, and that are stored nowhere."""

from __future__ import annotations

import msgspec

# The variable with the access of a stage to its center. The program of the task does not get it.
CENTER_OF_STAGE = "CRESS_STAGE_CENTER"


class CenterAccess(msgspec.Struct, frozen=True):
    """The addresses of the centers, separated by commas; the token of an attempt; and the certificate of the centers'
    authority (PEM; empty: the system's).
    """

    urls: str
    token: str
    ca: str = ""


class StartMaterial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Environment variables and files of one attempt, by name.

    ``str()`` and ``repr()`` hide the values, so that no log or error contains them.
    """

    environment: dict[str, bytes] = {}
    files: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"StartMaterial({len(self.environment)} variables, {len(self.files)} files)"
