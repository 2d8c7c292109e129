"""The center's loops without a disk or a socket: what goes on while nothing can be stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cress.lifecycle.inputs import Restarted, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.slices import whole
from cress.model.job import Job
from cress.model.options import Options
from cress.model.reports import Started
from cress.model.resources import Dimensions
from cress.model.run import Run, SecretUse
from cress.model.times import SECOND
from cress.protocol.messages import (
    OLDEST,
    PROTOCOL,
    AskMaterial,
    Beat,
    FromCenter,
    Hello,
    Launches,
    Material,
    Refused,
    Reports,
    Term,
    Welcome,
)
from cress.shell.center.commit import CommitLoop, InputCall, Opened
from cress.shell.center.effects import (
    AskEpoch,
    Close,
    Commit,
    Effect,
    Refuse,
    Send,
    Session,
    Supply,
    TakeOver,
    Wait,
    Warn,
)
from cress.shell.center.events import Events
from cress.shell.center.session import Sessions

UTC = 1_700_000_000 * SECOND
# Only centers know it.
FULL = "the store cannot be written: database or disk is full"


class Center:
    """A commit loop and its sessions, driven by hand; ``stored`` is the state after the last commit."""

    def __init__(self) -> None:
        self.now = 10 * SECOND
        self.loop = CommitLoop(lambda _: None, lambda *_: b"")
        self.sessions = Sessions(self.loop, "one")
        self.epoch = 1
        machine = Machine(Dimensions(), Options())
        machine.step(self.now, UTC + self.now, (Restarted(epoch=1),))
        self.stored = machine.export()
        self.loop.began(self.opened(machine))

    def opened(self, machine: Machine | None = None) -> Opened:
        return Opened(
            machine=machine or Machine.restore(self.stored), events=Events(), records=[], number=0, epoch=self.epoch,
            cluster="c1", snapshot_size=1, log_size=0, log_count=0,
        )  # fmt: skip

    def work(self) -> list[Effect]:
        """Make the steps that are due, and store them."""
        effects: list[Effect] = []
        for _ in range(10):
            self.now += 1000
            work = self.loop.next(self.now, UTC + self.now)
            if not isinstance(work, Commit):
                assert isinstance(work, Wait)
                break
            effects += self.loop.committed()
        self.stored = self.loop.machine.export()
        return effects

    def fail(self) -> list[Effect]:
        """Make a step that cannot be stored."""
        self.now += 1000
        assert isinstance(self.loop.next(self.now, UTC + self.now), Commit)
        return self.loop.commit_failed(FULL)

    def begin(self) -> list[Effect]:
        """Load what is stored, and begin a new epoch."""
        self.now += 1000
        assert isinstance(self.loop.next(self.now + 2 * SECOND, UTC), TakeOver)
        opened = self.opened()
        self.loop.restored(opened.machine)
        self.epoch = opened.epoch = self.epoch + 1
        opened.machine.step(self.now, UTC + self.now, (Restarted(epoch=self.epoch),))
        self.stored = opened.machine.export()
        return self.loop.began(opened)

    def hello(
        self, name: str, epoch: int = 0, protocol: tuple[int, int] = PROTOCOL, **more: Any
    ) -> tuple[Session, list[Effect]]:
        session = Session(has_sent_token=False)
        hello = Hello(
            version=1, name=name, resource="<4, 8G>", boot="b", bound=True, protocol=protocol, oldest=OLDEST,
            sent=7, epoch=epoch, cluster="c1", **more,
        )  # fmt: skip
        return session, self.sessions.hello(session, hello, self.now)

    def submit(self, caller: object = None) -> None:
        job = Job(id=0, group="", request=(1000, 0, 0, 0, 0, 0, 0), user="ann")
        self.loop.post(InputCall(Submit(jobs=(job,)), [Run(job=0, command=("true",))], caller=caller))

    def beat(self, session: Session) -> list[FromCenter]:
        self.now += SECOND
        return sent(self.sessions.received(session, Beat(sent=self.now), self.now), session)


def sent(effects: Sequence[Effect], session: Session) -> list[FromCenter]:
    return [each.message for each in effects if isinstance(each, Send) and each.session is session]


def closed(effects: Sequence[Effect]) -> list[Session]:
    return [each.session for each in effects if isinstance(each, Close)]


@pytest.fixture
def center() -> Center:
    return Center()


@pytest.fixture
def n1(center: Center) -> Session:
    session, effects = center.hello("n1")
    assert effects == []
    center.submit()
    (welcome, launches) = sent(center.work(), session)
    assert isinstance(welcome, Welcome)
    assert isinstance(launches, Launches)
    return session


def test_terms_are_confirmed_while_nothing_can_be_stored(center: Center, n1: Session) -> None:
    center.submit(caller="ann")
    effects = center.fail()
    assert closed(effects) == []
    assert [each.why for each in effects if isinstance(each, Refuse)] == [FULL]
    for _ in range(3):
        # As often as it takes: the state is loaded, and its epoch cannot begin.
        assert isinstance(center.loop.next(center.now, UTC), TakeOver)
        center.loop.restored(Machine.restore(center.stored))
        center.loop.load_failed(FULL, center.now)
        (term,) = center.beat(n1)
        assert isinstance(term, Term)
        assert term.term > 0
        center.now += 20 * SECOND
    assert not center.loop.post(InputCall(Restarted(epoch=9)))


def test_it_gives_no_orders_and_keeps_no_report_while_nothing_can_be_stored(center: Center, n1: Session) -> None:
    center.submit()
    center.fail()
    effects = center.sessions.received(n1, Reports(reports=(Started(attempt=1, at=UTC, pid=7),)), center.now)
    # The executor keeps its reports, since nothing says that they are durable.
    assert effects == []
    assert not n1.closed
    assert center.loop.joined == {}


def test_an_epoch_that_an_executor_names_changes_nothing_until_the_store_is_asked(center: Center) -> None:
    rival, effects = center.hello("n2", epoch=2)
    assert effects == [AskEpoch(rival)]
    assert center.loop.problem == ""
    # Here the store has the epoch that this center began and could not store anything in.
    center.submit()
    center.fail()
    (refused,) = sent(center.sessions.compared(rival, 2), rival)
    assert isinstance(refused, Refused)
    assert not refused.permanent
    assert not center.loop.is_replaced
    center.begin()
    rival, _ = center.hello("n2", epoch=3)
    (refused,) = sent(center.sessions.compared(rival, 2), rival)
    assert isinstance(refused, Refused)
    assert "this center, the newest one by its store, has epoch 2" in refused.what
    for newest in (None, 3):
        rival, _ = center.hello("n2", epoch=3)
        effects = center.sessions.compared(rival, newest)
        assert isinstance(sent(effects, rival)[0], Refused)
        assert center.loop.is_replaced is (newest == 3)


def test_an_epoch_that_the_store_does_not_know_is_refused_alone(center: Center) -> None:
    rival, effects = center.hello("n2", epoch=9, witness=b"x" * 90)
    assert effects == [AskEpoch(rival)]
    (refused,) = sent(center.sessions.compared(rival, center.epoch), rival)
    assert isinstance(refused, Refused)
    assert "without the proof of a center" in refused.what
    assert center.loop.problem == ""


def test_when_it_can_store_again_the_executors_register_anew_and_no_term_was_in_vain(
    center: Center, n1: Session
) -> None:
    center.submit()
    center.fail()
    center.beat(n1)
    granted = n1.granted
    effects = center.begin()
    assert closed(effects) == [n1]
    assert center.loop.problem == ""
    # What was granted meanwhile is over before the node is called lost.
    assert center.loop.machine.terms.granted["n1"] >= granted
    center.sessions.gone(n1)
    again, _ = center.hello("n1", epoch=1)
    assert any(isinstance(each, Welcome) for each in sent(center.work(), again))
    assert center.loop.joined == {"n1": again}


def test_an_executor_that_connects_meanwhile_has_its_terms_confirmed_if_its_node_is_stored(
    center: Center, n1: Session
) -> None:
    center.submit()
    center.fail()
    center.sessions.gone(n1)
    again, effects = center.hello("n1", epoch=1)
    (welcome,) = sent(effects, again)
    assert isinstance(welcome, Welcome)
    assert (welcome.epoch, welcome.term > 0) == (1, True)
    assert isinstance(center.beat(again)[0], Term)
    fresh, effects = center.hello("n2")
    (refused,) = sent(effects, fresh)
    assert isinstance(refused, Refused)
    assert (FULL in refused.what, refused.permanent) == (True, False)
    assert closed(center.begin()) == [again]


@pytest.mark.usefixtures("n1")
def test_a_center_that_was_killed_meanwhile_starts_read_only_and_confirms_terms(center: Center) -> None:
    after = Center()
    after.stored, after.now = center.stored, center.now
    loop = after.loop = CommitLoop(lambda _: None, lambda *_: b"")
    after.sessions = Sessions(loop, "one")
    loop.started_read_only(after.opened(), FULL, after.now)
    session, effects = after.hello("n1", epoch=1)
    (welcome,) = sent(effects, session)
    assert isinstance(welcome, Welcome)
    assert isinstance(after.beat(session)[0], Term)
    assert isinstance(loop.next(after.now, UTC), TakeOver)
    assert closed(after.begin()) == [session]
    assert loop.epoch == 2


def test_an_executor_that_was_not_welcomed_yet_connects_again(center: Center) -> None:
    session, _ = center.hello("n3")
    assert closed(center.fail()) == [session]


def test_a_step_whose_callers_were_refused_at_a_pause_is_not_stored(center: Center) -> None:
    """Found by a history of two centers: the step was stored in the epoch of the next center."""
    job = Job(id=0, name="j", user="u", group="", request=Dimensions().vector(cpu=1))
    for paused in range(1, 100):
        center.loop.post(InputCall(Submit(jobs=(job,)), [Run(job=0, command=("true",))], caller="someone"))
        slices = center.loop.slices(center.now, UTC + center.now)
        try:
            for _ in range(paused):
                next(slices)
        except StopIteration:
            break
        # Another center leads; what it has stored is shown.
        refused = center.loop.step_aside("this center stands by")
        assert [each.caller for each in refused if isinstance(each, Refuse)] == ["someone"]
        center.epoch += 1
        center.loop.show(center.opened())
        assert isinstance(whole(slices), Wait)
        assert not center.loop.committed()
        center.epoch += 1
        center.loop.began(center.opened())
    assert paused > 5


def test_no_term_is_confirmed_when_another_center_leads(center: Center, n1: Session) -> None:
    center.submit()
    center.now += 1000
    center.loop.next(center.now, UTC + center.now)
    assert closed(center.loop.fenced("another one")) == [n1]
    assert center.beat(n1) == []
    session, effects = center.hello("n1", epoch=1)
    assert all(isinstance(each, Refused) for each in sent(effects, session))


# --- start material ---------------------------------------------------------------------------------------------------


def ask(center: Center, session: Session, *attempts: int, epoch: int = 0) -> list[Effect]:
    message = AskMaterial(epoch=epoch or center.epoch, attempts=attempts)
    return center.sessions.received(session, message, center.now)


def test_start_material_is_sent_for_an_attempt_of_that_node_before_it_runs(center: Center, n1: Session) -> None:
    (attempt,) = center.loop.machine.attempts
    assert ask(center, n1, attempt, attempt) == [Supply(n1, (attempt,))]
    center.sessions.received(n1, Reports(reports=(Started(attempt=attempt, at=UTC, pid=7),)), center.now)
    center.work()
    (refusal,) = sent(ask(center, n1, attempt), n1)
    assert isinstance(refusal, Material)
    assert refusal.refused


@pytest.mark.usefixtures("n1")
def test_a_node_gets_no_start_material_of_another_node_or_of_no_attempt(center: Center) -> None:
    other, _ = center.hello("n2")
    center.work()
    (attempt,) = center.loop.machine.attempts
    effects = ask(center, other, attempt, 99)
    refusals = [each for each in sent(effects, other) if isinstance(each, Material)]
    assert [(each.attempt, bool(each.refused)) for each in refusals] == [(attempt, True), (99, True)]
    assert [type(each) for each in effects if not isinstance(each, Send)] == [Warn]


def test_start_material_is_sent_in_the_present_epoch_over_a_registered_session_only(
    center: Center, n1: Session
) -> None:
    (attempt,) = center.loop.machine.attempts
    assert ask(center, n1, attempt, epoch=7) == []
    center.loop.joined.clear()
    assert ask(center, n1, attempt) == []


def test_an_executor_that_does_not_ask_for_start_material_is_not_told_how_to_run_what_needs_it(center: Center) -> None:
    session, _ = center.hello("n1", protocol=(6, 0))
    job = Job(id=0, group="", request=(1000, 0, 0, 0, 0, 0, 0), user="ann")
    run = Run(job=0, command=("true",), secrets=(SecretUse(name="A", secret="a"),))
    center.loop.post(InputCall(Submit(jobs=(job,)), [run]))
    launches = sent(center.work(), session)[-1]
    assert isinstance(launches, Launches)
    assert (len(launches.launches), launches.runs) == (1, ())
