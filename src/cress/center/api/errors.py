"""Errors as ``ErrorView``: a code for programs, a message for people, and the single faults."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from cress.center.access.sign_in_errors import ProviderDown
from cress.center.committing.committer import NotStored
from cress.center.connections.connection_table import Away
from cress.model.errors import InputError, InputErrors, NotAccepted
from cress.protocol.views import ErrorView, Fault, to_json
from cress.store.base import StoreError

_CODES = {401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "not_allowed", 413: "too_large"}


class UnknownResource(Exception):
    """The resource in the address does not exist."""


class Forbidden(Exception):
    """The caller lacks the right to do this."""


class TooMany(Exception):
    """The caller has as many of these open as one user may have."""


class TooLarge(Exception):
    """The body exceeds the limit of the center."""


def answer(status: int, code: str, message: str, faults: tuple[Fault, ...] = ()) -> Response:
    """Return an error as a response."""
    body = to_json(ErrorView(code=code, message=message, faults=faults))
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def install(app: Starlette) -> None:
    """Install handlers that answer all errors, including the framework's, in one form."""
    app.add_exception_handler(InputError, _input)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(UnknownResource, lambda _, error: answer(404, "not_found", str(error)))
    app.add_exception_handler(Forbidden, lambda _, error: answer(403, "forbidden", str(error)))
    app.add_exception_handler(TooLarge, _too_large)
    app.add_exception_handler(TooMany, lambda _, error: answer(429, "too_many", str(error)))
    for unavailable in (NotStored, StoreError, Away, ProviderDown):
        app.add_exception_handler(unavailable, lambda _, error: answer(503, "unavailable", str(error)))
    # The client has disconnected, so nothing reads the answer.
    app.add_exception_handler(ClientDisconnect, lambda _, __: answer(400, "bad_input", "the body broke off"))
    app.add_exception_handler(Exception, _defect)


def answer_to(error: Exception) -> Response:
    """Return the response to an error that a call raised outside the handlers."""
    if isinstance(error, InputError):
        return _input(None, error)
    if isinstance(error, UnknownResource):
        return answer(404, "not_found", str(error))
    if isinstance(error, Forbidden):
        return answer(403, "forbidden", str(error))
    return answer(503, "unavailable", str(error))


def faults(error: InputError) -> tuple[Fault, ...]:
    """Return the faults of an input, one by one."""
    errors = error.errors if isinstance(error, InputErrors) else [error]
    return tuple(Fault(what=one.what, hint=one.hint, field=one.field, file=one.file, line=one.line) for one in errors)


def _input(_: Request | None, error: Exception) -> Response:
    assert isinstance(error, InputError)
    if isinstance(error, NotAccepted):
        return answer(409, "not_accepted", str(error), faults(error))
    return answer(422, "bad_input", str(error), faults(error))


def _too_large(_: Request, error: Exception) -> Response:
    response = answer(413, "too_large", str(error))
    # The rest of the body is not read, so the connection is closed.
    response.headers["Connection"] = "close"
    return response


def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "bad_input")
    message = str(error.detail)
    if error.status_code == 404:
        message = f"there is nothing at {request.url.path} (see /openapi.json)"
    if error.status_code == 405:
        message = f"{request.url.path} does not accept {request.method} (see /openapi.json)"
    response = answer(error.status_code, code, message)
    response.headers.update(error.headers or {})
    return response


def _defect(_: Request, __: Exception) -> Response:
    return answer(500, "defect", "internal error of the center; see its log")
