"""Explanations through the API: reason, expected start and remedies, by a fork of the center."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cress.center.leader import explaining
from cress.center.leader.explaining import Explainer
from cress.center.leader.rebalancing import Planner
from cress.center.leader.trials import Trials
from cress.center.process.kept_fork import KeptFork
from cress.lifecycle.inputs import Reported
from cress.model.errors import NotAccepted
from cress.model.reports import Cause, Ended
from cress.model.times import SECOND
from tests.center.inside import Inside, inside, until
from tests.center.program import Center, eventually
from tests.waiting import PATIENCE


def test_a_waiting_job_is_explained(center: Center) -> None:
    with center.executor("n1") as n1:
        running = center.submit(name="one", resource="<3, 1G>", time_limit="1h", files=["https://data.example/a"])
        (launch,) = n1.launches()
        # It takes a node to itself, and its program may begin much later.
        early = center.get(f"/v1/jobs/{running}/explanation")["starting"]
        known = r"its program has not begun: n1 was told to start it \S+ ago, and first fetches its files"
        assert re.fullmatch(known, early)
        n1.started(launch.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{running}")["started"])
        waiting = center.submit(name="two", resource="<2, 1G>")
        found = center.get(f"/v1/jobs/{waiting}/explanation")
        assert found["job"] == waiting
        assert found["reason"] == center.get(f"/v1/jobs/{waiting}")["reason"]
        assert found["start"]["likely"] == pytest.approx(time.time() + 3600, abs=60)
        assert found["start"]["because"] == running
        assert found["nearest"] == [{"node": "n1", "lacks": ["cpu 1"]}]
        assert [remedy["text"] for remedy in found["remedies"]] == [
            "with cpu of at most 1", "with one more node like n1", f"when job {running} ends",
        ]  # fmt: skip
        # Nothing of this has happened.
        assert center.get("/v1/state")["jobs_waiting"] == 1
        begun = center.get(f"/v1/jobs/{running}/explanation")
        assert (begun["reason"], begun.get("starting", "")) == ("", "")


def test_an_attempt_that_ends_during_an_explanation_is_not_said_to_be_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(center: Inside) -> None:
        await center.join("n1", 2)
        job = await center.submit()
        await until(lambda: bool(center.committer.machine.jobs[job].attempts))

        (attempt,) = center.committer.machine.jobs[job].attempts.values()

        async def ends(*_: object) -> tuple[()]:
            end = Ended(attempt=attempt.id, cause=Cause.FILES, code=None, started=0, at=attempt.placed + SECOND)
            await center.committer.submit(Reported(node="n1", reports=(end,)))
            return ()

        monkeypatch.setattr("cress.center.api.explaining.ended_views", ends)
        assert (await center.get(f"/v1/jobs/{job}/explanation")).get("starting", "") == ""

    inside(tmp_path, story)


def test_a_job_that_does_not_exist_is_not_found(center: Center) -> None:
    center.get("/v1/jobs/99/explanation", 404)


def test_the_answer_to_a_submit_has_the_expected_start_and_an_explanation_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow this machine is.
    monkeypatch.setattr(explaining, "AT_ONCE", 60.0)
    monkeypatch.setattr(explaining, "PATIENCE", 60.0)

    async def story(center: Inside) -> None:
        await center.join("n1", 2)

        async def submitted() -> dict[str, Any]:
            job = {"command": ["true"], "resource": "<2, 1G>", "time_limit": "1h"}
            answer = await center.call("POST", "/v1/jobs?starts=true", {"jobs": [job]}, 201)
            found: dict[str, Any] = answer["jobs"][0]
            return found

        first, second, third = await submitted(), await submitted(), await submitted()
        now = center.committer.clock.utc() / SECOND
        assert first["expected_start"]["likely"] == pytest.approx(now, abs=60)
        assert second["expected_start"]["because"] == first["id"]
        assert third["expected_start"]["behind"] == 1
        likely = [one["expected_start"]["likely"] - now for one in (second, third)]
        assert likely == [pytest.approx(3600, abs=60), pytest.approx(7200, abs=60)]
        # Both bounds are those that are learned from earlier starts.
        explained = (await center.get(f"/v1/jobs/{third['id']}/explanation"))["start"]
        assert explained == (await center.get(f"/v1/jobs/{third['id']}"))["expected_start"] == third["expected_start"]
        assert explained["earliest"] < explained["likely"] < explained["latest"]
        # Without the question there is no answer, and no fork.
        plain = await center.call("POST", "/v1/jobs", {"jobs": [{"command": ["true"]}]}, 201)
        assert "expected_start" not in plain["jobs"][0] or plain["jobs"][0]["expected_start"] is None

    inside(tmp_path, story)


def test_a_job_or_dag_with_a_running_task_has_started(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join("n1", 1)
        array = {"command": ["true"], "resource": "<1, 1M>", "tasks": 3, "time_limit": "1h"}
        (told,) = (await center.call("POST", "/v1/jobs?starts=true", {"jobs": [array]}, 201))["jobs"]
        assert (await center.get(f"/v1/jobs/{told['id']}"))["tasks"]["waiting"] == 2
        assert told["expected_start"]["latest"] == pytest.approx(center.committer.clock.utc() / SECOND, abs=60)
        await center.join("n2", 4)
        after = {"command": ["true"], "after": ["one"]}
        steps = {"one": {key: array[key] for key in ("command", "resource", "time_limit")}, "two": after}
        told, *_ = (
            await center.call("POST", "/v1/jobs?starts=true", {"jobs": [{"type": "dag", "steps": steps}]}, 201)
        )["jobs"]
        assert told["expected_start"]["latest"] == pytest.approx(center.committer.clock.utc() / SECOND, abs=60)

    inside(tmp_path, story)


def test_lists_do_not_wait_for_what_forks_compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(center: Inside) -> None:
        await center.join("n1", 1)
        job = await center.submit(resource="<1, 1G>", time_limit="1h")
        waiting = await center.submit(resource="<1, 1G>", time_limit="1h")
        may, all_wait = asyncio.Event(), asyncio.Barrier(11)

        async def never(*_: object, **__: object) -> None:
            await all_wait.wait()
            await may.wait()
            raise NotAccepted("it took too long")

        for part, name in ((Explainer, "_ask"), (Trials, "consequences"), (Planner, "plan")):
            monkeypatch.setattr(part, name, never)
        paths = [f"/v1/jobs/{waiting}/explanation", "/v1/groups/default/explanation", "/v1/nodes/n1/explanation"]
        slow = [asyncio.create_task(center.get(path, 409)) for path in (*paths, "/v1/rebalance") for _ in range(2)]
        slow += [asyncio.create_task(center.call("POST", "/v1/what-if", {}, 409)) for _ in range(2)]
        async with asyncio.timeout(PATIENCE):
            await all_wait.wait()
            for path in ("/v1/jobs", f"/v1/jobs/{job}/tasks", "/v1/nodes"):
                await center.get(path)
        may.set()
        await asyncio.gather(*slow)

    inside(tmp_path, story)


def test_questions_that_are_asked_together_share_a_fork_and_see_what_was_stored_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(center: Inside) -> None:
        await center.join("n1", 2)
        explainer, forks = Explainer(center.committer), list[float]()
        await center.submit(resource="<2, 1G>", time_limit="1h")
        waiting = [await center.submit(resource="<2, 1G>", time_limit="1h") for _ in range(8)]

        async def told(number: int) -> str:
            found = await explainer.explain(number)
            forks.append(explainer.made)
            assert found is not None
            return found.reason

        reasons = await asyncio.gather(*map(told, waiting))
        assert all("no node has enough free" in reason or "puts job" in reason for reason in reasons)
        # The first question has a fork of its own at most; all others were asked before the second fork was made.
        assert len(set(forks)) <= 2
        # Nothing has changed: the same fork answers.
        await told(waiting[0])
        assert forks[-1] == forks[-2]
        # A change is seen at once.
        await center.call("POST", f"/v1/jobs/{waiting[0]}/hold")
        assert (await told(waiting[0])).startswith("held")
        assert forks[-1] != forks[-2]
        explainer.close()
        # A fork answers a question that is asked again with what it knows.
        answers, asked = (
            explaining.ForkAnswers(center.committer.machine, follows=False),
            list[explaining.ForkQuestion](),
        )

        def answered(_: explaining.ForkAnswers, question: explaining.ForkQuestion) -> bytes:
            asked.append(question)
            return b"answer"

        monkeypatch.setitem(explaining.ANSWERS, "group", answered)
        questions = [msgspec.msgpack.encode(explaining.ForkQuestion("group", name=name)) for name in ("a", "b", "a")]
        assert [answers.answer(question) for question in questions] == [b"answer"] * 3
        assert [question.name for question in asked] == ["a", "b"]
        monkeypatch.setattr(explaining, "MOST_KNOWN", 3)
        for number in range(10):
            answers.answer(msgspec.msgpack.encode(explaining.ForkQuestion("group", number)))
        assert len(answers._known) <= 3

    inside(tmp_path, story)


def test_a_question_that_fails_does_not_end_the_fork(capfd: pytest.CaptureFixture[str]) -> None:
    def answer(question: bytes) -> bytes:
        if question == b"bad":
            raise ValueError(question)
        return question * 100_000

    fork = KeptFork(answer)
    assert fork.ask(b"good") == b"good" * 100_000
    assert fork.ask(b"bad") is None
    assert fork.ask(b"") == b""
    fork.close()
    assert fork.ask(b"late") is None
    assert "ValueError: b'bad'" in capfd.readouterr().err


def test_the_job_file_of_a_job_can_be_submitted_again(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join("n1", 4)
        load = {"name": "load", "command": ["true"], "tasks": "1-3", "env": {"A": "1"}, "resource": "<1, 1M>"}
        steps = {"one": {"command": ["true"], "tasks": 2}, "two": {"command": ["true"], "after": {"one": "tasks"}}}
        dag = {"name": "etl", "type": "dag", "steps": steps, "after": "load"}
        answer = await center.call("POST", "/v1/jobs", {"jobs": [load, dag]}, 201)
        first, whole = (one["id"] for one in answer["jobs"])
        told = (await center.get(f"/v1/jobs/{first}/file"))["job"]
        assert told == load
        # Names that belong to the submit of then are ids now, and the answer is accepted again.
        told = (await center.get(f"/v1/jobs/{whole}/file"))["job"]
        assert told == {**dag, "after": {str(first): "ok"}}
        await center.call("POST", "/v1/jobs", {"jobs": [told]}, 201)
        refused = await center.call("GET", f"/v1/jobs/{whole + 1}/file", status=409)
        assert "is a part of job" in str(refused)
        await center.call("POST", f"/v1/jobs/{whole}/cancel")
        assert "after" not in (await center.get(f"/v1/jobs/{whole}/file"))["job"]
        await center.call("GET", "/v1/jobs/999/file", status=404)

    inside(tmp_path, story)
