"""``/openapi.json`` is true: every call is in it, and what the center answers is what it says there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.center.program import PATIENCE, Center


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    """A center with a node, a job that waits, one that runs, one that failed, and one of long ago."""
    with (
        Center(tmp_path_factory.mktemp("schema") / "data", forked=True) as center,
        center.executor(resource="<2, 8G>") as executor,
    ):
        center.submit(name="failed", command=["false"])
        executor.ended(executor.launches()[0].attempt, code=1)
        center.submit(name="runs", tasks=9)
        executor.started(*(launch.attempt for launch in executor.launches()))
        center.submit(name="held", hold=True, after={"1": "any"}, retries=3)
        center.post("/v1/nodes/n1/cordon", {"reason": "new disk"})
        yield center


def _check(document: dict[str, Any], method: str, path: str, status: int, body: Any) -> None:
    response = document["paths"][path][method]["responses"][str(status)]
    schema = response["content"]["application/json"]["schema"] | {"components": document["components"]}
    jsonschema_rs.Draft202012Validator(schema).validate(body)


@pytest.mark.parametrize(
    ("path", "filled"),
    [
        ("/v1/jobs", "/v1/jobs"),
        ("/v1/jobs/{id}", "/v1/jobs/3"),
        ("/v1/jobs/{id}/tasks", "/v1/jobs/2/tasks"),
        ("/v1/jobs/{id}/tasks/{task}", "/v1/jobs/1/tasks/0"),
        ("/v1/groups", "/v1/groups"),
        ("/v1/nodes", "/v1/nodes"),
        ("/v1/nodes/{name}", "/v1/nodes/n1"),
        ("/v1/names/{name}", "/v1/names/runs"),
        ("/v1/usage", "/v1/usage"),
        ("/v1/state", "/v1/state"),
        ("/v1/health", "/v1/health"),
    ],
)
def test_answers_are_as_the_document_says(busy: Center, path: str, filled: str) -> None:
    _check(busy.get("/openapi.json"), "get", path, 200, busy.get(filled))


def test_refusals_are_as_the_document_says(busy: Center) -> None:
    document = busy.get("/openapi.json")
    for path, filled, status in (
        ("/v1/jobs/{id}", "/v1/jobs/99", 404),
        ("/v1/jobs", "/v1/jobs?limit=0", 422),
        ("/v1/usage", "/v1/usage?by=year", 422),
        ("/v1/nodes/{name}", "/v1/nodes/n9", 404),
    ):
        answer = busy.http.get(filled)
        assert answer.status_code == status
        _check(document, "get", path, status, answer.json())


def test_every_call_about_jobs_says_what_it_answers_if_there_are_none(busy: Center) -> None:
    document = busy.get("/openapi.json")
    bodies = document["components"]["schemas"]
    asked = 0
    for path, methods in document["paths"].items():
        sent = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        body = bodies.get(sent.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
        if body.get("properties", {}).get("jobs", {}).get("items", {}).get("type") == "integer":
            others: dict[str, object] = {name: {} for name in body["required"] if name != "jobs"}
            answer = busy.http.post(path, json={"jobs": [99], **others})
            _check(document, "post", path, answer.status_code, answer.json())
            asked += 1
    assert asked >= 5


def test_the_document_is_whole(busy: Center) -> None:
    document = busy.get("/openapi.json")
    names = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            names.append(operation["operationId"])
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            placed = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
            assert placed == {word[1:-1] for word in path.split("/") if word.startswith("{")}
            if path != "/v1/health":
                assert "403" in operation["responses"]
                # Calls without a token are few, and say so.
                assert ("401" in operation["responses"]) == ("security" not in operation)
    assert len(set(names)) == len(names)
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        assert schema.get("description"), name


def _no_defect(_: object, response: Any, __: object) -> None:
    """That a node is away, or a disk full, is no defect: 503 says so, and the document has it."""
    assert response.status_code < 500 or response.status_code == 503


@pytest.mark.long
@pytest.mark.parametrize(("role", "examples"), [("", 100), ("operator", 20), ("user", 20), ("viewer", 20)])
def test_no_request_that_the_document_allows_finds_a_defect(tmp_path: Path, role: str, examples: int) -> None:
    """``role``: that of the caller; empty: the owner."""
    import schemathesis  # seconds, which the quick tests need not pay
    from schemathesis import checks

    wanted = [
        _no_defect,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    with Center(tmp_path / "data", forked=True) as center:
        with center.executor(resource="<2, 8G>") as executor:
            for _ in range(3):
                center.submit(tasks=2)
            executor.ended(executor.launches()[0].attempt, code=1)
        token = center.token
        if role:
            assert center.http.put("/v1/users/ann", json={"role": role}).status_code == 200
            token = center.post("/v1/tokens", {"name": "t", "user": "ann", "role": role}, 201)["secret"]
        headers = {"Authorization": f"Bearer {token}"}
        schema = schemathesis.openapi.from_url(f"{center.address['url']}/openapi.json", headers=headers)
        for each in schema.get_all_operations():
            operation: Any = each.ok()  # type: ignore[union-attr]

            @given(case=operation.as_strategy(), real=st.sampled_from(({}, {"id": "1"}, {"id": "2"}, {"name": "n1"})))
            @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
            def tried(case: Any, real: dict[str, str]) -> None:
                # Seldom does chance find a job. What was drawn is never changed in place: strategies draw the same
                # objects again.
                case.path_parameters = {
                    name: real.get(name, value) for name, value in (case.path_parameters or {}).items()
                }
                # What waits on purpose waits for long.
                quick = {"follow": "false", "wait": "0.01"}
                case.query = {name: quick.get(name, value) for name, value in (case.query or {}).items()}
                if case.path in ("/v1/events", "/v1/names/{name}/watch"):
                    case.query = {**(case.query or {}), "follow": "false"}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    case.call_and_validate(checks=wanted, headers=headers, timeout=PATIENCE)

            tried()
        assert center.process.poll() is None
        assert center.get("/v1/state")["problem"] == ""
