"""Routes of calls, each declared by its row of the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Request

from cress.center.api.context import demand
from cress.model.errors import InputError, InputErrors
from cress.model.units import one_of
from cress.protocol.calls.row import CallRow
from cress.protocol.centers import STALE
from cress.protocol.queries import Query
from cress.protocol.rights import Action

# Faults of one address, and characters of a name, that an answer shows.
MOST_FAULTS, MOST_NAME = 20, 100

F = TypeVar("F", bound=Callable[..., Any])
Q = TypeVar("Q", bound=Query)


class Routes(APIRouter):
    """A router whose routes are rows: method, path, query parameters, and the action that they demand."""

    def answers(self, row: CallRow[Any]) -> Callable[[F], F]:
        """Return a decorator for the function that answers a call."""
        first = [] if row.needs is None else [Depends(_demanding(row.needs))]
        first.append(Depends(_reading(row.query or Query, row.method)))
        return self.api_route(row.path, methods=[row.method], dependencies=first)


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
        text = texts[field.encode_name]
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


def _reading(kind: type[Query], method: str) -> Callable[[Request], Awaitable[None]]:
    # Which center answers is decided before (see ``leader_routing``).
    read_before = {STALE} if method == "GET" else set()

    async def read(request: Request) -> None:
        given = [entry for entry in request.query_params.multi_items() if entry[0] not in read_before]
        request.state.query = parse_query(given, kind)

    return read
