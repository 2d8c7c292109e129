"""The forms in which programs write their logs."""

from __future__ import annotations

from enum import Enum


class LogFormat(Enum):
    """The form of a line of the log on standard error."""

    TEXT = "text"
    JSON = "json"  # one object a line
