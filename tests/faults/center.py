"""The center: the commit loop and the sessions that the program drives with asyncio, driven in virtual time.

Between any two of their effects the center may be killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cress.center.keeping.recovery import begin_epoch, load_machine
from cress.center.process.clock import Clock
from cress.center.settings import CenterSettings
from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import Input
from cress.lifecycle.machine import Machine
from cress.lifecycle.slices import Slices
from cress.model.node import Local, Node
from cress.model.run import Run
from cress.model.times import MILLISECOND, SECOND
from cress.protocol.messages import Beat, FromAgent, Hello, Reports
from cress.shell.center.commit import CommitLimits, CommitLoop, InputCall
from cress.shell.center.effects import (
    AnswerCaller,
    AskEpoch,
    Close,
    Commit,
    Effect,
    Ping,
    Refuse,
    Reply,
    Send,
    Session,
    Stepped,
    TakeOver,
    TakeSnapshot,
    Wait,
    Warn,
    Work,
)
from cress.shell.center.session import Sessions, decoded
from cress.store.base import Batch, Fenced, StateSnapshot, StoreError
from tests.faults.network import PING, End
from tests.faults.store import Access
from tests.faults.world import Died, Mortal

if TYPE_CHECKING:
    from tests.faults.cluster import Cluster
    from tests.faults.host import Host
    from tests.faults.shared_store import SharedStore

Then = Callable[[Reply], None]

HELLO_TIMEOUT = 10 * SECOND
ALIVE_TIMEOUT = 2 * SECOND
# Of the steps, those that a machine that was restored right before does too.
TWINS = 0.02
PING_EVERY, LEAST_PING = 20 * SECOND, 2 * SECOND


class Caller:
    """A person who waits for the reply to an input."""

    def __init__(self, then: Then, refused: Callable[[str], None]) -> None:
        self.then = then
        self.refused = refused


class Center(Mortal):
    """One run of a center."""

    def __init__(
        self, cluster: Cluster, number: int, *, doom: int, host: Host | None = None, store: SharedStore | None = None
    ) -> None:
        super().__init__(cluster.world, f"center {number}")
        self.cluster = cluster
        self.host = host or cluster.host
        self.doom = doom
        self.store: Access | SharedStore = store or Access(cluster.store, self)
        self.settings = CenterSettings(data=Path("/center"), options=cluster.options, dimensions=cluster.dimensions)
        self.clock = Clock(self.host.boot, boottime=self.host.boottime, wall=self.host.wall)
        self.loop = (_Hasty if cluster.rules.acknowledges_first else _Watched)(self)
        self.sessions = _WatchedSessions(self)
        self.conversations: dict[Session, Conversation] = {}
        self.steps = 0
        self._busy = True
        self._planned = -1
        self.world.after(self.world.between(50 * MILLISECOND, SECOND), self, self._start)

    def _start(self) -> None:
        self._work()

    def may_confirm(self) -> bool:
        """Return whether terms may be confirmed: no other center can lead at this moment."""
        return True

    @property
    def machine(self) -> Machine | None:
        """The machine, once there is one."""
        return getattr(self.loop, "machine", None)

    @property
    def problem(self) -> str:
        """Why nothing can be stored."""
        return "gone" if self.gone else self.loop.problem

    # --- inputs ----------------------------------------------------------------------------------------------

    def submit(self, what: Input, runs: tuple[Run, ...], then: Then, refused: Callable[[str], None]) -> None:
        """Take the call of a person."""
        if self.loop.post(InputCall(what, runs, caller=Caller(then, refused))):
            self._wake()
        else:
            refused(self.problem)

    def post(self, what: Input, then: Then | None = None) -> bool:
        """Take an input of nobody who waits; ``then`` is called when it is stored, and never if it is not."""

        def stored(reply: Reply) -> Sequence[Effect]:
            if then is not None:
                then(reply)
            return ()

        if self.gone or not self.loop.post(InputCall(what, then=stored)):
            return False
        self._wake()
        return True

    # --- the loop --------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._busy:
            self._busy = True
            self.world.after(self.world.moment(), self, self._work)

    def _due(self, planned: int) -> None:
        if planned == self._planned:
            self._planned = -1
            self._wake()

    def _work(self) -> None:
        """Do what the commit loop asks for; a commit takes its time."""
        now = self.clock.now()
        self._act(self.loop.next(now, self.clock.utc()), now)

    def _act(self, work: Work, now: int) -> None:
        match work:
            case Wait():
                self._busy = False
                if work.until is not None and work.until != self._planned:
                    self._planned = work.until
                    self.world.after(work.until - now, self, self._due, work.until)
            case Commit():
                self.carry_out(self.loop.early)
                self._put(work.batch)
            case TakeSnapshot():
                self._snapshot(work)
            case TakeOver():
                self._load()

    def _put(self, batch: Batch) -> None:
        delay = self.world.random.randint(100, self.cluster.commit_time)
        self.world.after(delay, self, self._commit, batch)

    def _go_on(self) -> None:
        self._busy = False
        self._wake()

    def _commit(self, batch: Batch) -> None:
        try:
            self.store.commit(batch, self.loop.epoch)
        except Died:
            self.die()
        except Fenced as error:
            self._step_back(error)
        except StoreError as error:
            self._fail(error)
        else:
            self._stored()

    def _stored(self) -> None:
        effects = self.loop.committed()
        self.cluster.check(self.loop.machine, thoroughly=self.steps % self.cluster.check_every == 0)
        self.carry_out(effects)
        if not self.gone:
            self._go_on()

    def _snapshot(self, work: TakeSnapshot) -> None:
        """Store the state as it is now, while steps go on."""
        delay = self.world.between(MILLISECOND, SECOND)
        self.world.after(delay, self, self._store_snapshot, work, self.loop.epoch, self.loop.machine.export())
        self._go_on()

    def _store_snapshot(self, work: TakeSnapshot, epoch: int, state: bytes) -> None:
        try:
            self.store.snapshot(StateSnapshot(work.number, state, work.meta), epoch)
        except Died:
            self.die()
        except StoreError:
            # A center that was replaced hears it from its next commit.
            self.loop.snapshot_failed(work)
        else:
            self.loop.snapshot_stored(work, len(state))

    def _step_back(self, error: Fenced) -> None:
        """Refuse everybody; the program would go on for readers, here it ends."""
        self.carry_out(self.loop.fenced(str(error)))
        self.still_leads()

    def _fail(self, error: StoreError) -> None:
        self.say("cannot store:", error)
        self.carry_out(self.loop.commit_failed(str(error)))
        if not self.gone:
            self._load()

    def _load(self) -> None:
        self._busy = True
        try:
            opened = load_machine(self.store, self.settings, self.clock)
            self.cluster.truth.check_center(opened.machine, self.cluster.store, thoroughly=False)
            self.loop.restored(opened.machine)
            begin_epoch(self.store, opened, self.settings, self.clock)
        except Died:
            self.die()
        except StoreError as error:
            self.loop.load_failed(str(error), self.clock.now())
        else:
            self.cluster.outside.forgets_load()
            self.carry_out(self.loop.began(opened))
            if self.gone:
                return
            self.say("begins epoch", self.loop.epoch, "with jobs", list(opened.machine.jobs))
            self.cluster.check(opened.machine, thoroughly=True)
        if not self.gone:
            self._go_on()

    # --- effects ---------------------------------------------------------------------------------------------

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out effects in their order; between any two the center may be killed."""
        try:
            for effect in effects:
                self.point("between effects")
                self._carry_out(effect)
        except Died:
            self.die()
        if self.loop.busy and not self.gone:
            self._wake()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                data = effect.session.dialect.encode(effect.message)
                if data is not None:
                    self._to(effect.session).put(data)
            case Close():
                self._to(effect.session).close(effect)
            case Ping():
                self._to(effect.session).ask(self._to(effect.rival))
            case AskEpoch():
                self.ask_epoch(effect.session)
            case AnswerCaller():
                assert isinstance(effect.caller, Caller)
                effect.caller.then(effect.reply)
            case Refuse():
                assert isinstance(effect.caller, Caller)
                effect.caller.refused(effect.why)
            case Warn():
                self.say(effect.sentence)
            case Stepped():
                pass

    def ask_epoch(self, session: Session) -> None:
        """Ask the store for its newest epoch; a center that was replaced ends here, the program goes on for readers."""
        newest = self.store.newest_epoch()
        self.carry_out(self.sessions.compared(session, newest))
        self.still_leads()

    def _to(self, session: Session) -> Conversation:
        return self.conversations[session]

    def decides(self) -> None:
        """It makes a step."""

    def still_leads(self) -> bool:
        """Return whether it leads; it ends when another center has taken over."""
        if not self.gone and self.store.replaced:
            self.say("does not lead any more")
            self.die()
        return not self.gone

    def die(self) -> None:
        """The process is gone; the kernel closes its connections."""
        self.gone = True
        for end in list(self.host.ends):
            if end.owner is self:
                end.close()
        self.cluster.center_gone(self)


class _Watched(CommitLoop):
    """A commit loop whose steps and orders are watched."""

    def __init__(self, center: Center) -> None:
        limits = CommitLimits(most_records=center.cluster.most_records)
        super().__init__(center.store.run, center.clock.save, limits)
        self.center = center
        self.early: Sequence[Effect] = ()

    def _step(self, now: int, utc: int, inputs: Sequence[Input]) -> Slices[StepResult]:
        center, truth = self.center, self.center.cluster.truth
        center.decides()
        twin = Machine.restore(self.machine.export()) if center.world.aside.random() < TWINS else None
        step = yield from super()._step(now, utc, inputs)
        if twin is not None:
            truth.check_twin(step, twin.step(now, utc, inputs))
        center.steps += 1
        # What a center decides that has been replaced is never stored; its attempts may have the numbers of others.
        for attempt in () if center.store.replaced else step.launches:
            truth.decided(attempt, self.machine.jobs[attempt.job], self.machine.families)
        return step

    def _orders(self, step: StepResult) -> list[Send]:
        center, cluster = self.center, self.center.cluster
        for launch in step.launches:
            center.say("launches", launch.attempt, "for", (launch.job, launch.task), "on", launch.node)
        for halt in step.halts:
            center.say("halts", halt.attempt, "on", halt.node)
        launches = [cluster.rules.renamed(each, cluster.sent, cluster.truth.cores) for each in step.launches]
        return super()._orders(msgspec.structs.replace(step, launches=launches))


class _Hasty(_Watched):
    """Lets the effects of a step out before it is stored."""

    def next(self, now: int, utc: int, *, snapshot: bool = False) -> Work:
        """See ``CommitLoop``."""
        work = super().next(now, utc, snapshot=snapshot)
        self.early = ()
        if self._round is not None:
            self.early = super()._effects(self._round.calls, self._round.inputs, self._round.step)
        return work

    def _effects(self, calls: Sequence[InputCall], inputs: Sequence[Input], step: StepResult) -> list[Effect]:
        return []


class _WatchedSessions(Sessions):
    """Sessions that tell the world outside whose load is no longer known."""

    def __init__(self, center: Center) -> None:
        super().__init__(center.loop, "one", center.may_confirm)
        self.cluster = center.cluster

    def hello(self, session: Session, message: FromAgent | None, now: int, local: Local | None = None) -> list[Effect]:
        """See ``Sessions``."""
        if self.cluster.rules.no_fencing and isinstance(message, Hello):
            message = msgspec.structs.replace(message, epoch=0)
        return super().hello(session, message, now, local)

    def _join(self, session: Session, node: Node, local: Local | None, now: int) -> list[Effect]:
        self.cluster.outside.forgets_load(session.name)
        return super()._join(session, node, local, now)

    def _leave(self, session: Session) -> None:
        if self.loop.present.get(session.name) is session:
            self.cluster.outside.forgets_load(session.name)
        super()._leave(session)

    def received(self, session: Session, message: FromAgent, now: int) -> list[Effect]:
        """See ``Sessions``."""
        if isinstance(message, Reports) and message.leaving:
            self.cluster.outside.forgets_load(session.name)
        return super().received(session, message, now)


class Conversation:
    """A connection to an executor, from its hello to its end."""

    def __init__(self, center: Center, end: End) -> None:
        self.center = center
        self.world = center.world
        self.end = end
        self.session = Session()
        self.rivals: list[Conversation] = []  # those who ask whether this one is alive
        self._greeted = False
        self._ponged = True
        self._gone = False
        self._ending: Close | None = None
        self._waiting: list[bytes] = []
        options = center.cluster.parsed_options
        self._ping_every = max(LEAST_PING, min(PING_EVERY, options.term // 3))
        center.conversations[self.session] = self
        end.on_message = self._received
        end.on_close = self._over
        end.on_pong = self._pong
        self.world.after(HELLO_TIMEOUT, center, self._no_hello)
        self.world.after(self._ping_every, center, self._ping)

    # --- what arrives ----------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        center, message = self.center, decoded(data, self.session)
        if message is None:
            return
        now = center.clock.now()
        if not self._greeted:
            self._greeted = True
            center.carry_out(center.sessions.hello(self.session, message, now))
        elif not isinstance(message, Beat) or center.still_leads():
            center.carry_out(center.sessions.received(self.session, message, now))

    def _no_hello(self) -> None:
        if not self._greeted:
            self.end.close()

    def ask(self, rival: Conversation) -> None:
        """Find out whether the executor is alive, for somebody who has its name."""
        self.rivals.append(rival)
        self.end.send(PING)
        self.world.after(ALIVE_TIMEOUT, self.center, self._pinged, rival, False)

    def _pinged(self, rival: Conversation, alive: bool) -> None:
        if rival in self.rivals:
            self.rivals.remove(rival)
            now = self.center.clock.now()
            self.center.carry_out(self.center.sessions.pinged(rival.session, self.session, now, alive=alive))

    # --- what leaves -----------------------------------------------------------------------------------------

    def put(self, data: bytes) -> None:
        """Send a message soon."""
        if self._ending is None:
            self._waiting.append(data)
            self.world.after(self.world.moment(), self.center, self._flush)

    def close(self, ending: Close) -> None:
        """Close the connection, behind the messages that wait."""
        if self._ending is None:
            self._ending = ending
            self.world.after(self.world.moment(), self.center, self._flush)

    def hang_up(self) -> None:
        """Close the connection at once, with what waits."""
        self.end.close()
        self._over()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.end.send(data)
        if self._ending is not None:
            self.end.close()
            self._over()

    def _ping(self) -> None:
        if self.end.open:
            self._ponged = False
            self.end.send(PING)
            self.world.after(self._ping_every, self.center, self._dead)
            self.world.after(self._ping_every, self.center, self._ping)

    def _pong(self) -> None:
        self._ponged = True
        for rival in list(self.rivals):
            self._pinged(rival, alive=True)

    def _dead(self) -> None:
        if not self._ponged and self.end.open:
            self.end.close()
            self._over()

    def _over(self) -> None:
        if self._gone:
            return
        self._gone = True
        self.center.carry_out(self.center.sessions.gone(self.session))
        for rival in list(self.rivals):
            self._pinged(rival, alive=False)
