"""Worlds of the core are checked at the end of each test."""

from tests.core.builders import worlds_are_checked_at_the_end

__all__ = ["worlds_are_checked_at_the_end"]
