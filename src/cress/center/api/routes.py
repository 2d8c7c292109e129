"""Routes of calls, each declared by its row of the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Request

from cress.center.api.context import demand
from cress.model.errors import InputError, InputErrors
from cress.protocol.calls.row import CallRow
from cress.protocol.queries import Query
from cress.protocol.rights import Action

F = TypeVar("F", bound=Callable[..., Any])
Q = TypeVar("Q", bound=Query)


class Routes(APIRouter):
    """A router whose routes are rows: method, path, query parameters, and the action that they demand."""

    def answers(self, row: CallRow[Any]) -> Callable[[F], F]:
        """Return a decorator for the function that answers a call."""
        first = [] if row.needs is None else [Depends(_demanding(row.needs))]
        if row.query is not None:
            first.append(Depends(_reading(row.query)))
        return self.api_route(row.path, methods=[row.method], dependencies=first)


def query_of(request: Request, kind: type[Q]) -> Q:
    """Return the query parameters of a request; the table gives this struct for its call."""
    query: object = request.state.query
    assert isinstance(query, kind)
    return query


def parse_query(given: Mapping[str, str], kind: type[Q]) -> Q:
    """Return parameters as a struct. Raises InputErrors with all faults."""
    values: dict[str, Any] = {}
    errors: list[InputError] = []
    for field in msgspec.structs.fields(kind):
        text = given.get(field.encode_name)
        if text is None:
            continue
        try:
            values[field.name] = msgspec.convert(text, field.type, strict=False)
        except msgspec.ValidationError as error:
            # The parameter was text, as all parameters are.
            expected = str(error).removesuffix(", got `str`")
            errors.append(InputError(f"{text[:100]!r}: {expected[0].lower()}{expected[1:]}", field=field.encode_name))
    if errors:
        raise InputErrors(errors)
    return kind(**values)


def _demanding(action: Action) -> Callable[[Request], Awaitable[None]]:
    async def demanded(request: Request) -> None:
        demand(request, action)

    return demanded


def _reading(kind: type[Query]) -> Callable[[Request], Awaitable[None]]:
    async def read(request: Request) -> None:
        request.state.query = parse_query(request.query_params, kind)

    return read
