"""Limits of requests: bodies by call, and large bodies that are checked in a thread give the answers of small ones."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import threading
from typing import Any

import httpx
import msgspec
import pytest

from cress.center.api.bodies import RawSubmitBody, decoded, decoded_jobs
from cress.center.api.jobs import digest_of
from cress.center.process.turns import INLINE, LongRequests, chunks, in_turns
from cress.model.errors import InputError
from cress.model.groups.conf import MAX_GROUPS
from cress.model.jobfile.licences import MAX_KINDS
from cress.model.options import Options
from cress.protocol.bodies import MOST_GROUPS, MOST_LICENCES, MOST_OPTIONS, SubmitBody
from tests.center.program import Center

JOB: dict[str, Any] = {"command": ["true"], "hold": True}


@pytest.fixture(scope="module")
def http(shared: Center) -> Any:
    with shared.client() as client:
        yield client


@pytest.mark.parametrize(
    ("path", "size", "limit"),
    [
        ("/v1/jobs/1/signal", 70_000, "64 KB"),
        ("/v1/jobs/1/scale", 70_000, "64 KB"),
        ("/v1/nodes/n1/drain", 70_000, "64 KB"),
        ("/v1/jobs/cancel", 2_200_000, "2 MB"),
    ],
)
def test_each_call_has_a_limit_of_its_body(http: httpx.Client, path: str, size: int, limit: str) -> None:
    answer = http.post(path, content=b" " * size, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["message"] == f"the body has more than {limit}"


def test_a_file_of_groups_may_be_larger_and_is_refused_by_its_text(http: httpx.Client) -> None:
    answer = http.put("/v1/groups?dry_run=true", json={"text": "Name: a\nResourceQuota: " + "1" * 250_000})
    assert answer.status_code == 422
    assert "a text of 250,000 characters is too long" in answer.json()["message"]


def test_a_body_of_very_many_values_is_refused_before_it_is_decoded(http: httpx.Client) -> None:
    body = b'{"jobs":[{"command":[' + b",".join([b"{}"] * 1_000_000) + b"]}]}"
    answer = http.post("/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["message"] == "the body has too many values (at most 2,000,000)"


@pytest.mark.parametrize("job", [{"environment": {f"V{k}": "" for k in range(61_000)}}, {"command": ["x"] * 151_000}])
def test_a_job_of_very_many_values_is_refused_before_it_is_decoded(http: httpx.Client, job: dict[str, Any]) -> None:
    answer = http.post("/v1/jobs", json={"jobs": [JOB, JOB | job]})
    assert answer.status_code == 422
    assert answer.json()["message"] == "jobs[1]: the job has too many values (at most 150,000, and 60,000 keys)"


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        (
            "/v1/config",
            {"licences": {f"l{k}": k for k in range(60_000)}},
            ("licences", "Expected `object` of length <= 10000"),
        ),
        (
            "/v1/config",
            {"options": {f"o{k}": "1" for k in range(30_000)}},
            ("options", "Expected `object` of length <= 500"),
        ),
        (
            "/v1/config",
            {"moves": {f"g{k}": "a" for k in range(200_000)}},
            ("moves", "Expected `object` of length <= 2000"),
        ),
        (
            "/v1/groups",
            {"text": "", "moves": {f"g{k}": "a" for k in range(200_000)}},
            ("moves", "Expected `object` of length <= 2000"),
        ),
        (
            "/v1/config",
            {"text": "licences:\n" + "".join(f"  l{k}: 1\n" for k in range(60_000))},
            ("licences", "has 60000 licences"),
        ),
    ],
    ids=["licences", "options", "moves", "moves of groups", "licences of a document"],
)
def test_a_mapping_of_very_many_entries_is_refused_before_they_are_checked(
    http: httpx.Client, path: str, body: dict[str, Any], told: tuple[str, str]
) -> None:
    """Found from outside: 100,000 unknown options held the event loop for seconds, a guess for each name."""
    answer = http.put(path, params={"dry_run": True}, json=body)
    assert answer.status_code == 422
    fault = answer.json()["faults"][0]
    assert (fault["field"], fault["what"]) == told


def test_the_bounds_of_bodies_are_those_of_the_cluster() -> None:
    assert (MOST_GROUPS, MOST_LICENCES) == (MAX_GROUPS, MAX_KINDS)
    assert len(dataclasses.fields(Options)) < MOST_OPTIONS


def test_a_large_submit_is_accepted_as_a_small_one_is(http: httpx.Client) -> None:
    entries = [{**JOB, "name": f"j{k}"} for k in range(300)]
    assert len(str(entries)) > INLINE
    answer = http.post("/v1/jobs", json={"jobs": entries}, headers={"Idempotency-Key": "large"})
    again = http.post("/v1/jobs", json={"jobs": entries}, headers={"Idempotency-Key": "large"})
    assert answer.status_code == again.status_code == 201
    assert [each["name"] for each in answer.json()["jobs"]] == [f"j{k}" for k in range(300)]
    assert answer.json() == again.json()


def test_mistakes_in_a_large_submit_are_placed(http: httpx.Client) -> None:
    entries = [JOB] * 300
    answer = http.post("/v1/jobs", json={"jobs": [*entries, {"command": ["true"], "tasks": "many"}]})
    assert answer.json()["faults"][0]["field"] == "jobs[300].tasks"
    answer = http.post("/v1/jobs", json={"jobs": [*entries, 7]})
    assert answer.json()["message"] == "jobs[300]: Expected `object`, got `int`"


def test_a_page_of_nodes_is_bounded(http: httpx.Client) -> None:
    assert http.get("/v1/nodes?limit=10000").status_code == 200
    assert http.get("/v1/nodes?limit=10001").status_code == 422


def test_jobs_are_decoded_one_by_one_with_the_digest_of_the_whole() -> None:
    body = decoded(b'{"jobs": [{"b": 1, "a": [2, {}]}, {}]}', RawSubmitBody)
    entries = decoded_jobs(body.jobs)
    assert entries == [{"b": 1, "a": [2, {}]}, {}]
    # As earlier releases worked it out, whose answers are kept for a day.
    whole = msgspec.json.encode(SubmitBody(jobs=entries), order="deterministic")
    assert digest_of("key", entries) == hashlib.sha256(whole).hexdigest()
    with pytest.raises(InputError, match="jobs\\[0\\]: Expected `object`, got `array`"):
        decoded_jobs(decoded(b'{"jobs": [[]]}', RawSubmitBody).jobs)


def test_large_bodies_are_checked_in_a_thread() -> None:
    async def story() -> tuple[str, str]:
        turns = LongRequests()
        try:
            work = lambda: threading.current_thread().name  # noqa: E731
            return await turns.check(INLINE, work), await turns.check(INLINE + 1, work)
        finally:
            turns.close()

    small, large = asyncio.run(story())
    assert small == threading.current_thread().name
    assert large.startswith("check")


def test_long_lists_let_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.center.process.turns.SLICE", -1.0)
    done: list[str] = []

    async def long(name: str) -> None:
        async for item in in_turns(range(3)):
            done.append(f"{name}{item}")  # noqa: PERF401 – what others do in between counts

    async def story() -> None:
        await asyncio.gather(long("a"), long("b"))

    asyncio.run(story())
    assert done == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert [list(part) for part in chunks([1, 2, 3], 2)] == [[1, 2], [3]]
