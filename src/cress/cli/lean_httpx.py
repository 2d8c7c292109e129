"""httpx without its own command line, which imports rich and pygments: two fifths of the time that httpx takes."""

from __future__ import annotations

import sys
from types import ModuleType


def leave_out_command_line() -> None:
    """Let a later ``import httpx`` in this program leave out ``httpx._main``, which only the command `httpx` uses."""
    if "httpx" in sys.modules:
        return
    stub = ModuleType("httpx._main")
    # A function, because httpx sets the module of everything that it exports.
    stub.main = lambda: None  # type: ignore[attr-defined]
    sys.modules.setdefault("httpx._main", stub)
