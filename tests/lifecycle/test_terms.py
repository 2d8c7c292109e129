"""Terms: what becomes of attempts whose node is not heard of; and that nothing is called lost that still runs."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.lifecycle.effects import Launch, StepResult
from cress.lifecycle.inputs import Input, NodeDead, NodeJoined, NodeLeft, Reported, Restarted, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.node_membership import DEAD, SILENT
from cress.lifecycle.tables.terms import Terms
from cress.model.events import Outcome
from cress.model.job import OnPartition
from cress.model.node import Device, Local, Supervisor
from cress.model.options import Options
from cress.model.reports import Cause, Report, Usage
from cress.model.run import Run
from cress.model.times import SECOND
from cress.protocol import messages
from cress.protocol.messages import Launches, Stop, Stops, Term, ToSupervisor, Welcome
from cress.shell.executor.node_devices import NodeDevices
from cress.shell.executor.records import Known, Record
from cress.shell.executor.task_manager import SIGKILL, Task, TaskManager
from tests.lifecycle.builders import DIMENSIONS, UTC_AT_START, World, ended, ids, job, launched, node, started

OPTIONS = Options(term=60 * SECOND, term_margin=5 * SECOND)
KEEP = OnPartition.KEEP


def joined(name: str, *reports: Report, terms: bool = True, local: Local | None = None) -> NodeJoined:
    return NodeJoined(node=node(name), boot="b", reports=reports, terms=terms, local=local)


def running(on_partition: OnPartition = OnPartition.STOP) -> World:
    """A job's only task runs on n1, and n2 has room for it."""
    world = World(OPTIONS)
    world.step(joined("n1"))
    world.submit(job(on_partition=on_partition))
    world.report("n1", started(1))
    world.step(joined("n2"))
    return world


def until(world: World, time: int) -> StepResult:
    """The step that is due at ``time``."""
    assert world.machine.next_wakeup() == time
    before = world.step(after=time - 1 - world.now)
    assert not before.attempts
    return world.step(after=1)


def test_a_task_on_a_silent_node_is_lost_a_margin_after_its_term_and_runs_elsewhere() -> None:
    world = running()
    granted = world.now + 30 * SECOND
    world.step(NodeLeft(name="n1", granted=granted))
    step = until(world, granted + 5 * SECOND)
    assert [(each.outcome, each.final, each.error) for each in step.attempts] == [(Outcome.LOST, False, SILENT)]
    assert launched(step) == [(1, 0, "n2")]
    assert world.machine.next_wakeup() is None


def test_a_node_that_is_back_in_time_goes_on() -> None:
    world = running()
    world.step(NodeLeft(name="n1", granted=world.now + 30 * SECOND))
    step = world.step(joined("n1", started(1)), after=34 * SECOND)
    assert (step.attempts, step.launches, step.halts) == ([], [], [])
    assert not world.step(after=3600 * SECOND).attempts


def test_what_was_replaced_is_stopped_when_its_node_is_back() -> None:
    world = running()
    world.step(NodeLeft(name="n1", granted=world.now + SECOND))
    world.step(after=10 * SECOND)
    step = world.step(joined("n1", started(1)))
    assert [(each.attempt, each.node, each.grace) for each in step.halts] == [(1, "n1", 0)]


def test_a_task_that_is_kept_waits_for_its_node() -> None:
    world = running(on_partition=KEEP)
    world.step(NodeLeft(name="n1", granted=world.now + SECOND))
    assert not world.step(after=3600 * SECOND).attempts
    assert not world.step(joined("n1", started(1))).halts
    assert world.report("n1", ended(1)).jobs


def test_a_node_that_was_never_granted_a_term_is_waited_for() -> None:
    world = World(OPTIONS)
    world.step(joined("n1", terms=False))
    world.submit(job())
    world.leave("n1")
    world.step(Restarted(epoch=2))
    assert not world.step(after=3600 * SECOND).attempts


def test_a_connection_that_came_to_nothing_does_not_shorten_the_term_before_it() -> None:
    world = running()
    granted = world.now + 50 * SECOND
    world.step(NodeLeft(name="n1", granted=granted))
    world.step(joined("n1", started(1)), after=10 * SECOND)
    world.step(NodeLeft(name="n1"))
    until(world, granted + 5 * SECOND)


def test_an_order_that_never_reached_its_node_is_placed_anew() -> None:
    world = World(OPTIONS)
    world.step(joined("n1"))
    world.submit(job())
    world.step(NodeLeft(name="n1"))
    until(world, world.now + 5 * SECOND)


def test_a_restarted_center_grants_everyone_a_full_term() -> None:
    world = running()
    world.step(Restarted(epoch=2), after=7 * SECOND)
    until(world, world.now + 65 * SECOND)


@pytest.mark.parametrize("term", [10, 100])
def test_after_a_restart_with_another_term_the_longer_one_counts(term: int) -> None:
    world = running()
    world.step(Restarted(epoch=2, options=Options(term=term * SECOND, term_margin=SECOND)))
    until(world, world.now + (max(60, term) + 5) * SECOND)


def test_a_cancelled_task_on_a_silent_node_is_cancelled() -> None:
    world = running()
    world.cancel(1)
    world.step(NodeLeft(name="n1", granted=world.now + SECOND))
    step = world.step(after=10 * SECOND)
    assert [each.outcome for each in step.attempts] == [Outcome.CANCELLED]
    assert [each.cancelled for each in step.jobs] == [1]


def test_a_task_that_its_node_stopped_at_the_end_of_its_term_runs_again() -> None:
    world = running()
    step = world.report("n1", ended(1, -15, Cause.TERM))
    assert [each.outcome for each in step.attempts] == [Outcome.LOST]
    assert len(step.launches) == 1


@pytest.mark.parametrize("keep", list(OnPartition))
def test_what_ran_on_a_dead_node_runs_elsewhere_whatever_its_job_says(keep: OnPartition) -> None:
    world = running(on_partition=keep)
    assert "node n1 is connected, so it cannot be declared dead" in world.refuse(NodeDead(name="n1"))
    world.step(NodeLeft(name="n1", granted=world.now + 60 * SECOND))
    step = world.step(NodeDead(name="n1"))
    assert [(each.outcome, each.error) for each in step.attempts] == [(Outcome.LOST, DEAD)]
    assert launched(step) == [(1, 0, "n2")]
    assert "n1" in world.machine.nodes


def test_a_forgotten_node_is_no_node_until_it_joins_again() -> None:
    world = running()
    world.leave("n1")
    world.step(NodeDead(name="n1", forget=True))
    assert list(world.machine.nodes) == ["n2"]
    assert "there is no node 'n1'" in world.refuse(NodeDead(name="n1"))
    assert ids(world.step(joined("n1", started(1))).halts) == [1]
    assert list(world.machine.nodes) == ["n2", "n1"]


def test_terms_survive_with_the_machine() -> None:
    world = running()
    there = Local(Supervisor(7, 8, "/x"), "m", "s")
    world.step(joined("n3", terms=False, local=there))
    granted = world.now + 60 * SECOND
    world.step(NodeLeft(name="n1", granted=granted))
    world.machine = Machine.restore(world.machine.export())
    assert world.machine.nodes["n3"].local == there
    assert [each.outcome for each in until(world, granted + 5 * SECOND).attempts] == [Outcome.LOST]


def test_nodes_run_out_in_the_order_of_their_times() -> None:
    terms = Terms()
    for name, granted in (("b", 20), ("a", 20), ("c", 10), ("d", 30)):
        terms.left(name, 0, granted, 1)
    assert (terms.next(), terms.run_out(10), terms.run_out(21), terms.next()) == (11, [], ["c", "a", "b"], 31)


# --- two clocks -------------------------------------------------------------------------------------------------------

TERM, MARGIN = 10 * SECOND, SECOND // 2
# Clocks of this difference in rate part by just less than twice the margin until an attempt is called lost: of two
# clocks one is this much too fast, the other this much too slow. A keeper that looks late by up to LATE has its part.
RATE = (MARGIN - SECOND // 20) / (TERM + MARGIN)
LATE = SECOND // 50


class Play:
    """A center and one executor that does what it is told at once, with a network that delays, cuts and forgets.

    Everything happens at true times; center and executor have clocks of their own, ``offset + rate · time``.
    """

    def __init__(self, seed: int, rates: tuple[float, float]) -> None:
        self.random = Random(seed)
        self.time = 0.0
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.count = itertools.count()
        self.rates = rates
        self.offsets = (self.random.randrange(10**12), self.random.randrange(10**12))
        self.machine = Machine(DIMENSIONS, Options(term=TERM, term_margin=MARGIN))
        self.keeper = TaskManager(Known(), self)
        self.alive: dict[int, bool] = {}  # what runs, and whether it minds SIGTERM
        self.lost: set[int] = set()
        self.reports: list[Report] = []  # what the agent does not know yet
        self.connection = 0  # the number of the last one; each side notices by itself when it is gone
        self.agent = self.center = 0
        self.granted = 0
        self.arrival = {"up": 0.0, "down": 0.0}
        self.cut = {"up": False, "down": False}

    # --- clocks ------------------------------------------------------------------------------------------------------

    def clock(self, which: int) -> int:
        return self.offsets[which] + int(self.time * self.rates[which])

    def at_clock(self, which: int, value: int) -> float:
        return max(self.time, (value - self.offsets[which] + 1) / self.rates[which])

    def after(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.due, (self.time + delay, next(self.count), action))

    def play(self, length: float) -> None:
        self.step(Restarted(epoch=1))
        self.step(Submit(jobs=(job(3), job(on_partition=KEEP))))
        self.connect()
        self.weather()
        while self.due and self.due[0][0] < length:
            self.time, _, action = heapq.heappop(self.due)
            action()
            both = self.lost & self.alive.keys()
            assert not both, f"attempts {both} are lost for the center, and run"

    def weather(self) -> None:
        """The network is well for a while, then it is not."""
        self.cut = {way: self.random.random() < 0.4 for way in self.cut}
        self.after(self.random.uniform(0, 3 * TERM), self.weather)

    # --- the network --------------------------------------------------------------------------------------------------

    def send(self, way: str, action: Callable[[], None]) -> None:
        """In order, late by up to a term, or never; what follows something lost is lost too."""
        if self.cut[way]:
            self.arrival[way] = float("inf")
        delay = self.random.choice((0.001, 0.01, 0.1, 0.5, 1.0)) * self.random.random() * TERM
        self.arrival[way] = max(self.arrival[way], self.time + delay)
        if self.arrival[way] < float("inf"):
            self.after(self.arrival[way] - self.time, action)

    def connect(self) -> None:
        """The agent begins a connection."""
        self.connection += 1
        number = self.agent = self.connection
        self.arrival = {"up": 0.0, "down": 0.0}
        sent, bound = self.clock(1), self.keeper.bound
        self.tell()
        reports = self.keeper.inventory()
        self.send("up", lambda: self.hello(number, sent, bound, reports))
        self.after(self.random.uniform(0, 2 * TERM), lambda: self.hang_up(number))

    def hang_up(self, number: int) -> None:
        """The agent finds its connection gone, whether it is or not; the center notices when it does."""
        if self.agent == number:
            self.agent = 0
            self.after(self.random.uniform(0, 2 * TERM), lambda: self.left(number))
            self.after(self.random.uniform(0, TERM), self.connect)

    # --- the center ---------------------------------------------------------------------------------------------------

    def step(self, *inputs: Input) -> None:
        now = self.clock(0)
        step = self.machine.step(now, UTC_AT_START + now, inputs)
        self.lost |= {each.attempt for each in step.attempts if each.error == SILENT}
        if step.launches:
            self.order(Launches(epoch=1, runs=tuple(run(each) for each in step.launches), launches=orders(step)))
        if step.halts:
            self.order(Stops(epoch=1, stops=tuple(Stop(each.attempt, each.grace or 0) for each in step.halts)))
        wakeup = self.machine.next_wakeup()
        if wakeup is not None:
            self.after(self.at_clock(0, wakeup) - self.time, self.wake)

    def wake(self) -> None:
        wakeup = self.machine.next_wakeup()
        if wakeup is not None and wakeup <= self.clock(0):
            self.step()

    def hello(self, number: int, sent: int, bound: bool, reports: tuple[Report, ...]) -> None:
        if self.center:
            self.left(self.center)
        if number < self.connection:
            return
        self.center, self.granted = number, self.clock(0) + TERM
        # As in the programs the welcome goes before what the step orders.
        self.order(Welcome(epoch=1, sent=sent, term=TERM - MARGIN))
        self.step(joined("n1", *reports, terms=bound))

    def beat(self, number: int, sent: int) -> None:
        if number == self.center:
            self.granted = self.clock(0) + TERM
            self.order(Term(epoch=1, sent=sent, term=TERM - MARGIN))

    def left(self, number: int) -> None:
        if number == self.center:
            self.center = 0
            self.step(NodeLeft(name="n1", granted=self.granted))

    def order(self, order: ToSupervisor) -> None:
        number = self.center
        if number:
            self.send("down", lambda: self.obey(number, order))

    # --- the executor -------------------------------------------------------------------------------------------------

    def obey(self, number: int, order: ToSupervisor) -> None:
        if number != self.agent:
            return
        self.set_clock()
        self.keeper.obey(order)
        self.look()
        if isinstance(order, Welcome):
            self.ask(number)

    def ask(self, number: int) -> None:
        if number == self.agent:
            sent = self.clock(1)
            self.send("up", lambda: self.beat(number, sent))
            self.after(TERM / 6 / self.rates[1], lambda: self.ask(number))

    def look(self) -> None:
        self.set_clock()
        self.keeper.tick()
        self.keeper.work(99)
        self.tell()
        due = self.keeper.next_due()
        if due is not None:
            self.after(self.at_clock(1, due) - self.time + self.random.uniform(0, LATE), self.look)

    def set_clock(self) -> None:
        self.keeper.now = self.clock(1)
        self.keeper.utc = UTC_AT_START

    def tell(self) -> None:
        number, reports, self.reports = self.agent, tuple(self.reports), []
        if reports and number:
            self.send("up", lambda: self.reported(number, reports))

    def reported(self, number: int, reports: tuple[Report, ...]) -> None:
        if number == self.center:
            self.step(Reported(node="n1", reports=reports))

    # The hands of the keeper.

    def write(self, records: list[Record]) -> None:
        for record in records:
            self.note(record)

    def note(self, record: Record) -> None:
        self.keeper.known.apply(record)

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        pass

    def want(self, attempts: Sequence[int]) -> None: ...

    def spawn(self, task: Task) -> int:
        self.alive[task.attempt] = self.random.random() < 0.5
        self.after(0, lambda: self.begin(task.attempt))
        return task.attempt

    def begin(self, attempt: int) -> None:
        if attempt in self.keeper.tasks and attempt in self.alive:
            self.set_clock()
            self.keeper.running(attempt, 1)
            self.look()

    def signal(self, task: Task, number: int) -> None:
        if task.attempt in self.alive and (number == SIGKILL or self.alive[task.attempt]):
            del self.alive[task.attempt]
            self.after(0, lambda: self.gone(task.attempt, -number))

    def gone(self, attempt: int, code: int) -> None:
        self.set_clock()
        self.keeper.exited(attempt, code, Usage())
        self.look()

    def sweep(self, task: Task, *, kill: bool) -> bool:
        return True

    def report(self, report: Report) -> None:
        self.reports.append(report)

    def say(self, sentence: str) -> None:
        raise AssertionError(sentence)


def run(launch: Launch) -> Run:
    keep = KEEP if launch.job == 2 else OnPartition.STOP
    return Run(job=launch.job, command=("x",), on_partition=keep, stop_grace=launch.attempt % 3 * SECOND)


def orders(step: StepResult) -> tuple[messages.Launch, ...]:
    return tuple(messages.Launch(each.attempt, each.job, each.task) for each in step.launches)


@given(
    seed=st.integers(0, 2**32),
    rates=st.sampled_from([(1.0, 1.0), (1 - RATE, 1 + RATE), (1 + RATE, 1 - RATE), (1 + RATE, 1.0)]),
)
def test_nothing_is_called_lost_that_still_runs(seed: int, rates: tuple[float, float]) -> None:
    Play(seed, rates).play(60 * TERM)


def test_the_play_loses_attempts_and_notices_clocks_that_differ_by_more_than_the_margin() -> None:
    assert some_plays((1.0, 1.0)) > 100
    with pytest.raises(AssertionError, match="are lost for the center, and run"):
        some_plays((1 + 2 * RATE, 1 - 2 * RATE))


def some_plays(rates: tuple[float, float]) -> int:
    """How many attempts are lost in sixty plays."""
    lost = 0
    for seed in range(60):
        play = Play(seed, rates)
        play.play(60 * TERM)
        lost += len(play.lost)
    return lost
