"""Sentences do not name jobs that their reader does not see: the sentences, and all answers of a center to another
user.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.center.access.redaction import read_by, redacted
from tests.center.program import Center, eventually
from tests.center.test_users import submit, user_of

CASES = {
    "job 7 fits, but would delay job 5 of group web": "job 7 fits, but would delay another job",
    "job 7 fits, but would delay job 7 of group web": "job 7 fits, but would delay job 7 of group web",
    "preempted for job 5 (secret-name) of group web": "preempted for another job",
    "job 5 of group web is blocked, and group lab is not below its quota": "another job is blocked, and group lab is not below its quota",  # noqa: E501
    "restarts on another node together with job 5 (a.b), on which it depends": "restarts on another node together with another job, on which it depends",  # noqa: E501
    "on n1, beside jobs 5 and 7, which depend on job 7: x": "on n1, beside other jobs, which depend on job 7: x",
    "3 programs could not be started here and ran on other nodes, the last of job 5": "3 programs could not be started here and ran on other nodes, the last of another job",  # noqa: E501
    "there is no job web, did you mean webserver?": "there is no job web",
    "waiting for job 5 (own), and 2 more": "waiting for job 5 (own), and 2 more",
    "dependency failed: job 5 was cancelled": "dependency failed: job 5 was cancelled",
    "the job failed: exit code 3": "the job failed: exit code 3",
}


@pytest.mark.parametrize("text", CASES)
def test_a_sentence_is_redacted(text: str) -> None:
    async def told() -> tuple[str, str]:
        everything = redacted(text)
        read_by(lambda number: number == 7)
        return everything, redacted(text)

    assert asyncio.run(told()) == (text, CASES[text])


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    folder: Path = tmp_path_factory.mktemp("redaction")
    with Center(folder / "data", forked=True, visibility="own") as center:
        yield center


def test_no_answer_to_another_user_names_a_foreign_job(own: Center) -> None:
    """Ann's job blocks the one of bob, and has left traces wherever there are some."""
    own.put_groups("Name: web\nResourceQuota: 4\nUsers: *\nSchedPolicy: BackFill\n")
    with own.executor(resource="<4, 8G>") as executor, user_of(own, "ann") as ann, user_of(own, "bob") as bob:
        running = submit(ann, name="ann-runs", group="web", resource="<3, 1G>", time_limit="1h")
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        waiting = submit(ann, name="ann-waits", group="web", resource="<4, 1G>", time_limit="1h")
        mine = submit(bob, name="bobs", group="web", resource="<1, 1G>", time_limit="3h")
        one = {"command": "true", "resource": "<1, 1G>", "time_limit": "3h"}
        steps = {"name": "bobs-dag", "type": "dag", "group": "web", "steps": {"load": one}}
        dag = bob.post("/v1/jobs", json={"jobs": [steps]}).json()["jobs"][0]["id"]
        kept = {"name": "bobs-service", "type": "service", "group": "web", "command": "true", "resource": "<1, 1G>"}
        service = bob.post("/v1/apply", json={"jobs": [kept]}).json()["jobs"][0]["id"]
        full = own.get(f"/v1/jobs/{mine}")["reason"]
        assert f"job {waiting}" in full, full
        eventually(lambda: own.get(f"/v1/jobs/{running}")["state"] == "running")
        paths = [
            path.replace("{id}", str(mine)).replace("{task}", "0").replace("{name}", "n1")
            for path, methods in own.get("/openapi.json")["paths"].items()
            if "get" in methods and not path.endswith(("/logs", "/watch", "/docs"))
        ]
        paths += [f"/v1/jobs/{dag}", f"/v1/jobs/{service}"]
        paths += [
            "/v1/events?after=0&follow=false",
            "/v1/names/ann-runs",
            "/v1/jobs?name=ann-runs",
            "/v1/jobs?user=ann",
        ]
        foreign = re.compile(
            rf"ann-|\bjob {running}\b|\bjob {waiting}\b|\"(?:job|id|user)\":(?:{running}|{waiting}|\"ann\")[,}}]"
        )
        for path in paths:
            text = bob.get(path, params={"follow": "false"} if path == "/v1/events" else None).text
            assert not foreign.search(text), (path, foreign.search(text), text[:2000])
        assert bob.get(f"/v1/jobs/{mine}").json()["reason"] == full.replace(
            f"job {waiting} of group web", "another job"
        )
        for job in (
            {"after": [running]},
            {"after": {str(waiting): "any"}},
            {"requirement": 'JobDependency = "ann-run"'},
        ):
            answer = bob.post("/v1/jobs", json={"jobs": [{"command": "true", "group": "web", "hold": True} | job]})
            assert "ann-runs" not in answer.text
            assert "ann-waits" not in answer.text
            if "after" in job:
                assert answer.status_code == 422
                unknown = bob.post("/v1/jobs", json={"jobs": [{"command": "true", "group": "web", "after": [10**6]}]})
                number = running if job["after"] == [running] else waiting
                assert answer.json()["message"].replace(str(number), "N") == unknown.json()["message"].replace(
                    "1000000", "N"
                )
        assert {"ann-runs", "ann-waits"} <= {job["name"] for job in own.get("/v1/jobs")["jobs"]}, "the owner sees them"
