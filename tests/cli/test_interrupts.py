"""Ctrl-C during a call that changes the cluster: it waits for the answer, and the message says what has changed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import pytest
import typer

from cress.cli import apply, interrupts, rebalance, run, submit
from cress.cli.errors import INTERRUPTED
from cress.cli.relay import Relay, Waits
from cress.client import AppliedJob, AppliedJobs, RoundView, Submitted, SubmittedPage, TaskView
from tests.cli.test_rebalance import PLAN

SUBMITTED = SubmittedPage(jobs=(Submitted(id=3, name="long"),))
APPLIED = AppliedJobs(jobs=(AppliedJob(name="web", what="created", id=5, version=1),))


class Center:
    """A client whose calls that change something get Ctrl-C before the answer; ``calls`` are those made."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _answer(self, call: str, answer: Any) -> Any:
        self.calls.append(call)
        os.kill(os.getpid(), signal.SIGINT)
        return answer

    def submit(self, *_: object, **__: object) -> Any:
        return self._answer("submit", SUBMITTED)

    def apply(self, *_: object, **__: object) -> Any:
        return self._answer("apply", APPLIED)

    def plan_moves(self, *_: object) -> Any:
        return PLAN

    def begin_moves(self, _: object) -> Any:
        return self._answer("begin", RoundView(number=1, state="moving", under_way=PLAN.moves[:1]))

    def stop_moves(self) -> Any:
        self.calls.append("stop")
        return RoundView(number=1, state="moving", under_way=PLAN.moves[:1])

    def last_round(self) -> Any:
        return RoundView(number=1, state="stopped", done=PLAN.moves[:1], left=PLAN.moves[1:], problem="stopped by ann")

    def cancel(self, id: int) -> None:
        self.calls.append(f"cancel {id}")


@pytest.fixture
def center(monkeypatch: pytest.MonkeyPatch) -> Center:
    """The center that all verbs get."""
    center = Center()
    for verb in (apply, rebalance, run, submit):
        monkeypatch.setattr(verb, "connect", lambda _: center)
    return center


@pytest.fixture
def file(tmp_path: Any) -> str:
    """A job file."""
    path = tmp_path / "long.yaml"
    path.write_text("name: long\ncommand: sleep 600\n")
    return str(path)


def code(verb: Callable[[], None]) -> int:
    """Return the exit code of a verb."""
    with pytest.raises(typer.Exit) as ended:
        verb()
    return ended.value.exit_code


def test_a_round_that_was_just_begun_ends_after_its_step(center: Center, capsys: pytest.CaptureFixture[str]) -> None:
    assert code(lambda: rebalance.rebalance(apply=True)) == INTERRUPTED
    assert center.calls == ["begin", "stop"]
    assert capsys.readouterr().err == (
        "finishing the current step; no more tasks are moved\ncress rebalance: interrupted; 1 of 2 tasks moved\n"
    )


@pytest.mark.parametrize("wait", [False, True])
def test_a_job_that_was_just_submitted_is_named(
    center: Center, file: str, wait: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (code(lambda: submit.submit_jobs([file], wait=wait)), center.calls) == (INTERRUPTED, ["submit"])
    assert capsys.readouterr() == (
        "job 3 (long) submitted\n",
        "cress submit: interrupted; the job goes on (stop: cress cancel 3)\n",
    )


def test_a_dry_run_says_nothing_of_jobs(center: Center, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (code(lambda: submit.submit_jobs([file], dry_run=True)), center.calls) == (INTERRUPTED, ["submit"])
    assert capsys.readouterr().err == "cress submit: interrupted\n"


@pytest.mark.parametrize("wait", [False, True])
def test_a_service_that_was_just_applied_is_named(
    center: Center, file: str, wait: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (code(lambda: apply.apply([file], wait=wait)), center.calls) == (INTERRUPTED, ["apply"])
    assert capsys.readouterr().err == "cress apply: interrupted; the applied changes go on (see: cress job 5)\n"


def test_a_command_that_was_just_submitted_is_cancelled(center: Center, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = TaskView(job=3, index=0, state="waiting", attempts=())
    cancelled = TaskView(job=3, index=0, state="cancelled", attempts=())

    def follow(_: Relay, look: Callable[[list[TaskView]], None]) -> list[TaskView]:
        look([waiting])
        return [cancelled]

    monkeypatch.setattr(Relay, "follow", follow)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert code(lambda: run.run(["sleep", "600"], no_stdin=True)) == INTERRUPTED
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert center.calls == ["submit", "cancel 3"]


def test_a_second_interrupt_does_not_wait(center: Center, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    def slow(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    center.submit = slow  # type: ignore[method-assign]
    assert code(lambda: submit.submit_jobs([file])) == INTERRUPTED
    assert capsys.readouterr().err == (
        "cress submit: interrupted before the center had answered; the jobs may have been submitted (see: cress jobs)\n"
    )


def test_an_answer_that_does_not_come_is_not_waited_for(
    center: Center, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    center.begin_moves = slow  # type: ignore[method-assign]
    monkeypatch.setattr(interrupts, "ANSWER_WITHIN", 0.05)
    assert code(lambda: rebalance.rebalance(apply=True)) == INTERRUPTED
    assert capsys.readouterr().err == (
        "cress rebalance: interrupted before the center had answered; "
        "the round may have begun (see: cress rebalance --status)\n"
    )


def test_handlers_are_as_before_after_a_call() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
    with interrupts.delayed_interrupt("") as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupt.came
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pytest.raises(KeyboardInterrupt):
        interrupt.deliver()


def test_ctrl_c_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.delayed_interrupt("") as interrupt:
            os.kill(os.getpid(), signal.SIGINT)
        assert not interrupt.came
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("state", "told"), [("waiting", "cress run: job 3 waits: no room\n"), ("cancelled", "")])
def test_only_a_job_that_waits_is_said_to_wait(
    state: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cress.client.waiting.TELL_AFTER", 0.0)
    monkeypatch.setattr("cress.cli.relay.TERMINAL_AFTER", 0.0)
    client: Any = SimpleNamespace(job=lambda _: SimpleNamespace(state=state, reason="no room"))
    Waits(client, 3, "run").tell([])
    assert capsys.readouterr().err == told
