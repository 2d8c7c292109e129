"""Inputs that make each step, or each commit, fail because of a defect: they are set aside, and everything else goes
on.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import Input, NodeJoined, Reported, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.slices import Slices
from cress.model.reports import Started
from cress.protocol import messages as m
from cress.shell.center.effects import Send, Session
from cress.store.base import Batch
from tests.center.inside import Inside, Store, inside, until

HELLO = m.Hello(version=6, name="n1", resource="<64, 64G>", boot="b", protocol=m.PROTOCOL, attributes={})
POISON = 666


def is_poison(what: Input) -> bool:
    """An input of which the machine is said to die."""
    if isinstance(what, Submit):
        return any(job.name == "poison" for job in what.jobs)
    if isinstance(what, Reported):
        return any(isinstance(each, Started) and each.pid == POISON for each in what.reports)
    return isinstance(what, NodeJoined) and what.node.name == "poison"


@pytest.fixture(params=["the step", "the commit", "a number for SQLite", "too much for SQLite"])
def defect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A defect in the machine, which has changed its state already, or in what it stores."""
    stepping, commit = Machine.stepping, Store.commit
    fatal: list[bool] = [False]

    def stepped(machine: Machine, now: int, utc: int, inputs: Sequence[Input]) -> Slices[StepResult]:
        done = yield from stepping(machine, now, utc, inputs)
        fatal[0] = any(map(is_poison, inputs))
        if fatal[0] and request.param == "the step":
            raise KeyError("a defect")
        return done

    def committed(store: Store, batch: Batch, epoch: int) -> None:
        if fatal[0]:
            with sqlite3.connect(":memory:") as other:
                if request.param == "a number for SQLite":
                    other.execute("SELECT ?", (2**63,))
                if request.param == "too much for SQLite":
                    store._write(_too_much, None)  # type: ignore[arg-type]
            raise RuntimeError("a defect")
        commit(store, batch, epoch)

    monkeypatch.setattr(Machine, "stepping", stepped)
    monkeypatch.setattr(Store, "commit", committed)
    return str(request.param)


def _too_much(writer: sqlite3.Connection) -> None:
    before = writer.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    try:
        writer.execute("SELECT ?", ("x" * 2000,))
    finally:
        writer.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


@pytest.mark.usefixtures("defect")
def test_an_input_of_which_a_step_dies_is_set_aside_and_all_others_go_on(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        committer, sessions = center.committer, center.committer.sessions
        session = Session()
        committer.carry_out(sessions.hello(session, HELLO, committer.clock.now()))
        first = await center.submit()
        assert session in committer.loop.joined.values()
        # A caller's input, with others in the same step.
        submits = [center.http.post("/v1/jobs", json={"jobs": [{"command": ["true"], "name": name}]})
                   for name in ("good", "poison", "better")]  # fmt: skip
        answers = await asyncio.gather(*submits)
        assert [each.status_code for each in answers] == [201, 409, 201], [each.text for each in answers]
        assert "was set aside and changed nothing" in answers[1].json()["message"]
        names = {view["name"] for view in (await center.get("/v1/jobs"))["jobs"]}
        assert "poison" not in names
        assert {"good", "better"} <= names
        # An executor's report: it stays connected, and other reports of it are taken.
        attempt = next(iter(committer.machine.jobs[first].attempts))
        for pid in (POISON, 7):
            report = Started(attempt=attempt, at=committer.clock.utc(), pid=pid)
            committer.carry_out(sessions.received(session, m.Reports(reports=(report,)), committer.clock.now()))
        await until(lambda: committer.machine.jobs[first].attempts[attempt].pid == 7)
        # Another node that cannot register is refused, and not tried again at once.
        other, poisoned = Session(), msgspec.structs.replace(HELLO, name="poison")
        committer.carry_out(sessions.hello(other, poisoned, committer.clock.now()))
        await until(lambda: other.closed)
        again = sessions.hello(Session(), poisoned, committer.clock.now())
        refusals = [each.message for each in again if isinstance(each, Send)]
        assert isinstance(refusals[0], m.Refused)
        assert not refusals[0].permanent
        assert "was set aside" in refusals[0].what
        # Nothing was reloaded in a new epoch, and nobody was disconnected.
        assert (committer.epoch, session.closed, committer.problem) == (1, False, "")
        assert session in committer.loop.joined.values()
        await center.submit(name="last")
        events = [each for each in committer.loop.events.after(0, 1000) if each.kind == "input.set_aside"]
        assert [each.text.partition(":")[0] for each in events] == ["Submit", "Reported", "NodeJoined"]
        committer.machine.validate()

    inside(tmp_path, story)
    kept = sorted((tmp_path / "quarantine").iterdir())
    assert [json.loads(each.read_bytes())["kind"] for each in kept] == ["Submit", "Reported", "NodeJoined"]
    assert "name='poison'" in kept[0].read_text()

    async def after(center: Inside) -> None:
        assert {view["name"] for view in (await center.get("/v1/jobs"))["jobs"]} >= {"good", "better", "last"}

    inside(tmp_path, after)


def test_a_full_disk_sets_nothing_aside(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        center.store.failing = True
        answer = await center.http.post("/v1/jobs", json={"jobs": [{"command": ["true"]}]})
        assert answer.status_code == 503
        center.store.failing = False
        await until(lambda: center.committer.problem == "")
        await center.submit()

    inside(tmp_path, story)
    assert not (tmp_path / "quarantine").exists()


def test_a_step_without_inputs_that_fails_loads_the_state_again(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.submit()
        loop = center.committer.loop
        assert loop.defect("a timer") == []
        assert "a timer" in center.committer.problem
        # As if the step that failed had been the loop's own: it goes on at once.
        center.committer._wake.set()
        await until(lambda: center.committer.problem == "")

    inside(tmp_path, story)
    assert not (tmp_path / "quarantine").exists()
