"""Routes of calls, each declared by its row of the table."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from cress.center.api.context import demand
from cress.model.errors import InputError, InputErrors
from cress.model.units import one_of
from cress.protocol.calls.row import CallRow
from cress.protocol.centers import STALE
from cress.protocol.queries import Query

# Faults of one address, and characters of a name, that an answer shows.
MOST_FAULTS, MOST_NAME = 20, 100

F = TypeVar("F", bound=Callable[..., Any])
Q = TypeVar("Q", bound=Query)


class CallRoute(Route):
    """The route of one row: it answers this method alone, GET without HEAD.

    ``numbers`` are the words of the path that the function takes as integers.
    """

    def __init__(self, row: CallRow[Any], answer: Callable[..., Awaitable[Response]]) -> None:
        self.row = row
        parameters = inspect.signature(answer).parameters
        self.numbers = frozenset(name for name, parameter in parameters.items() if parameter.annotation in ("int", int))
        super().__init__(
            row.path, _endpoint(row, answer, self.numbers, asks="request" in parameters), name=answer.__name__
        )
        self.methods = {row.method}


class Routes:
    """The routes of one module; each is a row: method, path, query parameters, and the action that it demands."""

    def __init__(self) -> None:
        self.routes: list[BaseRoute] = []

    def answers(self, row: CallRow[Any]) -> Callable[[F], F]:
        """Return a decorator for the function that answers a call."""

        def decorated(answer: F) -> F:
            self.routes.append(CallRoute(row, answer))
            return answer

        return decorated

    def converses(self, row: CallRow[Any]) -> Callable[[F], F]:
        """Return a decorator for the function that answers a call over a websocket."""

        def decorated(answer: F) -> F:
            async def conversed(socket: WebSocket) -> None:
                await answer(socket, **socket.path_params)

            self.routes.append(WebSocketRoute(row.path, conversed, name=answer.__name__))
            return answer

        return decorated


def _endpoint(
    row: CallRow[Any], answer: Callable[..., Awaitable[Response]], numbers: Iterable[str], *, asks: bool
) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that checks a request by its row, then answers it; ``asks``: it takes the request."""
    kind = row.query or Query
    # Which center answers is decided before (see ``leader_routing``).
    read_before = {STALE} if row.method == "GET" else set()

    async def answered(request: Request) -> Response:
        if row.needs is not None:
            demand(request, row.needs)
        given = [entry for entry in request.query_params.multi_items() if entry[0] not in read_before]
        request.state.query = parse_query(given, kind)
        words = request.path_params
        if numbers:
            words = words | {name: converted(words[name], int, name) for name in numbers}
        return await (answer(request, **words) if asks else answer(**words))

    return answered


def query_of(request: Request, kind: type[Q]) -> Q:
    """Return the query parameters of a request; the table gives this struct for its call."""
    query: object = request.state.query
    assert isinstance(query, kind)
    return query


def parse_query(given: Iterable[tuple[str, str]], kind: type[Q]) -> Q:
    """Return parameters, as names with their texts, as a struct.

    Raises InputErrors with all faults: an unknown parameter is one, since a call that ignored it would do something
    else than was asked.
    """
    values: dict[str, Any] = {}
    errors: list[InputError] = []
    texts: dict[str, str] = {}
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name, text in given:
        if len(errors) == MOST_FAULTS:
            break
        if name in texts:
            errors.append(InputError("the parameter is given twice", hint="once", field=name))
        elif name not in names:
            hint = one_of(name, names) if names else "this call has no parameters in its address"
            errors.append(InputError("the call has no such parameter", hint=hint, field=name[:MOST_NAME]))
        texts[name] = text
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in texts:
            continue
        try:
            values[field.name] = converted(texts[field.encode_name], field.type, field.encode_name)
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors)
    return kind(**values)


def converted(text: str, kind: Any, name: str) -> Any:
    """Return a parameter, or a word of a path, as a value of its type. Raises InputError."""
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        # The parameter was text, as all parameters are.
        expected = str(error).removesuffix(", got `str`")
        raise InputError(f"{text[:100]!r}: {expected[0].lower()}{expected[1:]}", field=name) from None
