"""Calls of the client are rows of the table: each row has one function, whose body is of the type of the row."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cress.client import calls
from cress.client.calls import PreparedCall
from cress.client.wire import content_of, query_of
from cress.protocol.calls import CALLS, job_calls
from cress.protocol.calls.row import WEBSOCKET, CallRow
from cress.protocol.lease_views import FreeView, MoveView, PlanView
from cress.protocol.queries import FileQuery, FilesQuery, JobsQuery, Query, TasksQuery, UsageQuery

MOVE = MoveView(attempt=7, job=1, task=0, name="etl", group="a", node="n1", to="n2", goal="place")
FREE = FreeView(nodes=0, devices=0, all_nodes=2, all_devices=0)
PLAN = PlanView(moves=(MOVE,), before=FREE, after=FREE, movable=1, job=12, place={"n1": 2})
# By the names of parameters; ``body`` and ``job`` by the function.
SAMPLES: dict[str, Any] = {
    "id": 12,
    "task": 3,
    "ids": [12, 13],
    "tasks": 5,
    "version": 3,
    "jobs": [{"command": "true"}],
    "name": "a/b",
    "number": 3,
    "signal": "INT",
    "stream": "stdout",
    "offset": 0,
    "follow": False,
    "attempt": None,
    "after": None,
    "job": None,
    "group": "web",
    "text": "Group a",
    "values": {"MaxJobs": "3", "Submit": None},
    "deadline": 2.5,
    "amounts": "<1, 4G>",
    "count": 2,
    "fields": {"start": "18:00", "length": "4h"},
    "role": "user",
    "uses": 2,
    "expires": 3600.0,
    "nodes": "n*",
    "id_token": "x.y.z",
    "node": "n1",
    "request": "PEM",
    "limit": 10,
    "value": b"secret",
    "digest": "0" * 64,
    "size": 5,
    "change": {"jobs": [{"command": "true"}], "remove_nodes": ["n1"], "options": {"preemption": "off"}},
}
BODIES: dict[str, Any] = {
    "request_leases": {"workload": "dask", "count": 2},
    "submit_in_lease": {"command": "true"},
    "change_config": {"options": {"grace": "30s"}, "revision": 7},
    "set_node": {"labels": {"zone": None}, "rack": "r7"},
}
QUERIES: dict[str, Query] = {
    "jobs": JobsQuery(),
    "tasks": TasksQuery(after=3),
    "usage": UsageQuery(by="day"),
    "files": FilesQuery(path="out"),
    "file": FileQuery(path="out/a.csv"),
}
# What no function is for: the schema is for editors, a WebSocket is no request, centers ask each other, and nodes fetch
# uploads.
WITHOUT = {"/v1/uploads/{digest}/content", "/v1/schema", "/v1/jobs/{id}/tasks/{task}/exec", "/v1/centers/history"}


def made(function: Callable[..., PreparedCall[Any]]) -> PreparedCall[Any]:
    """The call of a function, with samples for all that it must be given."""
    name = function.__name__
    args: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.default is parameter.empty:
            args[parameter.name] = SAMPLES.get(parameter.name)
            if parameter.name == "query":
                args["query"] = QUERIES[name]
            elif name in BODIES and parameter.name in ("body", "job"):
                args[parameter.name] = BODIES[name]
            elif name == "begin_moves":
                args[parameter.name] = PLAN
    return function(**args)


FUNCTIONS = [
    function
    for name, function in inspect.getmembers(calls, inspect.isfunction)
    if function.__module__ == calls.__name__ and name != "call_of" and not name.startswith("_")
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_body_is_of_the_type_in_the_table(function: Callable[..., PreparedCall[Any]]) -> None:
    call = made(function)
    content, headers = content_of(call)
    assert ("Idempotency-Key" in headers) == call.row.keyed
    assert "{" not in call.path
    if call.row.body is not None:
        assert content is not None
        msgspec.json.decode(content, type=call.row.body)
    else:
        assert content in (None, b"{}")


def test_each_row_has_one_function() -> None:
    rows: Counter[CallRow[Any]] = Counter(made(function).row for function in FUNCTIONS)
    assert [row.path for row in CALLS if rows[row] != (row.path not in WITHOUT)] == []
    assert {row.path for row in CALLS if row.method == WEBSOCKET} <= WITHOUT


def test_parameters_go_over_the_wire_unless_they_have_their_defaults() -> None:
    assert calls.jobs(JobsQuery(limit=50, group="web")).query == {"group": "web"}
    assert calls.logs(3, 0, "stdout", 7, follow=False, attempt=None).query == {"offset": 7, "framed": True}
    assert query_of(calls.events(None, None, "", follow=False).query) == {"follow": "false"}
    with pytest.raises(AssertionError):
        calls.call_of(job_calls.JOBS, query=TasksQuery())


def test_a_plan_is_asked_for_with_what_is_given_and_nothing_else() -> None:
    assert calls.plan_moves().query == {}
    assert calls.plan_moves(goals=("spread", "nodes"), moves=0).query == {"goal": "spread,nodes", "moves": 0}
    assert calls.plan_moves(12, lost=2.5).query == {"for": "12", "lost": 2.5}
