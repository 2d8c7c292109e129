"""The last states of worlds are checked at the end of each test."""

from tests.later_checks import last_states_are_checked

__all__ = ["last_states_are_checked"]
