"""FIFO: by submit time."""

from __future__ import annotations

from cress.core.groups.policies.base import Policy


class FifoPolicy(Policy):
    """Only the head is offered."""
