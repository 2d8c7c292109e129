"""FIFO: by submit time."""

from __future__ import annotations

from cress.core.groups.policies.base import Policy
from cress.core.groups.policies.queue import J


class FifoPolicy(Policy[J]):
    """Policy that offers only the head, by submit time."""

    keeps_order = True
