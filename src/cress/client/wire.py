"""Calls and answers as bytes and headers of HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from cress.client.calls import PreparedCall, T
from cress.client.errors import ClientError, NotFound, Refused, Unauthorized, Unavailable, Unreachable
from cress.protocol.logs import LogFrames, Piece, Shown
from cress.protocol.views import ErrorView, Fault

# Most bytes that the center reads; it disconnects in the middle of a larger body.
MOST_BODY = 16 * 2**20


def content_of(call: PreparedCall[Any]) -> tuple[bytes | None, dict[str, str]]:
    """Return the body and the headers of a call. Raises ``Refused`` if the body is too large for the center."""
    if call.body is None:
        return None, dict(call.headers)
    content = _encode(call.body)
    if len(content) > MOST_BODY:
        raise Refused(f"the request has more than {MOST_BODY // 2**20} MB together", "too_large")
    return content, {**call.headers, "Content-Type": "application/json"}


def query_of(given: Mapping[str, object]) -> dict[str, str]:
    """Return the query of an address."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}


def answer_of(call: PreparedCall[T], content: bytes, url: str) -> T:
    """Return a decoded successful answer. Raises ``Unreachable`` if it cannot come from a center."""
    try:
        return msgspec.json.decode(content, type=call.row.answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = Unreachable(f"the server at {url} is not a center of this version")
        error.passing = False
        raise error from None


def refusal(status: int, content: bytes, url: str) -> ClientError:
    """Return the error for an answer."""
    code = ""
    faults: tuple[Fault, ...] = ()
    try:
        view = msgspec.json.decode(content, type=ErrorView)
        code, message, faults = view.code, view.message, view.faults
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = f"the server at {url} is not a working center (HTTP {status})"
    if status in {401, 403}:
        return Unauthorized(message)
    if status == 404 and code:
        return NotFound(message)
    if status == 409:
        return Refused(message, "not_accepted", faults)
    if status in {400, 405, 413, 415, 422} and code:
        return Refused(message, code, faults)
    error = Unavailable(message)
    error.passing = status in {429, 502, 503, 504}
    return error


def cause_of(error: BaseException) -> str:
    """Return the system's message about a connection, without numbers and class names."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror.lower()
        inner = inner.__cause__ or inner.__context__
    return (str(error) or type(error).__name__).rstrip(".").lower()


def _encode(body: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Invalid characters are sent as escapes, so that the center can name their field.
        return json.dumps(body).encode()


class Pieces:
    """Makes pieces of a log from the bytes of an answer."""

    def __init__(self) -> None:
        self._frames = LogFrames()
        self._shown = Shown()

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Yield the pieces to show; a sign of life is an empty piece."""
        for frame in self._frames.feed(data):
            if frame.data or frame.gone:
                yield from self._shown.show(frame)
            elif frame.attempt:
                yield Piece(b"", frame.attempt, frame.end)
