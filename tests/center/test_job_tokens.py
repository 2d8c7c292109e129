"""Tokens of jobs: what they open, and that each is that of one attempt. Without a center."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cress.center.access.callers import Callers
from cress.center.access.job_tokens import CA_FILE, JobTokens
from cress.center.access.rights import Caller, may_call
from cress.center.connections.start_materials import Starting
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.access import Role, User
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.run import Run
from cress.store.base import StoreError

SECRET = "x" * 43


def live_job(number: int = 5, user: str = "ann") -> LiveJob:
    return LiveJob(job=Job(id=number, request=(1,), user=user, group="g"), submitted=1)


def attempt(number: int = 7, job: int = 5, task: int = 0, node: str = "n1") -> LiveAttempt:
    return LiveAttempt(id=number, job=job, task=task, node=node, placed=1)


# Two levels: who administers the outer group administers those in it.
GROUPS = (
    Group(name="all", quota=Quota(scalar=4), admins=("ann",)),
    Group(name="lab", quota=Quota(scalar=2), parent="all"),
    Group(name="g", quota=Quota(scalar=1), parent="lab"),
    Group(name="web", quota=Quota(scalar=2), admins=("bob",)),
)


class Site:
    """A machine with one running attempt, and the tokens of its center."""

    def __init__(self, secret: str = SECRET, ca: bytes = b"", others: Any = None) -> None:
        self.attempts: dict[int, LiveAttempt] = {7: attempt()}
        self.jobs = {5: live_job(), 6: live_job(6)}
        self.users: dict[str, User] = {}
        core = SimpleNamespace(groups=SimpleNamespace(configured=GROUPS))
        machine = SimpleNamespace(
            attempts=self.attempts, jobs=self.jobs, tables=SimpleNamespace(users=self.users), core=core
        )
        committer: Any = SimpleNamespace(machine=machine)
        self.tokens = JobTokens(committer, secret, "https://center:1", ca, others)
        self.callers = Callers(committer, "ann", job_tokens=self.tokens)
        self.text = self.tokens.text(self.attempts[7], self.jobs[5])

    def caller(self, text: str = "") -> Caller | None:
        return self.callers.of_token(text or self.text, "10.0.0.1")


def test_who_administers_a_group_administers_those_in_it() -> None:
    callers = Site().callers
    assert callers._administers(User(name="ann")) == {"all", "lab", "g"}
    assert callers._administers(User(name="bob", administers=("lab",))) == {"web", "lab", "g"}
    assert callers._administers(User(name="eve")) == set()


def test_a_token_is_that_of_one_attempt_while_it_lives() -> None:
    site = Site()
    caller = site.caller()
    assert caller is not None
    # Ann is the owner of the data directory here: her tasks are no admins for that.
    assert caller == Caller("ann", Role.USER, how="job 5", address="10.0.0.1", attempt=7, job=5)
    assert site.callers.renewed(caller) == caller
    del site.attempts[7]
    assert site.caller() is None
    assert site.callers.renewed(caller) is None
    # The next attempt of the task has another one.
    site.attempts[8] = attempt(8)
    assert site.caller() is None
    assert site.caller(site.text.replace("_7_", "_8_")) is None
    assert site.caller(site.tokens.text(site.attempts[8], site.jobs[5])) is not None


def test_the_user_decides_how_much_it_opens() -> None:
    site = Site()
    site.users["ann"] = User(name="ann", role=Role.ADMIN, administers=("web",))
    caller = site.caller()
    assert caller is not None
    assert (caller.role, caller.administers) == (Role.USER, frozenset())
    site.users["ann"] = User(name="ann", role=Role.VIEWER)
    renewed = site.callers.renewed(caller)
    assert renewed is not None
    assert renewed.role is Role.VIEWER
    site.users["ann"] = User(name="ann", role=Role.NONE)
    assert site.caller() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text + "A",
        lambda text: text.replace("_7_", "_07_"),
        lambda text: text.replace("_7_", "_9_"),
        lambda text: text.replace("_7_", "_" + "9" * 4000 + "_"),
        lambda text: text.replace("cress_job_", "cress_"),
        lambda text: text + "\n",
        lambda _: "cress_job_",
    ],
)
def test_what_is_not_the_token_opens_nothing(change: Any) -> None:
    site = Site()
    site.callers._committer.machine.tables.tokens = {}  # type: ignore[assignment]
    assert site.caller(change(site.text)) is None


def test_every_part_of_an_attempt_and_the_secret_of_the_center_are_in_a_token() -> None:
    site = Site()
    for other in (attempt(8), attempt(task=1), attempt(node="n2"), attempt(job=6)):
        assert site.tokens.text(other, site.jobs[5]) != site.text
    assert site.tokens.text(site.attempts[7], live_job(user="bob")) != site.text
    assert Site("y" * 43).text != site.text
    assert Site().text == site.text, "a center that was started again knows it"


def test_only_jobs_that_ask_for_it_get_one() -> None:
    site = Site(ca=b"pem")

    def given(*, wanted: bool) -> Any:
        run = Run(job=5, command=("true",), job_token=wanted)
        return asyncio.run(site.tokens.provide(Starting(site.attempts[7], site.jobs[5], run)))

    assert given(wanted=True).environment == {"CRESS_URL": b"https://center:1", "CRESS_TOKEN": site.text.encode()}
    assert given(wanted=True).files == {CA_FILE: b"pem"}
    assert (given(wanted=False).environment, given(wanted=False).files) == ({}, {})
    assert site.text not in repr(given(wanted=True))
    assert Run(job=5, command=("true",), job_token=True).needs_material


def test_a_task_knows_the_centers_that_stand_by() -> None:
    answers: list[list[str] | StoreError] = [["https://b:1", "https://c:1"], StoreError("the servers do not answer")]

    async def others() -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def given(site: Site) -> Any:
        starting = Starting(site.attempts[7], site.jobs[5], Run(job=5, command=("true",), job_token=True))
        return asyncio.run(site.tokens.provide(starting)).environment["CRESS_URL"]

    site = Site(others=others)
    assert given(site) == b"https://center:1,https://b:1,https://c:1"
    assert given(site) == b"https://center:1,https://b:1,https://c:1", "they are known for some seconds"
    assert given(Site(others=others)) == b"https://center:1"


@pytest.mark.parametrize(
    ("path", "opens"),
    [
        ("/v1/whoami", True),
        ("/v1/jobs/5", True),
        ("/v1/jobs/5/tasks", True),
        ("/v1/jobs/5/tasks/12", True),
        ("/v1/jobs/5/logs", True),
        ("/v1/jobs/5/cancel", True),
        ("/v1/jobs/5/scale", True),
        ("/v1/jobs/5/tasks/0/exec", False),
        ("/v1/jobs/5/resume", False),
        ("/v1/jobs/5/", False),
        ("/v1/jobs/5/logs/../../6", False),
        ("/v1/jobs/05", False),
        ("/v1/jobs/55", False),
        ("/v1/jobs/6", False),
        ("/v1/jobs", False),
        ("/v1/jobs/cancel", True),  # which looks at each of the jobs
        ("/v1/jobs/hold/", False),
        ("/v1/leases/5", True),
        ("/v1/leases/5.0", True),
        ("/v1/leases/5.12/use", True),
        ("/v1/leases/5/renew", True),
        ("/v1/leases/5/tasks", False),
        ("/v1/leases/5/grow", False),
        ("/v1/leases/55", False),
        ("/v1/leases/5x", False),
        ("/v1/leases", False),
        ("/v1/tokens", False),
        ("/v1/events", False),
        ("/v1/groups", False),
        ("/v1/login", False),
        ("/v1/names/web", True),  # which looks at the group
        ("/v1/names/web/watch", True),
        ("/v1/names/web/all", False),
        ("/v1/names/", False),
    ],
)
def test_a_token_opens_the_calls_about_its_job(path: str, *, opens: bool) -> None:
    assert may_call(Caller("ann", Role.USER, attempt=7, job=5), path) is opens
    assert may_call(Caller("ann", Role.USER), path)
