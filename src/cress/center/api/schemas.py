"""``/openapi.json``: names and numbers of paths from the routes, all else from the table of calls and its structs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

import msgspec

import cress
from cress.center.api.routes import CallRoute
from cress.protocol.bodies import LoginBody, TokenBody
from cress.protocol.calls import CALLS
from cress.protocol.calls.row import CallRow
from cress.protocol.queries import Query
from cress.protocol.views import ErrorView

_JSON = "application/json"
_REF = "#/components/schemas/{name}"


def _header(name: str, description: str, most: int) -> dict[str, Any]:
    schema = {"type": "string", "maxLength": most}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


_KEY = _header("Idempotency-Key", "the same submit with the same key gets the same answer", 200)
_LAST = "Last-Event-ID"
_STREAMS = {
    "/v1/events": _header(_LAST, "go on behind this event; counts for more than after", 18),
    "/v1/names/{name}/watch": _header(_LAST, "go on behind this revision; counts for more than after", 60),
}
_NO_WORD = re.compile(r"\W")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# Errors of a call, besides those that every call has.
_EVERY = {"401": "no token, or a wrong one", "403": "the Host is not the center's, or the caller may not do this"}
_BODY = {"413": "the body is too large", "415": "the body is not JSON", "503": "it cannot be stored now"}


def openapi(routes: Iterable[CallRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    kinds = {kind for row in CALLS for kind in (row.body, row.answer) if _is_struct(kind)} | {ErrorView}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    refs, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    by_kind = dict(zip(ordered, refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route)
        _describe(route.row, operation, by_kind)
        paths.setdefault(route.row.path, {})[route.row.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Cress", "summary": "Cluster resource manager", "version": cress.__version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(route: CallRoute) -> dict[str, Any]:
    """Return the name of a call, and the parameters in its path."""
    method = route.row.method.lower()
    operation: dict[str, Any] = {
        "summary": _title(route.name),
        "operationId": _NO_WORD.sub("_", f"{route.name}{route.row.path}_{method}"),
    }
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer" if name in route.numbers else "string", "title": _title(name)},
        }
        for name in route.param_convertors
    ]
    return operation | ({"parameters": parameters} if parameters else {})


def _title(name: str) -> str:
    return name.replace("_", " ").title()


def _is_struct(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _parameters(query: type[Query] | None) -> Iterator[dict[str, Any]]:
    """Yield the query parameters of a struct."""
    for field in () if query is None else msgspec.structs.fields(query):
        schema = msgspec.json.schema(field.type)
        # A query string has no null, so such a parameter is left out.
        choices = [choice for choice in schema.pop("anyOf", ()) if choice != {"type": "null"}]
        schema = choices[0] if choices else schema
        if field.default is not None:
            schema["default"] = field.default
        yield {"name": field.encode_name, "in": "query", "required": False, "schema": schema}


def _names_jobs(body: type | None) -> bool:
    """Return whether a body has the ids of jobs, which may not exist."""
    return body is not None and any(
        field.name == "jobs" and field.type == list[int] for field in msgspec.structs.fields(body)
    )


def _describe(row: CallRow[Any], operation: dict[str, Any], by_kind: dict[type, dict[str, Any]]) -> None:
    method, path = row.method.lower(), row.path
    # Links of docs/api.md have no targets here.
    operation["description"] = _LINK.sub(r"\1", row.about[0].upper() + row.about[1:]) + "."
    if row.body is not None:
        required = any(field.required for field in msgspec.structs.fields(row.body))
        operation["requestBody"] = {"required": required, "content": {_JSON: {"schema": by_kind[row.body]}}}
    headers = [_KEY] if row.keyed else [_STREAMS[path]] if row.streams else []
    operation.setdefault("parameters", []).extend([*_parameters(row.query), *headers])
    content: dict[str, Any] = {_JSON: {"schema": by_kind.get(row.answer, {"type": "object"})}}
    if path.endswith("/logs"):
        content = {"text/plain": {"schema": {"type": "string", "format": "binary"}}}
    if path == "/v1/schema":
        content = {"application/schema+json": {"schema": {"type": "object"}}}
    if row.streams:
        # In OpenAPI 3.2 the schema of such a stream describes each event.
        data = {"type": "string", "contentMediaType": _JSON, "contentSchema": content[_JSON]["schema"]}
        event = {"id": {"type": "string"}, "event": {"type": "string"}, "data": data}
        content = {"text/event-stream": {"itemSchema": {"type": "object", "properties": event}}}
    responses: dict[str, Any] = {"201" if row.makes else "200": {"description": "done", "content": content}}
    if path == "/v1/health":
        operation["security"] = []
        operation["responses"] = responses
        return
    if method == "get" and row.open:
        operation["security"] = []
    for status, text in sorted(_errors_of(row, operation).items()):
        responses[status] = {"description": text, "content": {_JSON: {"schema": by_kind[ErrorView]}}}
    operation["responses"] = responses


def _errors_of(row: CallRow[Any], operation: dict[str, Any]) -> dict[str, str]:
    """Return the errors of a call by status."""
    method, path = row.method.lower(), row.path
    errors = dict(_EVERY)
    if method == "get" and row.open:
        del errors["401"]
        errors["404"] = "this center has none"
    names = "{" in path or row.body in (TokenBody, LoginBody) or _names_jobs(row.body) or path == "/v1/rebalance"
    if names and not path.startswith("/v1/names/"):
        errors["404"] = "there is nothing of that name"
    if operation.get("parameters") or row.body is not None:
        errors["422"] = "the input is wrong; nothing was changed"
    if method != "get":
        errors |= _BODY | {"409": "well-formed, and not accepted; nothing was changed"}
    if (method, path) == ("get", "/v1/rebalance"):
        errors["409"] = "the job does not wait for room, or could never run"
    if method == "get" and path.startswith("/v1/jobs/{id}/"):
        errors["409"] = "the job is of a kind that has none, or has none yet"
    if path in _STREAMS:
        errors |= {"429": "too many programs of the user follow already", "503": "too many programs follow already"}
    if path.endswith(("/logs", "/files", "/files/content")):
        errors |= {"409": "there is nothing to read", "503": "the node is away"}
    return errors
