"""Renewal of the certificates of connected executors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cress.model.errors import InputError
from cress.protocol.messages import NewCertificate

if TYPE_CHECKING:
    from cress.center.tls.server import CenterTls

# Seconds between two checks of the clock, which may be set, and between two attempts after a failure.
LONGEST_SLEEP, AGAIN = 3600.0, 60.0

_log = logging.getLogger("cress.executors")


async def renew_node(tls: CenterTls, present: bytes, send: Callable[[NewCertificate], None]) -> None:
    """Send an executor a new certificate each time that two thirds of a life have passed.

    ``present`` is its first certificate (DER). End at once if the center's own authority did not issue it; otherwise go
    on until cancelled.
    """
    due = tls.node_due(present)
    while due is not None:
        left = due - time.time()
        if left > 0:
            await asyncio.sleep(min(left, LONGEST_SLEEP))
            continue
        try:
            renewed = tls.renewed_node(present)
        except InputError as error:
            _log.warning("the certificate of an executor cannot be renewed: %s", error)
            await asyncio.sleep(AGAIN)
            continue
        if renewed is None:
            return
        pem, facts = renewed
        send(NewCertificate(pem=pem))
        due = facts.renewed_at
