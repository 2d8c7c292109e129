"""Terms and fencing at the executor: who is gone when the center falls silent, and whose orders count."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cress.executor.alarm import Alarm
from cress.executor.journal import JournalFile
from cress.model.job import OnPartition
from cress.model.node import Device
from cress.model.reports import Cause, Ended, Report, Usage
from cress.model.run import Run
from cress.model.times import SECOND
from cress.protocol.messages import (
    VERSION,
    Durable,
    Launch,
    Launches,
    Refused,
    Shutdown,
    Signal,
    Stop,
    Stops,
    Term,
    Welcome,
)
from cress.shell.executor.node_devices import NodeDevices
from cress.shell.executor.records import Known, Record
from cress.shell.executor.task_manager import SIGKILL, SIGTERM, Task, TaskManager
from tests.budget import slowness_now
from tests.executor.centers import AgentProcess, Center, center, clean_up, supervisor_pid
from tests.executor.harness import PATIENCE, Client, SupervisorProcess, left_over, shell, until

TERM = 60 * SECOND


class Scene:
    """A manager whose tasks run until they are killed; what was done to them, and what it said."""

    def __init__(self, known: Known | None = None, now: int = 1000 * SECOND) -> None:
        self.manager = TaskManager(known or Known(), self)
        self.manager.now = now
        self.signals: list[tuple[int, int, int]] = []  # second, attempt, number
        self.ends: dict[int, Ended] = {}
        self.said: list[str] = []
        self.durable: list[Record] = []
        self.full = False

    def launch(self, *attempts: int, epoch: int = 1, grace: int = 5, keep: bool = False) -> None:
        policy = OnPartition.KEEP if keep else OnPartition.STOP
        run = Run(job=attempts[0], command=("x",), stop_grace=grace * SECOND, on_partition=policy)
        launches = tuple(Launch(attempt, run.job, 0) for attempt in attempts)
        self.manager.obey(Launches(epoch=epoch, runs=(run,), launches=launches))
        self.manager.tick()
        self.manager.work(99)

    def grant(self, ago: int = 0, epoch: int = 1, term: int = TERM) -> None:
        self.manager.obey(Term(epoch=epoch, sent=self.manager.now - ago * SECOND, term=term))

    def until_nothing_is_due(self) -> None:
        while (due := self.manager.next_due()) is not None:
            self.manager.now = max(due, self.manager.now)
            self.manager.tick()

    def wait(self, seconds: int) -> None:
        end = self.manager.now + seconds * SECOND
        while (due := self.manager.next_due()) is not None and due <= end:
            self.manager.now = max(due, self.manager.now)
            self.manager.tick()
        self.manager.now = end

    @property
    def second(self) -> int:
        return self.manager.now // SECOND - 1000

    # The hands.

    def write(self, records: list[Record]) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "no space left")
        self.durable += records
        for record in records:
            self.note(record)

    def note(self, record: Record) -> None:
        self.manager.known.apply(record)

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        pass

    def want(self, attempts: Sequence[int]) -> None: ...

    def spawn(self, task: Task) -> int:
        return task.attempt

    def signal(self, task: Task, number: int) -> None:
        self.signals.append((self.second, task.attempt, number))
        if number == SIGKILL:
            self.manager.exited(task.attempt, -SIGKILL, Usage())

    def sweep(self, task: Task, *, kill: bool) -> bool:
        return True

    def report(self, report: Report) -> None:
        if isinstance(report, Ended):
            self.ends[report.attempt] = report

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def running(self, *attempts: int, grace: int = 5, keep: bool = False) -> None:
        self.launch(*attempts, grace=grace, keep=keep)
        for attempt in attempts:
            self.manager.running(attempt, 1)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_grace_of_a_task_lies_before_the_end_of_the_term(scene: Scene) -> None:
    scene.grant()
    scene.running(1, grace=5)
    scene.running(2, grace=0)
    scene.running(3, keep=True)
    scene.running(4, grace=600)  # a quarter of the term, or a busy center would be noticed
    scene.until_nothing_is_due()
    assert scene.signals[:2] == [(45, 4, SIGTERM), (55, 1, SIGTERM)]
    assert sorted(scene.signals[2:]) == [(60, 1, SIGKILL), (60, 2, SIGKILL), (60, 4, SIGKILL)]
    assert {(end.cause, end.code) for end in scene.ends.values()} == {(Cause.TERM, -SIGKILL)}
    assert [scene.ends[each].error for each in (4, 1, 2)] == [
        f"the center was not heard from for {seconds} s" for seconds in (45, 55, 60)
    ]
    assert list(scene.manager.tasks) == [3]


def test_a_word_in_time_puts_it_off(scene: Scene) -> None:
    scene.grant()
    scene.running(1)
    for _ in range(5):
        scene.wait(50)
        scene.grant()
    assert not scene.signals
    scene.wait(56)
    scene.grant()
    assert scene.signals == [(305, 1, SIGTERM)]
    scene.until_nothing_is_due()
    assert scene.ends[1].cause is Cause.TERM, "who was told to stop is stopped"


def test_an_answer_counts_from_its_question(scene: Scene) -> None:
    scene.grant()
    scene.running(1, grace=0)
    scene.wait(50)
    scene.grant(ago=50)
    scene.until_nothing_is_due()
    assert scene.signals == [(60, 1, SIGKILL)]


def test_a_question_from_the_future_counts_from_now(scene: Scene) -> None:
    scene.grant(ago=-1000)
    scene.running(1, grace=0)
    scene.until_nothing_is_due()
    assert scene.signals == [(60, 1, SIGKILL)]


def test_without_a_term_nothing_is_ever_stopped(scene: Scene) -> None:
    scene.manager.obey(Welcome(epoch=1))
    scene.running(1)
    assert scene.manager.next_due() is None
    assert not scene.manager.bound
    scene.grant()
    assert scene.manager.bound
    scene.manager.obey(Welcome(epoch=2))  # of a center that looks by itself
    assert scene.manager.next_due() is None
    assert not scene.manager.bound


def test_an_order_that_was_under_way_for_longer_than_the_term_starts_nothing(scene: Scene) -> None:
    scene.grant(ago=58)
    scene.launch(1)
    scene.launch(2, keep=True)
    assert scene.ends[1].cause is Cause.TERM
    assert scene.ends[1].started == 0
    assert list(scene.manager.tasks) == [2]


def test_a_stop_with_a_longer_grace_is_over_at_the_end_of_the_term(scene: Scene) -> None:
    scene.grant()
    scene.running(1, grace=0)
    scene.manager.obey(Stops(epoch=1, stops=(Stop(1, 600 * SECOND),)))
    scene.until_nothing_is_due()
    assert scene.signals == [(0, 1, SIGTERM), (60, 1, SIGKILL)]
    assert (scene.ends[1].cause, scene.ends[1].error) == (Cause.STOPPED, "")


def test_after_a_restart_of_the_machine_no_term_holds(scene: Scene) -> None:
    scene.manager.resume("b1")
    scene.grant()
    scene.running(1)
    again = Scene(scene.manager.known, now=5 * SECOND)
    assert again.manager.resume("b1") == [1]
    assert again.manager.known.until
    again = Scene(scene.manager.known, now=5 * SECOND)
    assert again.manager.resume("b2") == []
    assert again.ends[1].cause is Cause.UNKNOWN
    assert not again.manager.known.until


def test_a_journal_knows_cluster_epoch_and_deadline(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "journal")
    scene = Scene(journal.known)
    scene.write = journal.write  # type: ignore[method-assign]
    scene.note = journal.note  # type: ignore[method-assign]
    scene.manager.obey(Welcome(epoch=7, cluster="c", sent=scene.manager.now, term=TERM))
    scene.launch(1, epoch=7, keep=True)
    scene.launch(2, epoch=7)
    for _ in range(2):
        journal.close()
        journal = JournalFile(tmp_path / "journal")
        known = journal.known
        assert (known.epoch, known.cluster, known.until, known.term) == (7, "c", 1060 * SECOND, TERM)
        assert [entry.intent.keep for entry in known.running.values()] == [True, False]
        journal.compact()
    journal.close()


# --- fencing ----------------------------------------------------------------------------------------------------------

OLDER: dict[str, Callable[[Scene], None]] = {
    "launches": lambda scene: scene.launch(9, epoch=3),
    "stops": lambda scene: scene.manager.obey(Stops(epoch=3, stops=(Stop(1, 0),))),
    "a signal": lambda scene: scene.manager.obey(Signal(epoch=3, attempt=1, number=10)),
    "a term": lambda scene: scene.grant(epoch=3),
    "a welcome": lambda scene: scene.manager.obey(Welcome(epoch=3, cluster="other", sent=scene.manager.now, term=TERM)),
    "what it has stored": lambda scene: scene.manager.obey(Durable(epoch=3, attempts=(2,))),
}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("order", OLDER, ids=str)
def test_an_older_center_is_not_obeyed(scene: Scene, order: str, restarted: bool) -> None:
    scene.running(1)
    scene.manager.obey(Stops(epoch=1, stops=(Stop(2, 0),)))
    scene.manager.obey(Welcome(epoch=4, cluster="ours"))
    if restarted:
        known = Known()
        for record in scene.manager.known.records():
            known.apply(record)
        scene = Scene(known)
        for attempt in scene.manager.resume(""):
            scene.manager.adopt(attempt, attempt, 1)
    OLDER[order](scene)
    scene.until_nothing_is_due()
    assert scene.said == ["an order of epoch 3 was refused: the center of epoch 4 leads"]
    assert not scene.signals
    assert list(scene.manager.tasks) == [1]
    assert list(scene.manager.known.ends) == [2]
    assert (scene.manager.known.cluster, scene.manager.known.until) == ("ours", 0)


def test_a_new_epoch_is_durable_before_anything_is_done(scene: Scene) -> None:
    scene.manager.obey(Welcome(epoch=4))
    assert [type(each).__name__ for each in scene.durable] == ["Epoch"]
    scene.full = True
    scene.manager.obey(Welcome(epoch=5))
    assert scene.manager.known.epoch == 5, "a full disk does not help the older center"


def test_leaving_is_nobodys_epoch(scene: Scene) -> None:
    scene.running(1)
    scene.manager.obey(Welcome(epoch=4))
    scene.manager.obey(Shutdown(grace=0))
    assert scene.ends[1].cause is Cause.SHUTDOWN


# --- real processes ---------------------------------------------------------------------------------------------------

STAYS = "trap '' TERM; while :; do sleep 0.05; done"


def boottime() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def test_tasks_are_gone_at_the_deadline_although_nobody_is_connected(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell(STAYS, stop_grace=SECOND), 5)
    client.launch(shell("exec sleep 1000", job=2, on_partition=OnPartition.KEEP), 6)
    client.wait_started(5)
    client.wait_started(6)
    sent = boottime()
    client.send(Welcome(epoch=1, sent=sent, term=SECOND))
    client.sync()
    client.close()
    until(lambda: left_over(parent.directory) == {6}, "the end of the task that stops")
    gone = boottime()
    assert gone >= sent + SECOND
    again = parent.connect()
    assert again is not None
    end = again.wait_ended(5)
    assert (end.cause, end.code) == (Cause.TERM, -9)
    assert end.error.startswith("the center was not heard from for ")
    assert again.inventory.bound


def test_of_a_whole_frozen_node_no_task_goes_on_for_long(client: Client, parent: SupervisorProcess) -> None:
    """Everything stands still for longer than the term, and the tasks are the first to go on."""
    attempts = range(5, 25)
    for attempt in attempts:
        client.launch(shell("while :; do date +%s%N; sleep 0.001; done", job=attempt), attempt)
    pids = [client.wait_started(attempt).pid for attempt in attempts]
    client.send(Welcome(epoch=1, sent=boottime(), term=SECOND))
    client.sync()
    assert parent.process is not None
    for pid in (parent.process.pid, *pids):
        (os.kill if pid == parent.process.pid else os.killpg)(pid, signal.SIGSTOP)
    time.sleep(1.5)
    awake = time.time_ns()
    for pid in pids:
        os.killpg(pid, signal.SIGCONT)
    os.kill(parent.process.pid, signal.SIGCONT)
    assert {client.wait_ended(attempt).cause for attempt in attempts} == {Cause.TERM}
    assert left_over(parent.directory) == set()
    last = max(int(line) for attempt in attempts for line in parent.output(attempt).split())
    # The supervisor kills them as soon as the kernel schedules it.
    assert (last - awake) / 1e6 < 500 * slowness_now().wall


def test_the_deadline_survives_the_supervisor(client: Client, parent: SupervisorProcess) -> None:
    client.launch(Run(job=1, command=("sleep", "1000"), on_partition=OnPartition.KEEP), 4)
    client.wait_started(4)
    client.launch(Run(job=2, command=("sleep", "1000")), 5)
    client.wait_started(5)
    client.send(Welcome(epoch=1, cluster="c", sent=boottime(), term=2 * SECOND))
    client.sync()
    parent.kill()
    again = parent.start()
    assert (again.inventory.bound, again.inventory.epoch, again.inventory.cluster) == (True, 1, "c")
    assert again.wait_ended(5).cause is Cause.TERM
    assert left_over(parent.directory) == {4}


def test_what_the_journal_does_not_know_is_killed(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("(setsid sleep 1000 &) ; exec sleep 1000"), 5)
    client.wait_started(5)
    parent.kill()
    (parent.directory / "journal").unlink()
    again = parent.start()
    assert left_over(parent.directory) == set(), "before it says what runs: it will run again elsewhere"
    assert again.inventory.reports == ()
    assert "1 running attempts are not in the journal; they are killed" in parent.said()


def test_an_alarm_rings_at_its_time_of_the_clock_that_does_not_sleep() -> None:
    alarm = Alarm()
    try:
        due = boottime() + 50_000
        for at in (due + 10**9, None, due):
            alarm.set(at)
        assert select.select([alarm.fd], [], [], PATIENCE)[0] == [alarm.fd]
        assert boottime() >= due
        alarm.rang()
        assert not select.select([alarm.fd], [], [], 0)[0]
        alarm.set(due)  # of the past: at once
        assert select.select([alarm.fd], [], [], PATIENCE)[0]
    finally:
        alarm.close()


# --- the agent --------------------------------------------------------------------------------------------------------


@pytest.fixture
def above() -> Iterator[Center]:
    with center() as it:
        yield it


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[list[AgentProcess]]:
    started: list[AgentProcess] = []
    try:
        yield started
    finally:
        for each in started:
            each.close()
        clean_up(tmp_path / "executor")


def test_beats_come_as_long_as_a_term_holds_and_answers_reach_the_supervisor(
    above: Center, agents: list[AgentProcess], tmp_path: Path
) -> None:
    above.term = 5 * SECOND // 2
    agents.append(AgentProcess(tmp_path / "executor", above.port))
    session = above.session()
    hello = session.hello
    assert (hello.version, hello.bound, hello.epoch, hello.cluster) == (VERSION, True, 0, "")
    assert hello.supervisor is not None
    assert hello.supervisor.pid == supervisor_pid(tmp_path / "executor")
    assert 0 < hello.sent <= boottime()
    session.launch(Run(job=1, command=("sleep", "1000")), 5)
    session.wait_started(5)
    until(lambda: len(session.beats) > 8, "beats for more than a term")
    assert session.beats == sorted(session.beats)
    assert 5 not in session.ended, "each was answered"
    session.answers = False
    assert session.wait_ended(5).cause is Cause.TERM


def test_a_supervisor_is_there_at_the_deadline_although_no_center_is(
    above: Center, agents: list[AgentProcess], tmp_path: Path
) -> None:
    directory = tmp_path / "executor"
    above.term = 5 * SECOND // 2
    agents.append(AgentProcess(directory, above.port))
    session = above.session()
    session.launch(shell("exec sleep 1000"), 5)
    session.wait_started(5)
    above.close()
    pid = supervisor_pid(directory)
    assert pid is not None
    agents[0].kill_supervisor()
    until(lambda: supervisor_pid(directory) not in (None, pid), "a new supervisor")
    until(lambda: left_over(directory) == set(), "the end of the task")


def test_who_is_refused_for_good_leaves_no_supervisor_behind(
    above: Center, agents: list[AgentProcess], tmp_path: Path
) -> None:
    above.refusal = Refused(what="it speaks version 0", permanent=True)
    agents.append(AgentProcess(tmp_path / "executor", above.port))
    code, said = agents[0].ended()
    assert (code, "it speaks version 0" in said) == (3, True)
    assert supervisor_pid(tmp_path / "executor") is None
