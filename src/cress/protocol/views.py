"""Views of the API, as JSON: the center writes them, the client reads them.

Times are seconds since the epoch (``None``: not yet), durations seconds, resources a mapping of dimension to text
(``{"cpu": "2", "memory": "4G"}``).
"""

from __future__ import annotations

from typing import Any

import msgspec

Resources = dict[str, str]
# The types of a node's attributes.
Value = bool | int | float | str


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A struct that the API shows."""


class Fault(View, frozen=True):
    """One mistake: what is wrong, where, and a hint."""

    what: str
    hint: str = ""
    field: str = ""
    file: str = ""
    line: int = 0


class ErrorView(View, frozen=True):
    """The body of every error answer; ``code`` is for programs, ``message`` for people."""

    code: str
    message: str
    faults: tuple[Fault, ...] = ()


def to_json(view: Any) -> bytes:
    """Return a view as JSON."""
    return msgspec.json.encode(view)
