"""Single calls to a center or another server, outside of a client: before there is a token, or while there is none
yet.
"""

from __future__ import annotations

import ssl
from typing import Any, TypeVar

from cress.client import wire
from cress.client.answers import refusal_of, told
from cress.client.calls import Call

# Seconds for the connection, and for an answer.
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 30.0

_T = TypeVar("_T")


def ask(url: str, call: Call[_T], context: ssl.SSLContext | None = None, token: str = "") -> _T:
    """Return the answer to one call to the center at ``url``. Raises ClientError."""
    import httpx

    content, headers = wire.content_of(call)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    options: dict[str, Any] = {} if context is None else {"verify": context}
    timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    with (
        told(url, ANSWER_SECONDS, ""),
        httpx.Client(base_url=url, timeout=timeout, trust_env=False, **options) as http,
    ):
        answer = http.request(
            call.row.method, call.path, params=wire.query_of(call.query), content=content, headers=headers
        )
    if not answer.is_success:
        raise refusal_of(answer)
    return wire.answer_of(call, answer.content, url)
