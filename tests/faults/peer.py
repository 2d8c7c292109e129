"""A center that shares its store with others: it leads or stands by.

Driven in virtual time as ``standby.py`` and ``failover.py`` in ``center/leader``, ``leader_election.py`` and
``committer.py`` in ``center/committing`` drive theirs with asyncio and threads; what they call is the program's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cress.center.committing.leader_election import Lapses
from cress.center.keeping.recovery import begin_epoch, load_machine
from cress.center.leader.standby import PASSING
from cress.center.leader.warm_replica import Warm
from cress.lifecycle.slices import Slices
from cress.model.times import MILLISECOND, SECOND
from cress.protocol.messages import Term
from cress.shell.center.commit import Opened
from cress.shell.center.effects import Effect, Send, Session, TakeSnapshot, Work
from cress.store.base import Batch, Changed, Checkpoint, Fenced, StateSnapshot, StoreError
from tests.faults.center import Center
from tests.faults.shared_store import CenterLog, SharedStore
from tests.faults.world import Died, Violation

if TYPE_CHECKING:
    from tests.faults.peers import Peers, Place

# As in the program: claims in a session, the part of it for which it is relied on, waiting times.
CLAIMS, RELIED = 6, 0.75
LOOK, RETRY = SECOND // 4, SECOND
PATIENCE = 6 * SECOND
# The part of the slices of a step after which it pauses.
PAUSES = 0.03

Then = Callable[[Any], None]


class Peer(Center):
    """One run of a center. ``leads``: it believes that it leads; ``warm`` is there while it stands by."""

    store: SharedStore

    def __init__(self, peers: Peers, place: Place, number: int, *, doom: int) -> None:
        log = CenterLog(peers.servers, f"center {number}")
        store = SharedStore(log, place.replica)
        super().__init__(peers.cluster, number, doom=doom, host=place.host, store=store)
        self.name = f"center {number} at {place.name}"
        self.log = log
        log.point = self.point
        store.loop_epoch = lambda: self.loop.epoch
        self.peers, self.place = peers, place
        self.leads = False
        self.warm: Warm | None = None
        # The lead: what its thread knows, and what the event loop was told.
        self._mine = self.is_mine = False
        self.leader: Peer | None = None
        self.until = 0
        self._lapses = Lapses()
        self._watched = 0
        self._waiting = -1  # for news, while it stands by; the number of the wait
        self._waits = 0
        self._opened: Opened | None = None  # is what is stored; its epoch could not begin
        self._jobs: deque[tuple[Callable[[], Any], Then]] = deque()
        self._thread_busy = False

    def _start(self) -> None:
        """The first look: load and show; then stand by."""
        self._busy = True

        def loaded(outcome: Any) -> None:
            if isinstance(outcome, StoreError):
                self.say("does not start:", outcome)
                self.die()
                return
            self._loaded(outcome)
            self.carry_out(self.loop.step_aside("this center stands by; try again"))
            self._go_on()
            self._claim()
            self._news(0)

        self.in_thread(self._load_machine, loaded)

    # --- the committing thread -----------------------------------------------------------------------------------

    def in_thread(self, work: Callable[[], Any], then: Then) -> None:
        """Do work with the store, one thing after the other; ``then`` gets its result, or the StoreError."""
        self._jobs.append((work, then))
        if not self._thread_busy:
            self._next_job()

    def _next_job(self) -> None:
        self._thread_busy = bool(self._jobs)
        if not self._jobs:
            return
        work, then = self._jobs.popleft()
        there, back = self.place.line.closed(0), self.place.line.closed(1)
        delay = self.world.between(100, self.cluster.commit_time)
        if there >= PATIENCE:
            fate = "late" if self.world.aside.random() < 0.3 else "dead"
            self.world.after(PATIENCE, None, self._do, work, then, fate, 0)
        else:
            # The answer waits, or is given up.
            fate = "unanswered" if back >= PATIENCE else ""
            self.world.after(there + delay, None, self._do, work, then, fate, min(PATIENCE, back) + delay)

    def _do(self, work: Callable[[], Any], then: Then, fate: str, back: int) -> None:
        """The servers do it, even if the center does not live any more or stands still."""
        if self.gone and self.world.aside.random() < 0.5:
            return
        self.log.fate = fate
        outcome: Any
        try:
            outcome = work()
        except Died:
            self.die()
            return
        except StoreError as error:
            outcome = error
        self.world.after(back, self, self._done, then, outcome)

    def _done(self, then: Then, outcome: Any) -> None:
        then(outcome)
        if not self.gone:
            self._next_job()

    def _load_machine(self) -> Opened:
        opened = load_machine(self.store, self.settings, self.clock)
        self.cluster.check(opened.machine, thoroughly=False, number=opened.number)
        return opened

    def _begin_epoch(self, opened: Opened) -> Opened:
        begin_epoch(self.store, opened, self.settings, self.clock)
        return opened

    # --- the lead --------------------------------------------------------------------------------------------

    def may_confirm(self) -> bool:
        """See ``LeaderElection.is_confirmed``."""
        return self.cluster.rules.late_terms or self.host.boottime() < self.until

    @property
    def _interval(self) -> int:
        return self.peers.servers.session // CLAIMS

    def _claim(self) -> None:
        """Claim the lead, or keep it; a write that the servers get now, or never."""
        line, begin = self.place.line, self.host.boottime()
        if line.closed(0):
            self.world.after(self.peers.servers.session // 2, self, self._not_claimed)
        else:
            self.world.after(self.world.moment(), None, self._claimed, begin)

    def _claimed(self, begin: int) -> None:
        if self.gone:
            return
        mine = self.peers.servers.claim(self)
        if self.place.line.closed(1):
            self.world.after(self.peers.servers.session // 2, self, self._not_claimed)
        else:
            self.world.after(self.world.moment(), self, self._heard, begin, mine, self.peers.servers.leader())

    def _heard(self, begin: int, mine: bool, leader: Peer | None) -> None:
        if self._mine and mine:
            self._lapses.claimed(self.host.boottime(), self.until)
        self._mine = mine
        self.until = begin + int(self.peers.servers.session * RELIED) if mine else 0
        self.world.after(self.world.moment(), self, self._told, mine, leader)
        self.world.after(self._interval, self, self._claim)

    def _not_claimed(self) -> None:
        self.world.after(self.world.moment(), self, self._told, self._mine, self if self._mine else None)
        self.world.after(self._interval, self, self._claim)

    def _told(self, mine: bool, leader: Peer | None) -> None:
        """The event loop hears of it."""
        if (mine, leader) == (self.is_mine, self.leader):
            return
        self.is_mine, self.leader = mine, leader
        if self.leads and not mine:
            self._step_aside()
        elif self.leads:
            self._watch_once()
        elif self._waiting >= 0:
            self._stand(self._waiting)

    def _watch(self) -> None:
        """See ``LeaderElection.watch``. The timers of a computer that slept have stood still: it may be late."""
        if not self.leads:
            return
        late = self.host.boottime() - self._watched > 2 * self._interval
        self._watched = self.host.boottime()
        if late and self.world.aside.random() < 0.5:
            self.world.after(self.world.aside.randint(0, self._interval), self, self._watch)
            return
        self._watch_once()
        self.world.after(self._interval, self, self._watch)

    def _watch_once(self) -> None:
        if self.loop.is_replaced:
            self._step_aside()
        elif self._lapses.noticed(valid=self.may_confirm()):
            self.say("may not lead any more")
            self.carry_out(self.loop.commit_failed("the servers of the store did not confirm in time that it leads"))
            if not self.gone:
                self._wake()

    # --- standing by -----------------------------------------------------------------------------------------

    def _news(self, delay: int) -> None:
        """Go on after so long, or when the lead changes hands."""
        self._waits += 1
        self._waiting = self._waits
        self.world.after(delay, self, self._stand, self._waiting)

    def _stand(self, number: int) -> None:
        """One round of ``Standby.until_it_leads``."""
        if number != self._waiting:
            return
        self._waiting = -1
        if self.warm is None:
            self.in_thread(self._load_machine, self._shown)
        elif self.is_mine and self.may_confirm():
            self.in_thread(self.store.follow, self._take_over)
        else:
            self.in_thread(self.store.follow, self._followed)

    def _shown(self, outcome: Any) -> None:
        if isinstance(outcome, StoreError):
            self._failed(outcome)
            return
        self._loaded(outcome)
        self._news(0)

    def _loaded(self, opened: Opened) -> None:
        self.warm = Warm(opened, self.clock)
        self.loop.show(opened)
        self._compare(opened)

    def _failed(self, error: StoreError) -> None:
        if self.is_mine and not isinstance(error, PASSING):
            # Another center may be able to.
            self.say("ends:", error)
            self.die()
            return
        self.warm = None
        self._news(RETRY)

    def _take_in(self, outcome: Any) -> bool:
        """Take in what was followed; False if the state must be loaded, or there was an error."""
        warm = self.warm
        assert warm is not None
        try:
            if isinstance(outcome, StoreError):
                raise outcome
            if outcome is None or (outcome and not warm.take(outcome)):
                self.in_thread(self._load_machine, self._shown)
                return False
        except StoreError as error:
            self._failed(error)
            return False
        if outcome:
            self.cluster.rules.stood_by(warm.opened.machine, self.clock.now(), self.clock.utc())
            self.loop.show(warm.opened)
            self._compare(warm.opened)
        return True

    def _followed(self, outcome: Any) -> None:
        if self._take_in(outcome):
            ready = self.is_mine and self.may_confirm()
            self._news(0 if ready else self.world.between(30 * MILLISECOND, LOOK))

    def _take_over(self, outcome: Any) -> None:
        if not self._take_in(outcome):
            return
        warm = self.warm
        assert warm is not None
        opened, epoch = warm.opened, warm.opened.epoch

        def begun(outcome: Any) -> None:
            if isinstance(outcome, Changed) and opened.epoch == epoch and self.may_confirm():
                # The last words of the one before.
                self.in_thread(self.store.follow, self._take_over)
            elif isinstance(outcome, StoreError):
                self._failed(outcome)
            else:
                self.warm = None
                self._begin(opened)

        self.in_thread(lambda: self._begin_epoch(opened), begun)

    def _begin(self, opened: Opened) -> None:
        self._began(opened)
        if self.gone:
            return
        self.leads, self._watched = True, self.host.boottime()
        self._lapses.noticed(valid=self.may_confirm())
        self.peers.leads(self)
        self.world.after(self._interval, self, self._watch)
        if not self.is_mine:
            # It was lost meanwhile.
            self._step_aside()

    def _compare(self, opened: Opened) -> None:
        self.peers.compare(self, opened.machine)

    def _step_aside(self) -> None:
        self.say("stands by")
        self.carry_out(self.loop.step_aside("this center stands by"))
        if self.gone:
            return
        self.leads = False
        self.peers.stands_by(self)
        for conversation in list(self.conversations.values()):
            conversation.hang_up()
        self._news(0)

    # --- the leader ---------------------------------------------------------------------------------------------

    def decides(self) -> None:
        """It makes a step."""
        if not self.leads:
            raise Violation(f"{self.name} stands by, and decides")

    def _began(self, opened: Opened) -> None:
        self.cluster.outside.forgets_load()
        self.carry_out(self.loop.began(opened))
        if self.gone:
            return
        self.say("begins epoch", self.loop.epoch, "with jobs", list(opened.machine.jobs))
        self.cluster.check(opened.machine, thoroughly=True, number=opened.number)
        self._compare(opened)
        self._wake()

    def _load(self) -> None:
        """See ``Committer._load``."""
        self._busy = True
        if not self.may_confirm():
            self.loop.load_failed("the servers have not confirmed that this center leads", self.clock.now())
            self._go_on()
        elif self._opened is not None:
            opened, self._opened = self._opened, None
            self._continue(opened)
        else:
            self.in_thread(self._load_machine, self._restored)

    def _restored(self, outcome: Any) -> None:
        if isinstance(outcome, StoreError):
            self.loop.load_failed(str(outcome), self.clock.now())
            self._go_on()
        else:
            self.loop.restored(outcome.machine)
            self._continue(outcome)

    def _continue(self, opened: Opened) -> None:
        if self.loop.is_replaced:
            self.loop.stand_by(opened)
            self._go_on()
            return
        epoch = opened.epoch

        def begun(outcome: Any) -> None:
            if isinstance(outcome, StoreError):
                if opened.epoch == epoch and not isinstance(outcome, Changed):
                    self._opened = opened
                self.loop.load_failed(str(outcome), self.clock.now())
            elif not self.loop.is_aside:
                self._began(opened)
                if self.leads and not self.gone:
                    self.peers.leads(self)
            if not self.gone:
                self._go_on()

        self.in_thread(lambda: self._begin_epoch(opened), begun)

    def _work(self) -> None:
        """Make a step in slices: at a pause anything may happen."""
        now = self.clock.now()
        if self.cluster.rules.acknowledges_first:
            self._act(self.loop.next(now, self.clock.utc()), now)
        else:
            self._slice(self.loop.slices(now, self.clock.utc()), now)

    def _slice(self, slices: Slices[Work], now: int) -> None:
        try:
            next(slices)
            while self.world.aside.random() >= PAUSES:
                next(slices)
        except StopIteration as done:
            self._act(done.value, now)
        else:
            self.world.after(self.world.between(MILLISECOND, SECOND // 10), self, self._slice, slices, now)

    def _put(self, batch: Batch) -> None:
        epoch = self.loop.epoch
        self.in_thread(lambda: self.store.commit(batch, epoch), self._committed)

    def _committed(self, outcome: Any) -> None:
        if isinstance(outcome, Fenced):
            self.say("was replaced")
            self.carry_out(self.loop.fenced(str(outcome)))
        elif isinstance(outcome, StoreError):
            self.say("cannot store:", outcome)
            self.carry_out(self.loop.commit_failed(str(outcome)))
        else:
            effects = self.loop.committed()
            number = self.loop.number
            self.cluster.check(self.loop.machine, thoroughly=self.steps % self.cluster.check_every == 0, number=number)
            if self.leads and not self.loop.problem:
                self.peers.compare(self, self.loop.machine)
            self.carry_out(effects)
        if not self.gone:
            self._go_on()

    def ask_epoch(self, session: Session) -> None:
        """See ``Center``."""

        def compared(outcome: Any) -> None:
            self.carry_out(self.sessions.compared(session, None if isinstance(outcome, StoreError) else outcome))
            if not self.gone:
                self._wake()

        self.in_thread(self.store.newest_epoch, compared)

    def _snapshot(self, work: TakeSnapshot) -> None:
        """Store the state as it is now, while steps go on."""
        epoch, state = self.loop.epoch, self.loop.machine.export()
        snapshot = StateSnapshot(work.number, state, work.meta)

        def stored(outcome: Any) -> None:
            if isinstance(outcome, StoreError):
                self.loop.snapshot_failed(work)
            else:
                self.loop.snapshot_stored(work, len(state))

        def store(uploaded: Checkpoint) -> None:
            self.store.snapshot(snapshot, epoch, uploaded)

        def upload() -> None:
            line = self.place.line
            self.log.fate = "dead" if line.closed(0) or line.closed(1) else ""
            try:
                uploaded = self.store.upload(snapshot)
            except StoreError as error:
                stored(error)
            else:
                self.in_thread(lambda: store(uploaded), stored)

        # Beside the commits, in a thread of its own.
        self.world.after(self.world.between(MILLISECOND, SECOND), self, upload)
        self._go_on()

    def die(self) -> None:
        """See ``Center``."""
        self.store.end()
        super().die()

    def still_leads(self) -> bool:
        """Go on: a center that was replaced stands by."""
        return not self.gone

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, Term):
            self.peers.check_term(self)
        super()._carry_out(effect)
