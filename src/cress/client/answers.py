"""Answers of a center as values or errors, and errors of the connection as messages."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cress.client import wire
from cress.client.calls import PreparedCall, T
from cress.client.errors import Broken, ClientError, Unreachable
from cress.client.leader import elsewhere

if TYPE_CHECKING:
    import httpx

# Seconds for the connection, and for the answer, of a single call.
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 30.0


@contextmanager
def told(url: str, timeout: float, advice: str) -> Iterator[None]:
    """Convert errors of a connection inside to client errors."""
    import httpx

    from cress.client.tls import tls_error

    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        refused = tls_error(error, url)
        if refused is not None:
            raise refused from None
        raise Unreachable(f"no center answers at {url} ({wire.cause_of(error)}){advice}") from None
    except httpx.TimeoutException:
        raise Unreachable(f"the center at {url} gave no answer within {timeout:g} s") from None
    except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
        raise Broken(
            f"the connection to the center at {url} broke off ({wire.cause_of(error)}){_perhaps_tls(url, error)}"
        ) from None


def _perhaps_tls(url: str, error: Exception) -> str:
    """Return advice for a connection that ended at once, since a TLS port closes one that speaks HTTP."""
    import httpx

    without = url.startswith("http:") and isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError))
    return "; a center that speaks TLS is at https://" if without else ""


def answer_in(answer: httpx.Response, call: PreparedCall[T], url: str) -> T:
    """Return the value in an answer of the center at ``url``. Raises ``Elsewhere`` and refusals."""
    moved = elsewhere(answer.status_code, answer.headers)
    if moved is not None:
        raise moved
    if not answer.is_success:
        raise refusal_of(answer)
    return wire.answer_of(call, answer.content, url)


def refusal_of(answer: httpx.Response) -> ClientError:
    """Return the error for an answer."""
    return wire.refusal(answer.status_code, answer.content, str(answer.url.copy_with(raw_path=b"/")))


def ask_once(url: str, call: PreparedCall[T], context: ssl.SSLContext | None = None, token: str = "") -> T:
    """Return the answer to one call to the center at ``url``, for use before there is a token.

    Raises ClientError.
    """
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
