"""Query parameters are read as the structs in the table of calls say, and described as such."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
import pytest

from cress.center.api.routes import parse_query
from cress.model.errors import InputErrors
from cress.protocol.calls import CALLS
from cress.protocol.calls.row import WEBSOCKET, CallRow
from cress.protocol.queries import AuditQuery, EventsQuery, JobsQuery, MovesQuery, Query
from tests.center.program import Center

Q = TypeVar("Q", bound=Query)


def parse(given: dict[str, str], kind: type[Q]) -> Q:
    return parse_query(given.items(), kind)


def test_text_becomes_the_type_of_its_field() -> None:
    query = parse({"limit": "7", "since": "1.5", "name": "007"}, JobsQuery)
    assert query == JobsQuery(limit=7, since=1.5, name="007")
    assert parse({"follow": "false", "after": "12"}, EventsQuery) == EventsQuery(follow=False, after=12)
    assert parse({"for": "3"}, MovesQuery) == MovesQuery(job="3")


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ([("usr", "ann")], AuditQuery, "usr: the call has no such parameter (did you mean user?)"),
        ([("colour", "")], AuditQuery, "colour: the call has no such parameter (one of limit, user, refused)"),
        ([("user", "ann")], Query, "user: the call has no such parameter (this call has no parameters in its address)"),
        ([("limit", "1"), ("limit", "2")], AuditQuery, "limit: the parameter is given twice (once)"),
    ],
)
def test_what_is_unknown_or_given_twice_is_refused(given: Any, kind: type[Query], told: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_query(given, kind)
    assert str(caught.value) == told


@pytest.mark.parametrize("row", CALLS, ids=lambda row: f"{row.method} {row.path}")
def test_each_call_refuses_a_parameter_that_it_does_not_have(shared: Center, row: CallRow[Any]) -> None:
    path = re.sub(r"{\w+}", "7", row.path)
    answer = shared.http.request(
        "GET" if row.method == WEBSOCKET else row.method, path, params={"usr_": "ann"}, json={}
    )
    if row.method != WEBSOCKET:
        if row.method != "GET":
            # A center that stands by answers reads only.
            stale = shared.http.request(row.method, path, params={"stale": "no"}, json={})
            assert (stale.status_code, stale.json()["faults"][0]["field"]) == (422, "stale"), stale.text
        assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "usr_"), answer.text


def test_the_owner_of_a_secret_is_not_replaced_by_the_caller(shared: Center) -> None:
    """Found from outside: ``?user=ann`` was ignored, so the caller's own secret was overwritten."""
    answer = shared.http.put("/v1/secrets/db", params={"user": "ann"}, json={"value": "eA=="})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"limit": "0"}, "limit: '0': expected `int` >= 1"),
        ({"limit": "1001"}, "limit: '1001': expected `int` <= 1000"),
        ({"limit": "ten"}, "limit: 'ten': expected `int`"),
        ({"limit": ""}, "limit: '': expected `int`"),
        ({"since": "nan"}, "since: 'nan': expected `float` >= 0.0"),
        ({"before": str(2**64)}, f"before: '{2**64}': expected `int` <= {2**53}"),
        ({"limit": "x", "family": "-1"}, "limit: 'x': expected `int`\nfamily: '-1': expected `int` >= 0"),
    ],
)
def test_every_mistake_is_told_with_its_parameter(given: dict[str, str], told: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse(given, JobsQuery)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "row", [row for row in CALLS if row.query is not None], ids=lambda row: f"{row.method} {row.path}"
)
def test_each_parameter_takes_the_text_of_its_default_and_refuses_nonsense(row: CallRow[Any]) -> None:
    assert row.query is not None
    fields = msgspec.structs.fields(row.query)
    texts = {field.encode_name: str(field.default) for field in fields if field.default is not None}
    assert parse(texts, row.query) == row.query()
    typed = [field.encode_name for field in fields if not isinstance(field.default, str)]
    for name in typed:
        with pytest.raises(InputErrors):
            parse({name: "nonsense"}, row.query)


def test_the_document_has_the_parameters_of_the_table(shared: Center) -> None:
    paths = shared.get("/openapi.json")["paths"]
    for row in CALLS:
        operation = paths.get(row.path, {}).get(row.method.lower(), {})
        described = {each["name"]: each["schema"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        assert list(described) == names_of(row.query), row.path
        assert all("anyOf" not in schema and "type" in schema for schema in described.values()), row.path
    limit = next(each for each in paths["/v1/jobs"]["get"]["parameters"] if each["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}


def names_of(query: type[Query] | None) -> list[str]:
    """Names of parameters as in an address."""
    fields: tuple[Any, ...] = () if query is None else msgspec.structs.fields(query)
    return [field.encode_name for field in fields]
