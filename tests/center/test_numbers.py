"""Extreme numbers from executors and callers: refused or taken, never a defect and never a failed commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cress.center.connections.connection_table import Connections
from cress.lifecycle.inputs import NodeJoined
from cress.model.errors import InputError
from cress.model.job import JobType
from cress.model.jobfile.keys import TABLE
from cress.model.node import Load, Node
from cress.model.reports import Cause, Checked, Ended, Started, Usage
from cress.protocol import messages as m
from cress.shell.center.effects import Session
from cress.shell.center.session import decoded
from tests.center.inside import Inside, inside
from tests.protocol.test_bounds import EXTREMES, variants

LARGE = "9" * 400
HELLO = m.Hello(
    version=6, name="n1", resource="<64, 64G>", boot="b", protocol=m.PROTOCOL, attributes={"cpus": 4, "share": 0.5}
)


def test_a_cluster_may_have_more_memory_than_a_node_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nodes that joined without a connection count as connected.
    monkeypatch.setattr(Connections, "__contains__", lambda *_: True)

    async def story(center: Inside) -> None:
        for name in ("n1", "n2", "n3"):
            node = Node(name=name, capacity=(64_000, 2**49, 0, 0, 0, 0, 0))
            await center.committer.submit(NodeJoined(node=node, boot="b"))
        await center.call("PUT", "/v1/config", {"options": {"accounting": "dominant"}})
        await center.call("PUT", "/v1/groups", {"text": "Name: lab\nResourceQuota: <64, 512T>\nUsers: *\n"})
        await center.submit(tasks=3, resource="<1, 500T>", group="lab")
        assert (await center.get("/v1/state"))["capacity"]["memory"] == "1536T"
        assert (await center.get("/v1/state"))["used"] == {"cpu": "3", "memory": "1500T"}
        (lab,) = [group for group in (await center.get("/v1/groups"))["groups"] if group["name"] == "lab"]
        assert lab["used"] == "<3,1500T>"

    inside(tmp_path, story)


def test_whatever_number_an_executor_sends_the_center_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(center: Inside) -> None:
        committer, sessions = center.committer, center.committer.sessions
        first = Session()
        committer.carry_out(sessions.hello(first, HELLO, committer.clock.now()))
        job = await center.submit(tasks=400, resource="<0.1, 1M>", retries=0)
        attempts = iter(sorted(center.committer.machine.jobs[job].attempts))

        async def tell(session: Session, data: bytes) -> None:
            try:
                message = decoded(data, session)
            except InputError:
                return
            assert message is not None
            if isinstance(message, m.Hello):
                committer.carry_out(sessions.hello(session, message, committer.clock.now()))
                committer.carry_out(sessions.gone(session))
            else:
                committer.carry_out(sessions.received(session, message, committer.clock.now()))
            await center.submit(command=["true"], hold=True)
            assert committer.problem == ""

        reports = (
            lambda number: Started(attempt=number, at=5, pid=4),
            lambda number: Ended(
                attempt=number, cause=Cause.EXITED, code=1, started=5, at=9, usage=Usage(1, 2), port=3
            ),
            lambda number: Checked(attempt=number, at=5, ready=True),
        )
        for make in reports:
            count = sum(1 for _ in variants(msgspec.to_builtins(m.Reports(reports=(make(1),)))))
            for index in range(0, count, 3):
                plain = msgspec.to_builtins(m.Reports(reports=(make(next(attempts)),)))
                await tell(first, msgspec.msgpack.encode(list(variants(plain))[index]))
        for message in (HELLO, m.Ports(ports=(22,)), m.Load(load=Load(1, 2, 3, 4, 5)), m.Beat(sent=5)):
            for variant in variants(msgspec.to_builtins(message)):
                session = first
                if isinstance(message, m.Hello):
                    session, variant["name"] = Session(), "n2"
                await tell(session, msgspec.msgpack.encode(variant))
        assert committer.epoch == 1, "the state was never loaded again"

    inside(tmp_path, story)
    assert "failed" not in caplog.text


def numbers_of(schema: dict[str, Any], components: dict[str, Any], depth: int = 0) -> Any:
    """A body that fits a schema roughly, and is made of numbers where they may be."""
    if "$ref" in schema:
        return numbers_of(components[schema["$ref"].rpartition("/")[2]], components, depth + 1)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            kinds = sorted(schema[several], key=lambda each: each.get("type") not in ("integer", "number"))
            return numbers_of(kinds[0], components, depth + 1)
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return 1
    if kind == "object" and depth < 6:
        return {name: numbers_of(each, components, depth + 1) for name, each in schema.get("properties", {}).items()}
    if kind == "array" and depth < 6:
        return [numbers_of(schema.get("items", {}), components, depth + 1)]
    return {"string": "x", "boolean": False, "null": None}.get(str(kind))


def test_whatever_number_a_caller_sends_there_is_no_defect(tmp_path: Path) -> None:
    """Every parameter and every number in a body of every call, by the center's own description of its calls."""

    async def story(center: Inside) -> None:
        document = await center.get("/openapi.json")
        components = document.get("components", {}).get("schemas", {})
        job = await center.submit()
        await center.call("POST", f"/v1/jobs/{job}/cancel", {})  # so that nothing waits for it
        tried = bodies = 0

        async def call(method: str, path: str, **more: Any) -> None:
            nonlocal tried
            tried += 1
            answer = await center.http.request(method, path, **more)
            assert answer.status_code < 500 or answer.status_code == 503, (method, path, more, answer.text)
            assert center.committer.problem == "", (method, path, more)

        texts = [str(2**31), str(2**63 - 1), str(2**63), str(2**64), "-1", "1e308", "NaN", "Infinity", LARGE]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                real = path.replace("{id}", str(job)).replace("{task}", "0").replace("{name}", "n1")
                query = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
                quiet = {"follow": "false"} if "follow" in query else {}
                body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
                plain = numbers_of(body, components) if body else None
                given = {"json": plain} if plain is not None else {}
                for text in texts:
                    for name in set(query) - {"follow"}:
                        await call(method, real, params={**quiet, name: text}, **given)
                    for part in ("{id}", "{task}"):
                        if part in path:
                            odd = path.replace(part, text).replace("{id}", str(job)).replace("{task}", "0")
                            await call(method, odd.replace("{name}", "n1"), params=quiet, **given)
                for value in (*EXTREMES, 2**63 - 1, 2**64, 10**400):
                    for variant in with_each_number(plain, value):
                        data, bodies = encoded(variant), bodies + 1
                        await call(method, real, content=data, headers={"Content-Type": "application/json"})
        assert tried > 400
        assert bodies > 20

    inside(tmp_path, story)


def with_each_number(value: Any, extreme: float) -> list[Any]:
    """The plain values with one of their numbers replaced."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [extreme]
    if isinstance(value, dict):
        return [{**value, key: each} for key in value for each in with_each_number(value[key], extreme)]
    if isinstance(value, list):
        return [
            [*value[:index], each, *value[index + 1 :]]
            for index, inner in enumerate(value)
            for each in with_each_number(inner, extreme)
        ]
    return []


def encoded(value: Any) -> bytes:
    """JSON, also of what JSON has no word for."""
    return json.dumps(value, allow_nan=True).replace("Infinity", "1e999").encode()


# Keys whose values may be numbers, each in a job of a type that may have it.
NUMBERS = [key for key in TABLE if any(word in str(key.schema) for word in ("'integer'", "'number'", "[0-9]"))]


def test_whatever_number_stands_in_a_job_there_is_no_defect(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        for key in NUMBERS:
            kind = next(each for each in JobType if each in key.types).value
            nested = "'object'" in str(key.schema)
            for number in (*EXTREMES, 2**63 - 1, 2**64, 10**400):
                for value in (number, str(number), *([{"web": number}] if nested else [])):
                    body = encoded({"jobs": [{"command": ["true"], "hold": True, "type": kind, key.name: value}]})
                    answer = await center.http.post(
                        "/v1/jobs", content=body, headers={"Content-Type": "application/json"}
                    )
                    assert answer.status_code < 500, (key.name, value, answer.text)
                    assert f"unknown key '{key.name}'" not in answer.text
                    assert "belongs to jobs of type" not in answer.text
                    assert center.committer.problem == ""

    inside(tmp_path, story)
