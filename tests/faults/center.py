"""The center: the real machine, recovery and dispatcher in a loop like ``cress.center.engine`` and ``listener``.

What the programs do in their order is done here in that order; between any two steps the center may be killed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cress.center.clock import Clock
from cress.center.dispatch import Connection, Dispatcher
from cress.center.offers import node_of
from cress.center.recovery import Opened, begin_epoch, encode_number, load_machine
from cress.center.runs import run_of as resolved
from cress.center.runs import template_of
from cress.center.settings import Settings
from cress.lifecycle.effects import Step
from cress.lifecycle.inputs import Input, NodeJoined, NodeLeft, Ports, Record, Reported, encode_record
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError
from cress.model.node import Node
from cress.model.reports import Ended, Report
from cress.model.run import Run
from cress.model.times import MILLISECOND, SECOND
from cress.protocol import messages
from cress.protocol.messages import Beat, Durable, Hello, Refused, Reports, Term, Welcome, decode_from_agent, encode
from cress.store.base import Batch, StoreError
from tests.faults.network import PING, End
from tests.faults.store import Access, ReplacedError
from tests.faults.world import Died, Mortal

if TYPE_CHECKING:
    from tests.faults.cluster import Cluster

Reply = tuple[int, ...] | InputError | None
Then = Callable[[Reply], None]

RETRY = SECOND
HELLO_TIMEOUT = 10 * SECOND
ALIVE_TIMEOUT = 2 * SECOND
# Of the steps, those that a machine that was restored right before does too.
TWINS = 0.02
PING_EVERY, LEAST_PING = 20 * SECOND, 2 * SECOND

_encode_run = msgspec.msgpack.Encoder().encode
_decode_run = msgspec.msgpack.Decoder(Run).decode


class Call(msgspec.Struct):
    """An input and who wants to know what became of it: ``then`` when it is stored, ``refused`` if it is not."""

    input: Input
    runs: tuple[Run, ...]
    then: Then | None
    refused: Callable[[str], None] | None


class Center(Mortal):
    """One run of a center."""

    def __init__(self, cluster: Cluster, number: int, *, doom: int) -> None:
        super().__init__(cluster.world, f"center {number}")
        self.cluster = cluster
        self.host = cluster.host
        self.doom = doom
        self.store = Access(cluster.store, self)
        self.settings = Settings(data=Path("/center"), options=cluster.options, dimensions=cluster.dimensions)
        self.clock = Clock(self.host.boot, boottime=self.host.boottime, wall=self.host.wall)
        self.dispatcher = Dispatcher(self.run_of, self.node_of)
        self.conversations: dict[str, Conversation] = {}
        self.machine: Machine | None = None
        self.epoch = 0
        self.problem = "the center begins"
        self.queue: list[Call] = []
        self.steps = 0
        self._busy = False
        self._planned = -1
        self._log_count = self._number = 0
        self.world.after(self.world.between(50 * MILLISECOND, SECOND), self, self._load)

    # --- ways in ---------------------------------------------------------------------------------------------

    def submit(self, what: Input, runs: tuple[Run, ...], then: Then, refused: Callable[[str], None]) -> None:
        """The call of a person."""
        if self.problem:
            refused(self.problem)
            return
        self.queue.append(Call(what, runs, then, refused))
        self._wake()

    def post(self, what: Input, then: Then | None = None) -> bool:
        """What an executor said; ``then`` is called when it is stored, and never if it is not."""
        if self.problem:
            return False
        self.queue.append(Call(what, (), then, None))
        self._wake()
        return True

    def node_of(self, name: str) -> Node | None:
        """A node as it registered last."""
        known = self.machine.nodes.get(name) if self.machine is not None else None
        return None if known is None else known.node

    def run_of(self, job: int) -> Run | None:
        """How to run a job."""
        live = self.machine.jobs.get(job) if self.machine is not None else None
        data = self.store.run(job if live is None else template_of(live))
        if data is None or live is None:
            return None if data is None else _decode_run(data)
        return resolved(live, _decode_run(data))

    # --- the loop --------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._busy:
            self._busy = True
            self.world.after(self.world.moment(), self, self._round)

    def _due(self, planned: int) -> None:
        if planned == self._planned:
            self._planned = -1
            self._wake()

    def _round(self) -> None:
        """Step the machine with all that came in; the commit takes its time."""
        assert self.machine is not None
        if self._log_count >= self.cluster.most_records:
            self._snapshot()
            return
        calls, self.queue = self.queue, []
        now, utc = self.clock.now(), self.clock.utc()
        inputs = tuple(call.input for call in calls)
        twin = Machine.restore(self.machine.export()) if self.world.aside.random() < TWINS else None
        step = self.machine.step(now, utc, inputs)
        if twin is not None:
            self.cluster.truth.check_twin(step, twin.step(now, utc, inputs))
        self.steps += 1
        # What one decides that has been replaced is never stored; its numbers may be those of attempts of the other one.
        for attempt in () if self.store.replaced else step.launches:
            self.cluster.truth.decided(attempt, self.machine.jobs[attempt.job], self.machine.families)
        runs = _runs_of(calls, step)
        batch = Batch(
            records=[encode_record(Record(now, utc, inputs))],
            runs=[(run.job, _encode_run(run)) for run in runs],
            jobs=step.jobs,
            attempts=step.attempts,
            meta={"clock": self.clock.save(now, utc), "records": encode_number(self._number + 1)},
        )
        if self.cluster.rules.acknowledges_first:
            self.cluster.store.runs.update(batch.runs)
            batch.runs = []
            self._carry_out(calls, step)
            if self.gone:
                return
            calls, step = [], Step()
        self.world.after(
            self.world.random.randint(100, self.cluster.commit_time), self, self._commit, batch, calls, step
        )

    def _commit(self, batch: Batch, calls: list[Call], step: Step) -> None:
        try:
            self.store.commit(batch)
        except (Died, ReplacedError):
            self.die()
        except StoreError as error:
            self._reload(calls, str(error))
        else:
            self._number += 1
            self._log_count += 1
            assert self.machine is not None
            self.cluster.check(self.machine, thoroughly=self.steps % self.cluster.check_every == 0)
            self._carry_out(calls, step)
            if not self.gone:
                self._go_on()

    def _snapshot(self) -> None:
        assert self.machine is not None
        meta = {"clock": self.clock.save(self.clock.now(), self.clock.utc()), "records": encode_number(self._number)}
        try:
            self.store.commit(Batch(snapshot=self.machine.export(), meta=meta))
        except (Died, ReplacedError):
            self.die()
        except StoreError as error:
            self._reload([], str(error))
        else:
            self._log_count = 0
            self._go_on()

    def _go_on(self) -> None:
        """What is due next."""
        assert self.machine is not None
        self._busy = False
        due = self.machine.next_wakeup()
        if self.queue or (due is not None and due <= self.clock.now()):
            self._wake()
        elif due is not None and due != self._planned:
            self._planned = due
            self.world.after(due - self.clock.now(), self, self._due, due)

    def _carry_out(self, calls: list[Call], step: Step) -> None:
        try:
            self.point("before effects")
            for call, reply in zip(calls, step.replies, strict=True):
                if call.then is not None and call.refused is None:
                    call.then(reply)
            self.point("before orders")
            for launch in step.launches:
                self.say("launches", launch.attempt, "for", (launch.job, launch.task), "on", launch.node)
            for halt in step.halts:
                self.say("halts", halt.attempt, "on", halt.node)
            launches = [
                self.cluster.rules.renamed(each, self.cluster.sent, self.cluster.truth.cores) for each in step.launches
            ]
            self.dispatcher.carry_out(self.epoch, launches, step.halts)
            self.point("before answers")
            for call, reply in zip(calls, step.replies, strict=True):
                if call.then is not None and call.refused is not None:
                    call.then(reply)
                    self.point("between answers")
        except Died:
            self.die()

    # --- beginning, and beginning again ----------------------------------------------------------------------

    def _reload(self, calls: list[Call], sentence: str) -> None:
        self.say("cannot store:", sentence)
        self.problem = sentence
        waiting, self.queue = [*calls, *self.queue], []
        for call in waiting:
            if call.refused is not None:
                call.refused(sentence)
        self.dispatcher.drop_all("the center loads its state again")
        for conversation in list(self.conversations.values()):
            conversation.flush()
        self._load()

    def _load(self) -> None:
        self._busy = True
        try:
            opened = load_machine(self.store, self.settings, self.clock)
            self.cluster.truth.check_center(opened.machine, self.cluster.store, thoroughly=False)
            begin_epoch(self.store, opened, self.settings, self.clock)
        except (Died, ReplacedError):
            self.die()
        except StoreError as error:
            self.problem = str(error)
            self.world.after(RETRY, self, self._load)
        else:
            self._take_over(opened)

    def _take_over(self, opened: Opened) -> None:
        self.machine = opened.machine
        self.cluster.outside.forgets_load()
        self.epoch = opened.epoch
        self._log_count = opened.log_count
        self._number = opened.number
        self.problem = ""
        self.say("begins epoch", self.epoch, "with jobs", list(self.machine.jobs))
        self.cluster.check(self.machine, thoroughly=True)
        self._go_on()

    def in_charge(self) -> bool:
        """Whether it is; it ends when another center has taken over."""
        if not self.gone and self.store.replaced:
            self.say("is not in charge any more")
            self.die()
        return not self.gone

    def die(self) -> None:
        """The process is gone; the kernel closes its connections."""
        self.gone = True
        self.problem = "gone"
        for end in list(self.host.ends):
            if end.owner is self:
                end.close()
        self.cluster.center_gone(self)


class Conversation:
    """A connection to an executor, from its hello to its end."""

    def __init__(self, center: Center, end: End) -> None:
        self.center = center
        self.world = center.world
        self.end = end
        self.name = ""
        self.hello: Hello | None = None
        self.connection: Connection | None = None
        self.closed = False
        self.ponged = True
        self.asked_by: Conversation | None = None
        self.granted = 0
        self.leaving = False
        options = center.cluster.parsed_options
        self.ping = max(LEAST_PING, min(PING_EVERY, options.term // 3))
        end.on_message = self._received
        end.on_close = self._over
        end.on_pong = self._pong
        self.world.after(HELLO_TIMEOUT, center, self._no_hello)
        self.world.after(self.ping, center, self._ping)

    # --- what arrives ----------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        message = decode_from_agent(data)
        if isinstance(message, Hello):
            self.hello = message
            if message.epoch > self.center.epoch and self.center.cluster.store.fenced:
                # This one has been replaced. It steps back; here, it ends.
                self.center.in_charge()
                return
            self._only_one()
        elif self.connection is None or self.connection.closed:
            pass
        elif isinstance(message, Beat):
            if self.granted and not self.leaving and self.center.in_charge():
                term = self._grant()
                self.connection.put(Term(epoch=self.center.epoch, sent=message.sent, term=term))
        elif isinstance(message, messages.Ports):
            self.center.post(Ports(name=self.name, ports=message.ports))
        elif isinstance(message, Reports):
            if message.leaving:
                self.leaving = True
                self.center.cluster.outside.forgets_load(self.name)
                self.center.post(NodeLeft(name=self.name, granted=self.granted))
            self._reported(message.reports)

    def _no_hello(self) -> None:
        if self.hello is None:
            self.end.close()

    def _only_one(self) -> None:
        """An executor of this name that is connected and alive keeps its place; one that is not makes room."""
        assert self.hello is not None
        other = self.center.conversations.get(self.hello.name)
        if other is None:
            self._converse()
            return
        other.asked_by = self
        other.end.send(PING)
        self.world.after(ALIVE_TIMEOUT, self.center, self._no_answer, other)

    def _no_answer(self, other: Conversation) -> None:
        if other.asked_by is self and not other.closed:
            other.asked_by = None
            self.center.say(f"{other.name} is connected a second time, the first connection was dead")
            if other.connection is not None:
                other.connection.close("another connection took its place")
            other.leave()
            other.end.close()
            self._converse()

    def _converse(self) -> None:
        center, hello = self.center, self.hello
        assert hello is not None
        if not self.end.open:
            return
        if hello.name in center.conversations:
            self.end.close()
            return
        self.name = hello.name
        assert center.machine is not None
        node = node_of(hello, center.machine.core.dimensions, {})
        connection = self.connection = _Connection(self)
        center.conversations[self.name] = self

        def joined(reply: Reply) -> None:
            if isinstance(reply, InputError):
                connection.put(Refused(what=reply.what, hint=reply.hint))
                connection.close("refused")
            elif not connection.closed:
                center.dispatcher.connections[hello.name] = connection
                term = self._grant()
                connection.put(Welcome(epoch=center.epoch, cluster="one", sent=hello.sent, term=term))
                self._durable(hello.reports)

        center.cluster.outside.forgets_load(self.name)
        joining = NodeJoined(
            node=node, boot=hello.boot, reports=hello.reports, terms=hello.bound, ports=hello.listening
        )
        if not center.post(joining, joined):
            connection.close("the center cannot store it; try again")

    def _grant(self) -> int:
        """A term from now on; the length of it that the executor is told."""
        assert self.center.machine is not None
        options = self.center.machine.core.options
        self.granted = max(self.granted, self.center.clock.now() + options.term)
        return options.term - options.term_margin

    def _reported(self, reports: tuple[Report, ...]) -> None:
        def stored(reply: Reply) -> None:
            if not isinstance(reply, InputError):
                self._durable(reports)

        assert self.connection is not None
        if reports and not self.center.post(Reported(node=self.name, reports=reports), stored):
            self.connection.close("the center cannot store it; try again")

    def _durable(self, reports: tuple[Report, ...]) -> None:
        ended = tuple(report.attempt for report in reports if isinstance(report, Ended))
        if ended and self.connection is not None:
            self.connection.put(Durable(epoch=self.center.epoch, attempts=ended))

    # --- what leaves -----------------------------------------------------------------------------------------

    def ready(self) -> None:
        """There is something to send; the task that does it comes to its turn soon."""
        self.world.after(self.world.moment(), self.center, self.flush)

    def flush(self) -> None:
        """Send what waits, and close if that was asked for."""
        connection = self.connection
        if connection is None:
            return
        orders, connection._orders = connection._orders, []
        for order in orders:
            self.end.send(order)
        if connection.closed and not self.closed:
            self.end.close()
            self._over()

    def _ping(self) -> None:
        if self.end.open:
            self.ponged = False
            self.end.send(PING)
            self.world.after(self.ping, self.center, self._dead)
            self.world.after(self.ping, self.center, self._ping)

    def _pong(self) -> None:
        self.ponged = True
        if self.asked_by is not None:
            asker, self.asked_by = self.asked_by, None
            if asker.end.open:
                asker.end.send(encode(Refused(what=f"a node of the name {self.name!r} is connected already")))
                asker.end.close()

    def _dead(self) -> None:
        if not self.ponged and self.end.open:
            self.end.close()
            self._over()

    # --- the end ---------------------------------------------------------------------------------------------

    def _over(self) -> None:
        if self.closed:
            return
        if self.connection is not None:
            self.connection.close("gone")
        self.leave()
        asker, self.asked_by = self.asked_by, None
        if asker is not None:
            asker._converse()

    def leave(self) -> None:
        """The node is not connected by this any more."""
        if self.closed:
            return
        self.closed = True
        center = self.center
        if center.conversations.get(self.name) is self:
            del center.conversations[self.name]
            if center.dispatcher.connections.get(self.name) is self.connection:
                del center.dispatcher.connections[self.name]
            center.cluster.outside.forgets_load(self.name)
            # Even if it was never welcomed: its NodeJoined may be on its way.
            center.post(NodeLeft(name=self.name, granted=self.granted))


class _Connection(Connection):
    """The real one, which tells when there is something to send."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        super().__init__(conversation.name)
        self._ready = self  # type: ignore[assignment]

    def set(self) -> None:
        """In the place of the event that a task waits for."""
        self._conversation.ready()


def _runs_of(calls: list[Call], step: Step) -> list[Run]:
    runs: list[Run] = []
    for place, (call, reply) in enumerate(zip(calls, step.replies, strict=True)):
        if call.runs and isinstance(reply, tuple) and place not in step.repeated:
            runs += (msgspec.structs.replace(run, job=id) for id, run in zip(reply, call.runs, strict=True))
    return runs
