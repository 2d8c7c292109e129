"""Answers of a center as values or errors, with the errors of the connection as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cress.client import wire
from cress.client.calls import Call, T
from cress.client.errors import Broken, ClientError, Unreachable
from cress.client.leader import elsewhere

if TYPE_CHECKING:
    import httpx


@contextmanager
def told(url: str, timeout: float, advice: str) -> Iterator[None]:
    """Errors of a connection as sentences."""
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
    """Return advice for a connection that ended at once: a port for TLS closes one that speaks HTTP."""
    import httpx

    without = url.startswith("http:") and isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError))
    return "; a center that speaks TLS is at https://" if without else ""


def answer_in(answer: httpx.Response, call: Call[T], url: str) -> T:
    """Return the answer to a call that the center at ``url`` has given. Raises ``Elsewhere`` and refusals."""
    moved = elsewhere(answer.status_code, answer.headers)
    if moved is not None:
        raise moved
    if not answer.is_success:
        raise refusal_of(answer)
    return wire.answer_of(call, answer.content, url)


def refusal_of(answer: httpx.Response) -> ClientError:
    """The error that an answer stands for."""
    return wire.refusal(answer.status_code, answer.content, str(answer.url.copy_with(raw_path=b"/")))
