"""A row of the table of calls."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from cress.protocol.queries import Query
from cress.protocol.rights import LEAST, Action

T = TypeVar("T")
# The method of a call that opens a WebSocket.
WEBSOCKET = "WEBSOCKET"
_WORD = re.compile(r"\{\w+\}")


@dataclass(frozen=True)
class CallRow(Generic[T]):
    """A call of the API: method, path, types of body, query and answer, and its effect (``about``, for docs/api.md)."""

    method: str
    path: str
    answer: type[T]
    _: KW_ONLY
    about: str
    body: type | None = None
    # An example of a body.
    shown: str = ""
    # The query parameters: routes, OpenAPI, client and docs/api.md take names, types, bounds and defaults from it.
    query: type[Query] | None = None
    # The action that the caller's role must permit.
    needs: Action | None = None
    # Restricted to callers who may change the job, lease or group.
    steers: bool = False
    # No token is needed.
    open: bool = False
    # The client may repeat it if it is unknown whether the first request arrived.
    again: bool = True
    # It takes effect once for each ``Idempotency-Key``.
    keyed: bool = False
    # It creates something, so the answer has status 201.
    makes: bool = False
    # The answer is a stream of events of that type.
    streams: bool = False

    def at(self, *values: object) -> str:
        """Return the path with values for its parameters."""
        given = iter(values)
        return _WORD.sub(lambda _: quote(str(next(given)), safe=""), self.path)

    @property
    def role(self) -> str:
        """Return the required role in a word; ``none`` needs no token."""
        if self.open:
            return "none"
        if self.steers:
            return "owner"
        return "viewer" if self.needs is None else LEAST[self.needs].value
