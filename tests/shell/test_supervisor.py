"""The supervisor's loop: a journal that is ahead of every report, full disks, last words."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from cress.model.node import Allocated, Device
from cress.model.reports import Cause, Ended, Report, Started, Usage
from cress.model.run import Run, SecretUse
from cress.model.start_material import StartMaterial
from cress.model.times import SECOND
from cress.protocol.messages import (
    PROTOCOL,
    AskMaterial,
    Devices,
    Durable,
    Greeting,
    HiddenProcess,
    Inventory,
    Launch,
    Launches,
    Material,
    Reports,
    Shutdown,
    Strangers,
    TimeLimit,
    TimeLimits,
    ToSupervisor,
    Welcome,
    decode_from_supervisor,
    encode,
)
from cress.shell.executor.node_devices import NodeDevices
from cress.shell.executor.records import End, Intent, Known, Record, Start, decode_records, encode_records
from cress.shell.executor.supervisor import ALONE, LAST_WORDS, RETRY, SupervisorLoop
from cress.shell.executor.task_manager import MATERIAL_PATIENCE, NO_MATERIAL, Task

RUN = Run(job=1, command=("x",))
LIMITED = Run(job=1, command=("x",), tasks=2, time_limit=10 * SECOND)


class Paper:
    """A journal that may be full. ``steps`` is shared with the driver: what happened in which order."""

    def __init__(self, steps: list[object]) -> None:
        self.known = Known()
        self.full = ""
        self.steps = steps
        self._noted: list[Record] = []

    def write(self, records: list[Record]) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.steps += records
        for record in records:
            self.known.apply(record)

    def note(self, record: Record) -> None:
        self.known.apply(record)
        self._noted.append(record)

    def flush(self) -> bool:
        if not self.full:
            self.steps += self._noted
            self._noted = []
        return not self.full


class Story:
    """A supervisor whose programs run until ``exits`` says otherwise."""

    def __init__(self) -> None:
        self.steps: list[object] = []
        self.journal = Paper(self.steps)
        self.loop = SupervisorLoop(self.journal, self)
        self.said: list[str] = []
        self.hung_up = False
        self.strange = Strangers()
        self._fresh: list[int] = []
        self._over: list[int] = []
        self.loop.clock(1000 * SECOND, SECOND)

    def obey(self, *orders: ToSupervisor) -> None:
        for order in orders:
            self.loop.receive(encode(order))
        self.loop.turn()

    def launch(self, *attempts: int) -> None:
        self.obey(Launches(epoch=1, runs=(RUN,), launches=tuple(Launch(each, 1, 0) for each in attempts)))

    def exits(self, attempt: int) -> None:
        self._over.append(attempt)
        self.loop.turn()

    def wait(self, length: int) -> None:
        self.loop.clock(self.loop.manager.now + length, SECOND)
        self.loop.turn()

    @property
    def reports(self) -> list[Report]:
        told = [each for each in self.steps if isinstance(each, Reports)]
        return [report for message in told for report in message.reports]

    def spawn(self, task: Task) -> int:
        self._fresh.append(task.attempt)
        self.steps.append(f"spawn {task.attempt}")
        return 100 + task.attempt

    def strangers(self) -> Strangers:
        found, self.strange = self.strange, Strangers(processes=self.strange.processes)
        return found

    def settle(self) -> None:
        fresh, self._fresh = self._fresh, []
        for attempt in fresh:
            self.loop.manager.running(attempt, 1)

    def reap(self) -> None:
        over, self._over = self._over, []
        for attempt in over:
            self.loop.manager.exited(attempt, 0, Usage())

    def signal(self, task: Task, number: int) -> None:
        self._over.append(task.attempt)

    def sweep(self, task: Task, *, kill: bool) -> bool:
        return True

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None: ...

    def ended(self, report: Report) -> None: ...

    def send(self, message: bytes) -> None:
        self.steps.append(decode_from_supervisor(message))

    def hang_up(self) -> None:
        self.hung_up = True
        self.loop.disconnected()

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def test_the_witness_is_kept_with_the_epoch_and_shown_to_the_next_agent() -> None:
    story = Story()
    story.obey(Welcome(epoch=3, cluster="c", witness=b"of 3"))
    assert (story.journal.known.epoch, story.journal.known.witness) == (3, b"of 3")
    # A center without a witness repeats its epoch; the witness of another one replaces it.
    story.obey(Welcome(epoch=3, cluster="c"))
    assert story.journal.known.witness == b"of 3"
    story.obey(Welcome(epoch=4, cluster="c", witness=b"of 4"))
    story.obey(Welcome(epoch=2, cluster="c", witness=b"of 2"))
    assert (story.journal.known.epoch, story.journal.known.witness) == (4, b"of 4")
    # A journal that was written anew has it, and so has the first message to an agent.
    fresh = Known()
    for record in decode_records(encode_records(list(story.journal.known.records()))):
        fresh.apply(record)
    assert (fresh.epoch, fresh.witness) == (4, b"of 4")
    story.loop.connect(Inventory(boot="b", pid=1))
    (inventory,) = [each for each in story.steps if isinstance(each, Inventory)]
    assert (inventory.epoch, inventory.witness) == (4, b"of 4")


def test_intent_spawn_start_and_report_come_in_this_order() -> None:
    story = Story()
    story.loop.connect(Inventory(boot="b", pid=1))
    story.launch(5)
    kinds = [each if isinstance(each, str) else type(each) for each in story.steps[2:]]
    assert kinds == [Intent, "spawn 5", Start, Reports]
    story.steps.clear()
    story.exits(5)
    assert [type(each) for each in story.steps] == [End, Reports]


def test_a_new_agent_is_told_everything_once() -> None:
    story = Story()
    story.launch(5, 6)
    story.exits(5)
    story.steps.clear()
    story.loop.connect(Inventory(boot="b", pid=7))
    story.loop.turn()
    (inventory,) = story.steps
    assert isinstance(inventory, Inventory)
    assert (inventory.pid, inventory.epoch) == (7, 1)
    assert [type(each) for each in inventory.reports] == [Started, Ended]


def test_what_cannot_be_written_down_is_told_all_the_same_and_written_later() -> None:
    story = Story()
    story.loop.connect(Inventory(boot="b", pid=1))
    story.launch(5)
    story.journal.full = "No space left on device"
    story.exits(5)
    assert story.reports[-1].attempt == 5
    assert story.said == ["the journal cannot be written: No space left on device; it is tried again"]
    assert story.loop.next_due() == story.loop.manager.now + RETRY
    story.launch(6)
    end = story.reports[-1]
    assert isinstance(end, Ended)
    assert (end.attempt, end.cause) == (6, Cause.NODE)
    story.journal.full = ""
    story.wait(RETRY)
    assert sum(isinstance(each, End) for each in story.steps) == 2
    assert story.loop.next_due() is None


def test_an_attempt_whose_device_is_gone_is_a_failed_start() -> None:
    """Its node came back without the device after the attempt was placed there."""
    story = Story()
    story.loop.connect(Inventory(boot="b", pid=1))
    has = (Device(kind="gpu", id="0"), Device(kind="gpu", id="1"))
    story.obey(Devices(has[:1]))
    gpus = tuple(Allocated(each.kind, each.id, 1000) for each in has)
    launches = (Launch(5, 1, 0, devices=gpus[:1]), Launch(6, 1, 1, devices=gpus[1:]), Launch(7, 1, 2, devices=gpus))
    story.obey(Launches(epoch=1, runs=(RUN,), launches=launches))
    running, *gone = sorted(story.reports, key=lambda each: each.attempt)
    assert isinstance(running, Started)
    assert running.attempt == 5
    for attempt, report in zip((6, 7), gone, strict=True):
        assert isinstance(report, Ended)
        # The node lacks it: the job is not blamed, and its task is tried again.
        assert (report.attempt, report.cause) == (attempt, Cause.NODE)
        assert report.error == "task failed to start: device gpu 1 no longer exists"
    # It is durable, and a repeated order starts nothing.
    story.obey(Devices(has), Launches(epoch=1, runs=(RUN,), launches=launches[1:2]))
    assert "spawn 6" not in story.steps


def test_a_message_that_cannot_be_read_ends_the_connection() -> None:
    story = Story()
    story.loop.connect(Inventory(boot="b", pid=1))
    story.loop.receive(b"\xc1")
    assert story.hung_up
    assert story.said[0].startswith("the agent sent an invalid message and was disconnected")


def test_a_leaving_supervisor_waits_a_moment_for_confirmations() -> None:
    for confirmed in (True, False):
        story = Story()
        story.loop.connect(Inventory(boot="b", pid=1))
        story.launch(5)
        story.obey(Shutdown(grace=0))
        story.loop.turn()
        assert story.reports[-1].attempt == 5
        assert any(isinstance(each, Reports) and each.leaving for each in story.steps)
        assert not story.loop.over
        if confirmed:
            story.obey(Durable(epoch=1, attempts=(5,)))
        else:
            story.wait(LAST_WORDS)
        assert story.loop.over


def test_without_an_agent_a_leaving_supervisor_ends_at_once() -> None:
    story = Story()
    story.launch(5)
    story.loop.manager.leave(0)
    story.loop.turn()
    assert story.loop.over


# --- start material ---------------------------------------------------------------------------------------------------

MATERIAL = StartMaterial(environment={"PASSWORD": b"hunter2"})


def wants(story: Story, attempt: int) -> None:
    """Launch an attempt that waits for its start material."""
    run = Run(job=1, command=("x",), secrets=(SecretUse(name="PASSWORD", secret="db"),))
    story.loop.connect(Inventory(boot="b", pid=1))
    story.obey(Greeting(protocol=PROTOCOL), Welcome(epoch=1))
    story.obey(Launches(epoch=1, runs=(run,), launches=(Launch(attempt, 1, 0),)))


def asks(story: Story) -> list[AskMaterial]:
    return [each for each in story.steps if isinstance(each, AskMaterial)]


def test_an_attempt_starts_when_its_material_has_come() -> None:
    story = Story()
    wants(story, 7)
    assert asks(story) == [AskMaterial(epoch=1, attempts=(7,))]
    assert "spawn 7" not in story.steps
    story.obey(Material(epoch=1, attempt=7, material=MATERIAL))
    assert story.steps.count("spawn 7") == 1
    # Neither a second answer nor a new connection starts it once more, or asks again.
    story.obey(Material(epoch=1, attempt=7, material=MATERIAL), Welcome(epoch=2))
    assert story.steps.count("spawn 7") == 1
    assert len(asks(story)) == 1
    assert not any("hunter2" in repr(each) for each in (*story.steps, story.journal.known.running, *story.said))
    assert story.loop.manager.tasks[7].material == StartMaterial()


def test_it_is_asked_for_again_after_a_new_welcome_of_whichever_center() -> None:
    story = Story()
    wants(story, 7)
    story.loop.disconnected()
    story.loop.connect(Inventory(boot="b", pid=1))
    story.obey(Greeting(protocol=PROTOCOL))
    assert len(asks(story)) == 1
    story.obey(Welcome(epoch=2))
    assert asks(story)[1] == AskMaterial(epoch=2, attempts=(7,))
    # The answer of the center before is too late.
    story.obey(Material(epoch=1, attempt=7, material=MATERIAL))
    assert "spawn 7" not in story.steps
    story.obey(Material(epoch=2, attempt=7, material=MATERIAL))
    assert "spawn 7" in story.steps


def test_an_attempt_whose_material_does_not_come_ends_and_is_no_failure_of_its_job() -> None:
    story = Story()
    wants(story, 7)
    story.wait(MATERIAL_PATIENCE - 1)
    assert story.reports == []
    story.wait(1)
    (end,) = story.reports
    assert isinstance(end, Ended)
    assert (end.cause, end.error) == (Cause.NODE, NO_MATERIAL)
    story.obey(Material(epoch=1, attempt=7, material=MATERIAL))
    assert "spawn 7" not in story.steps


def test_a_supervisor_without_tasks_and_agent_ends_itself_and_its_journal_keeps_the_ends() -> None:
    story = Story()

    def wait(length: int) -> None:
        story.loop.clock(story.loop.manager.now + length, story.loop.manager.utc + length)
        story.loop.turn()

    story.loop.connect(Inventory(boot="b", pid=1))
    story.launch(5)
    wait(2 * ALONE)
    assert not story.loop.over
    story.loop.disconnected()
    wait(2 * ALONE)
    assert not story.loop.over, "it has a task"
    story.exits(5)
    assert story.loop.next_due() == story.loop.manager.now + ALONE
    wait(ALONE - 1)
    assert not story.loop.over
    # A new agent comes, and goes.
    story.loop.connect(Inventory(boot="b", pid=1))
    wait(2 * ALONE)
    assert not story.loop.over
    story.loop.disconnected()
    wait(1)
    wait(ALONE)
    assert story.loop.over
    assert story.said == ["there have been no tasks and no agent for 60 s"]
    assert list(story.journal.known.ends) == [5]


def test_strangers_are_told_of_when_they_change_and_to_each_new_agent() -> None:
    story = Story()
    hidden = Strangers(processes=(HiddenProcess(7, 1, "sleep", "it ends with attempt 1 or 2"),))
    story.strange = hidden
    story.loop.turn()
    assert hidden not in story.steps, "there is no agent"
    for _ in range(2):
        story.loop.connect(Inventory(boot="b", pid=1))
        story.loop.turn()
        assert hidden not in story.steps, "an agent of an earlier release would not know the message"
        story.obey(Greeting(protocol=PROTOCOL))
        story.loop.turn()
        story.loop.turn()
        assert [step for step in story.steps if isinstance(step, Strangers)] == [hidden]
        story.steps.clear()
    story.strange = Strangers()
    story.loop.turn()
    assert Strangers() in story.steps


def ends(story: Story) -> list[Ended]:
    """The ends in the journal."""
    return [record.report for record in story.steps if isinstance(record, End)]


def test_a_time_limit_that_has_changed_holds_also_for_the_next_supervisor() -> None:
    story = Story()
    story.obey(Launches(epoch=1, runs=(LIMITED,), launches=(Launch(7, 1, 0), Launch(8, 1, 1))))
    story.obey(TimeLimits(epoch=1, limits=(TimeLimit(7, 60 * SECOND), TimeLimit(99, SECOND))))
    story.wait(20 * SECOND)
    story.wait(SECOND)
    assert [(end.attempt, end.cause) for end in ends(story)] == [(8, Cause.TIME_LIMIT)]
    after = Story()
    kept = [record for record in story.journal.known.records() if not isinstance(record, End)]
    for record in decode_records(encode_records(kept)):
        after.journal.known.apply(record)
    assert after.journal.known.running[7].intent.limit == 60 * SECOND
    assert after.journal.known.running[7].start is not None


def test_a_task_without_a_time_limit_can_get_one_and_lose_it_again() -> None:
    story = Story()
    story.launch(7, 8)
    story.wait(5 * SECOND)
    story.obey(TimeLimits(epoch=1, limits=(TimeLimit(7, 8 * SECOND), TimeLimit(8, 8 * SECOND))))
    story.obey(TimeLimits(epoch=1, limits=(TimeLimit(8, None),)))
    story.wait(2 * SECOND)
    assert not ends(story)
    story.wait(2 * SECOND)
    story.wait(2 * SECOND)
    assert [end.attempt for end in ends(story)] == [7]


def test_limits_of_an_older_epoch_are_passed_over() -> None:
    story = Story()
    story.launch(7)
    story.obey(TimeLimits(epoch=0, limits=(TimeLimit(7, SECOND),)))
    story.wait(5 * SECOND)
    assert not ends(story)
