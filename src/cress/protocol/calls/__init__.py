"""The table of calls of the API: routes, OpenAPI, both halves of the client and docs/api.md come from it.

A new call is a row here, its route in ``center/api``, and its function in ``client/calls.py``.
"""

from __future__ import annotations

from typing import Any

from cress.protocol.calls import access_calls, cluster_calls, file_calls, job_calls, lease_calls
from cress.protocol.calls.row import CallRow

# In the order of docs/api.md.
CALLS: tuple[CallRow[Any], ...] = tuple(
    row
    for part in (job_calls, file_calls, cluster_calls, lease_calls, access_calls)
    for row in vars(part).values()
    if isinstance(row, CallRow)
)
