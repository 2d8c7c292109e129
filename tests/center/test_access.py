"""Access to the API: tokens, hosts, content types and sizes, and the form of refusals."""

from __future__ import annotations

import http.client
import socket
from typing import Any

import httpx
import pytest

from cress.center.access.guard import MOST_BODY
from tests.center.program import PATIENCE, Center

_JOB = b'{"jobs":[{"command":["true"]}]}'
_JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "code", "says"),
    [
        pytest.param("GET", "/v1/state", {"Authorization": ""}, None, 401, "unauthorized", "no token", id="no token"),
        pytest.param(
            "GET",
            "/v1/state",
            {"Authorization": "Bearer no"},
            None,
            401,
            "unauthorized",
            "wrong token",
            id="wrong token",
        ),
        pytest.param(
            "GET",
            "/v1/state",
            {"Authorization": "Basic eDp5"},
            None,
            401,
            "unauthorized",
            "token",
            id="token of another kind",
        ),
        pytest.param(
            "GET",
            "/v1/state",
            {"Host": "evil.example"},
            None,
            403,
            "forbidden",
            "evil",
            id="a page that rebinds its name",
        ),
        pytest.param(
            "GET", "/v1/state", {"Host": "evil.example:80"}, None, 403, "forbidden", "evil", id="the same with our port"
        ),
        pytest.param(
            "GET",
            "/v1/state",
            {"Host": "127.0.0.1.evil"},
            None,
            403,
            "forbidden",
            "evil",
            id="a name that ends like ours",
        ),
        pytest.param(
            "GET", "/v1/health", {"Host": "evil.example"}, None, 403, "forbidden", "evil", id="even for health"
        ),
        pytest.param(
            "POST",
            "/v1/jobs",
            {"Content-Type": "text/plain"},
            _JOB,
            415,
            "unsupported",
            "application/json",
            id="a form",
        ),
        pytest.param(
            "POST",
            "/v1/jobs",
            {"Content-Type": ""},
            _JOB,
            415,
            "unsupported",
            "application/json",
            id="a body of no kind",
        ),
        pytest.param("POST", "/v1/jobs", _JSON, b"{jobs", 422, "bad_input", "not JSON", id="not JSON"),
        pytest.param(
            "POST", "/v1/jobs", _JSON, b'{"jobs":[{"command":["\xff"]}]}', 422, "bad_input", "not JSON", id="no UTF-8"
        ),
        pytest.param("POST", "/v1/jobs", _JSON, b"command: a", 422, "bad_input", "`cress submit`", id="YAML as JSON"),
        pytest.param(
            "POST",
            "/v1/jobs",
            {"Content-Type": "application/yaml"},
            b"command: a",
            415,
            "unsupported",
            "`cress submit`",
            id="YAML",
        ),
        pytest.param("POST", "/v1/jobs", _JSON, b"[" * 100_000, 422, "bad_input", "", id="deep JSON"),
        pytest.param("POST", "/v1/jobs", _JSON, b"[]", 422, "bad_input", "Expected `object`", id="a list"),
        pytest.param("POST", "/v1/jobs", _JSON, b'{"jobs":[7]}', 422, "bad_input", "jobs[0]", id="a job that is none"),
        pytest.param(
            "POST",
            "/v1/jobs",
            _JSON,
            b'{"jobs":[],"job":1}',
            422,
            "bad_input",
            "unknown field `job`",
            id="a key too many",
        ),
        pytest.param("POST", "/v1/jobs", _JSON, b"", 422, "bad_input", "missing required field `jobs`", id="nothing"),
        pytest.param("GET", "/v2/jobs", {}, None, 404, "not_found", "/v2/jobs", id="no such address"),
        pytest.param("DELETE", "/v1/jobs", {}, None, 405, "not_allowed", "DELETE", id="no such method"),
        pytest.param("GET", "/v1/jobs?limit=many", {}, None, 422, "bad_input", "limit", id="no number"),
        pytest.param("GET", "/v1/jobs?limit=5000", {}, None, 422, "bad_input", "limit", id="too large a page"),
        pytest.param(
            "GET", "/v1/jobs?state=runing", {}, None, 422, "bad_input", "did you mean running?", id="a state misspelt"
        ),
        pytest.param("GET", "/v1/jobs/7", {}, None, 404, "not_found", "no job 7", id="a job that is not there"),
        pytest.param("GET", "/v1/jobs/x%20y", {}, None, 404, "not_found", "no job x y", id="a job that cannot be"),
        pytest.param(
            "GET", f"/v1/jobs/{10**30}", {}, None, 404, "not_found", "no job 1000", id="a number past all numbers"
        ),
        pytest.param("GET", "/v1/nodes/n1", {}, None, 404, "not_found", "no node 'n1'", id="a node that is not there"),
    ],
)
def test_what_is_refused_is_told_in_one_form(
    shared: Center,
    method: str,
    path: str,
    headers: dict[str, str],
    body: Any,
    status: int,
    code: str,
    says: str,
) -> None:
    given = {"Authorization": f"Bearer {shared.token}", **headers}
    with httpx.Client(base_url=shared.address["url"], trust_env=False, timeout=PATIENCE) as client:
        answer = client.request(method, path, headers={k: v for k, v in given.items() if v}, content=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()
    assert error["code"] == code
    assert says in error["message"]
    assert "Traceback" not in answer.text
    assert shared.get("/v1/jobs")["jobs"] == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST:81", "localhost."])
def test_names_of_this_machine_are_let_in(shared: Center, host: str) -> None:
    assert shared.http.get("/v1/state", headers={"Host": host}).status_code == 200


def test_health_needs_no_token_and_tells_nothing(shared: Center) -> None:
    answer = httpx.get(shared.address["url"] + "/v1/health", trust_env=False, timeout=PATIENCE)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(shared: Center) -> None:
    wire = http.client.HTTPConnection("127.0.0.1", int(shared.address["url"].rpartition(":")[2]), timeout=PATIENCE)
    wire.putrequest("POST", "/v1/jobs")
    for name, value in {**_JSON, "Authorization": f"Bearer {shared.token}", "Content-Length": 10**9}.items():
        wire.putheader(name, str(value))
    wire.endheaders()
    assert wire.getresponse().status == 413
    wire.close()


def test_a_body_without_a_length_is_cut_off(shared: Center) -> None:
    part = b" " * 2**20
    answer = shared.http.post(
        "/v1/jobs", content=(part for _ in range(MOST_BODY // 2**20 + 1)), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_garbage_on_the_wire_harms_nobody(shared: Center) -> None:
    for url in shared.address["url"], shared.address["executor_url"]:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), PATIENCE) as wire:
            wire.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n")
            wire.settimeout(PATIENCE)
            while wire.recv(4096):
                pass
    assert shared.get("/v1/state")["jobs_waiting"] == 0


def test_the_description_of_the_api_needs_no_token_and_the_rest_does(shared: Center) -> None:
    with httpx.Client(base_url=shared.address["url"], trust_env=False) as browser:
        page, document = browser.get("/docs"), browser.get("/openapi.json")
        assert (page.status_code, document.status_code) == (200, 200)
        assert page.headers["content-type"].startswith("text/html")
        assert all(f"</b> {path}" in page.text for path in document.json()["paths"])
        assert "<script" not in page.text
        assert browser.get("/v1/jobs").status_code == 401
        assert browser.get("/docs", headers={"Host": "evil.example"}).status_code == 403


def test_the_document_describes_every_call(shared: Center) -> None:
    document = shared.get("/openapi.json")
    assert document["openapi"].startswith("3.1")
    calls = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert ("post", "/v1/jobs") in calls
    assert len(calls) == 99
    schemas = document["components"]["schemas"]
    references = {word.partition('"')[0] for word in str(document).replace("'", '"').split("#/components/schemas/")[1:]}
    assert references <= schemas.keys()
    submit = document["paths"]["/v1/jobs"]["post"]
    assert submit["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/SubmitBody")
    assert {"201", "401", "403", "409", "413", "415", "422", "503"} == submit["responses"].keys()
