"""Sessions with executors: handshake, fencing, one connection for each node, terms, durable reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from cress.lifecycle.inputs import DataFound, Declare, Input, NodeJoined, NodeLeft, Reported
from cress.lifecycle.nodes.load_reports import is_news, sane
from cress.lifecycle.slices import Slices, whole
from cress.model.errors import InputError, NotAccepted
from cress.model.events import LoadSeen, PortsSeen
from cress.model.node import Load, Local, Node
from cress.model.reports import Ended, Report
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.protocol import messages
from cress.protocol.cluster_views import EventView
from cress.protocol.messages import (
    MOST_STRANGERS,
    PROTOCOL,
    AskMaterial,
    Beat,
    Data,
    Durable,
    FromAgent,
    Hello,
    HiddenProcess,
    Material,
    Refused,
    Reports,
    Strangers,
    Term,
    Welcome,
)
from cress.protocol.versions import Dialect, VersionError
from cress.shell.center.commit import CommitLoop, InputCall, SetAsideError
from cress.shell.center.credible_reports import credible, examining
from cress.shell.center.effects import (
    AskEpoch,
    Close,
    Effect,
    OlderCopy,
    Ping,
    Reply,
    Send,
    Session,
    Supply,
    Warn,
)
from cress.shell.center.registration import data_of, node_of, undeclared
from cress.store.base import Fenced

# Maximum number of reports in one input: more would make a long step.
MOST_REPORTS = 128
# Maximum number of kinds of resources that one node declares for the cluster; the center's settings declare any.
MOST_DECLARED = 6
CANNOT_STORE = "the center cannot store it; try again"
NOT_TO_START = "no attempt of this number is to start on this node"
# The first major version of the protocol whose executors prove that they know the token.
PROVEN_SINCE = 6
# A node whose registration makes each step fail is refused for this time (µs) before the next try: first and longest.
FIRST_REST, LONGEST_REST = 10 * SECOND, 600 * SECOND


def decoding(data: str | bytes, session: Session) -> Slices[FromAgent | None]:
    """Decode a message of an executor, with pauses if it is large.

    Return None for one of a newer version, which is skipped. Raises InputError.
    """
    try:
        if isinstance(data, str):
            raise InputError("a text message", hint="msgpack in binary messages")
        return (yield from session.dialect.reading_from_agent(data))
    except msgspec.MsgspecError as error:
        hint = "an executor of this version of cress, whose messages are within the bounds of docs/security.md"
        raise InputError(f"a message cannot be read: {error}", hint=hint) from None


def decoded(data: str | bytes, session: Session) -> FromAgent | None:
    """Decode a message without pauses; see ``decoding``."""
    return whole(decoding(data, session))


class Sessions:
    """The executors that are connected, or about to be.

    ``racks`` are for nodes whose executors name none. ``loads`` is the measured load of the connected nodes; the
    machine gets only noticeable changes. ``name`` is the name of the cluster. Times are the center's clock.
    """

    def __init__(self, loop: CommitLoop, name: str, is_leader: Callable[[], bool] = lambda: True) -> None:
        self.loop = loop
        # Returns True if no other center can lead: only then a term is confirmed.
        self._is_leader = is_leader
        self.name = name
        self.racks: Mapping[str, str] = {}
        self.loads: dict[str, Load] = {}
        # The used part of each node's disk, in thousandths.
        self.full: dict[str, int] = {}
        # Nodes whose registration was set aside: the time of the next try, and the pause before it.
        self._resting: dict[str, tuple[int, int]] = {}
        # Processes on the connected nodes that belong to no running attempt for certain.
        self.strangers: dict[str, tuple[HiddenProcess, ...]] = {}
        # Those that events tell of, by pid and start, also after the connection; the minute, and its events.
        self._told_of: dict[str, tuple[frozenset[tuple[int, int]], int, int]] = {}
        self._asking: dict[Session, tuple[Node, Local | None]] = {}
        # The number of kinds of resources that each node has declared. There is room for few in a cluster.
        self._declared: Counter[str] = Counter()

    # --- the handshake ---------------------------------------------------------------------------------------

    def hello(self, session: Session, message: FromAgent | None, now: int, local: Local | None = None) -> list[Effect]:
        """Handle the first message of an executor; ``local`` is the center's own access to its processes."""
        warnings: list[str] = []
        known = self.loop.machine.core.dimensions
        try:
            new = self._undeclared(session, message, known)
            node = self._node(session, message, known.with_more(new), warnings)
        except InputError as error:
            return self._refuse(session, error, permanent=not isinstance(error, VersionError) or error.permanent)
        assert isinstance(message, Hello)
        until, _ = self._resting.get(message.name, (0, 0))
        if now < until:
            wait = f"it is tried again in {-(-(until - now) // SECOND)} s"
            what = f"the registration of node {message.name} was set aside because of a defect of the center"
            return self._refuse(session, NotAccepted(what, hint=wait))
        if new:
            return self._declare(session, message, new, local)
        session.dialect = Dialect(message.speaks)
        session.hello, session.name, session.rack = message, message.name, message.rack
        effects: list[Effect] = [Warn(sentence) for sentence in warnings]
        if message.epoch > self.loop.epoch or self.loop.lacks(message.witness) is not None:
            # Whatever the executor names or proves, only the store knows whether another center leads.
            return [*effects, AskEpoch(session)]
        other = self.loop.present.get(message.name)
        if other is None:
            return [*effects, *self._join(session, node, local, now)]
        self._asking[session] = node, local
        return [*effects, Ping(other, session)]

    def _undeclared(self, session: Session, message: FromAgent | None, known: Dimensions) -> tuple[str, ...]:
        """Return the new kinds of resources that this executor may declare for the cluster, a few for each node."""
        new = undeclared(message, known)
        name = message.name if isinstance(message, Hello) else ""
        may_speak = session.certified is None or name in session.certified
        return new[: MOST_DECLARED - self._declared[name]] if new and may_speak else ()

    def _declare(self, session: Session, message: Hello, new: tuple[str, ...], local: Local | None) -> list[Effect]:
        """Declare the dimensions that an executor is the first to offer; then it registers."""

        def declared(reply: Reply) -> list[Effect]:
            if session.closed:
                return []
            if isinstance(reply, InputError):
                return self._refuse(session, reply)
            self._declared[message.name] += len(new)
            offered = (
                f"node {message.name} is the first to offer {', '.join(new)}: declared as resources of the cluster"
            )
            return [Warn(offered), *self.hello(session, message, self.loop.machine.now, local)]

        return self._post(session, InputCall(Declare(dimensions=new), then=declared))

    def _node(self, session: Session, message: FromAgent | None, dimensions: Dimensions, warnings: list[str]) -> Node:
        node = node_of(message, dimensions, self.racks, warnings)
        assert isinstance(message, Hello)
        if session.certified is not None and message.name not in session.certified:
            owners = ", ".join(sorted(session.certified)) or "no node"
            raise InputError(
                f"its certificate is that of {owners}, but it registers as node {message.name}",
                hint="use the bundle of its own node: `cress tls issue NODE` makes one",
            )
        if session.has_sent_token:
            if message.speaks[0] >= PROVEN_SINCE:
                raise InputError(
                    f"an executor of protocol {message.speaks[0]} has sent the token instead of a proof",
                    hint="`cress executor` of its release proves that it knows the token, and never sends it",
                )
            warnings.append(
                f"the executor of node {message.name} (protocol {message.speaks[0]}) sends the token to any "
                "program that listens "
                "on the center's port; upgrade it, and make a new token when the last one is upgraded"
            )
        if message.cluster and self.loop.cluster and message.cluster != self.loop.cluster:
            raise InputError(
                "the executor's directory belongs to another cluster, whose tasks may still run there",
                hint="another directory for it, or the center of that cluster",
            )
        return node

    def _refuse(self, session: Session, error: InputError, *, permanent: bool = False) -> list[Effect]:
        session.closed = True
        refused = Refused(what=error.what, hint=error.hint, permanent=permanent)
        return [Send(session, refused), Close(session, "refused", refused=True)]

    def compared(self, session: Session, newest: int | None) -> list[Effect]:
        """Handle the newer epoch of an executor; ``newest`` is the store's, None if it cannot be read."""
        loop, hello = self.loop, session.hello
        if session.closed:
            return []
        assert hello is not None
        if newest is None or loop.problem:
            # The newest may be one that this center began itself without being able to store anything in it.
            why = loop.problem or "its store cannot be read"
            what = f"the center cannot find out now whether another one has begun epoch {hello.epoch}: {why}"
            return self._refuse(session, NotAccepted(what, hint="the executor tries again"))
        if newest > loop.epoch:
            why = str(Fenced(loop.epoch, newest))
            hint = "the address of the leader; this one is to be stopped"
            return [*loop.fenced(why), *self._refuse(session, NotAccepted(why, hint=hint))]
        lacking = loop.lacks(hello.witness)
        if lacking is not None:
            # A center of this cluster has signed it, and no other center has stored it: the store has lost it.
            why = f"the store of the center is older than the cluster: node {session.name} has orders of later records"
            refused = self._refuse(session, NotAccepted(why, hint="the center ends, and says how to go on"))
            return [*refused, OlderCopy(session.name, hello.witness, lacking), *loop.fenced(why)]
        if hello.epoch > loop.epoch:
            return self._refuse_newer(session, hello)
        return self._refuse(session, NotAccepted("the center has begun a new epoch", hint="the executor tries again"))

    def _refuse_newer(self, session: Session, hello: Hello) -> list[Effect]:
        """Refuse an executor whose epoch the store does not know; the center and all other executors go on."""
        loop = self.loop
        refused = NotAccepted(
            f"the executor names epoch {hello.epoch} without the proof of a center, but this center, the newest one by "
            f"its store, has epoch {loop.epoch}: the executor's directory is damaged, or another program posed as the "
            "center",
            hint="stop the executor and its supervisor, move its directory away and start it again",
        )
        return self._refuse(session, refused)

    def pinged(self, rival: Session, other: Session, now: int, *, alive: bool) -> list[Effect]:
        """Decide which session keeps the name of a node: a live one does, a dead one yields to ``rival``."""
        asked = self._asking.pop(rival, None)
        if asked is None or rival.closed:
            return []
        if alive:
            return self._refuse(
                rival,
                InputError(
                    f"a node of the name {rival.name!r} is connected already", hint="executor names must be unique"
                ),
            )
        effects: list[Effect] = []
        if self.loop.present.get(other.name) is other:
            effects.append(Warn(f"node {other.name} is connected a second time, the first connection was dead"))
            if not other.closed:
                other.closed = True
                effects.append(Close(other, "another connection took its place", abort=True))
            self._leave(other)
        return [*effects, *self._join(rival, *asked, now)]

    def _join(self, session: Session, node: Node, local: Local | None, now: int) -> list[Effect]:
        name, hello = session.name, session.hello
        assert hello is not None
        if self.loop.present.get(name) is not None:
            session.closed = True
            return [Close(session, "two at once", retry=True)]
        session.terms = local is None
        if self.loop.problem and not self.loop.stopping:
            return self._confirm_terms(session, hello, now)
        self.loop.present[name] = session
        joining = NodeJoined(
            node=node,
            boot=hello.boot,
            reports=self._credible(hello.reports, now),
            terms=session.terms and hello.bound,
            local=local,
            ports=hello.listening,
        )
        return self._post(session, InputCall(joining, then=lambda reply: self._joined(session, hello, reply)))

    def _joined(self, session: Session, hello: Hello, reply: Reply) -> list[Effect]:
        if session.closed:
            return []
        if isinstance(reply, InputError):
            session.closed = True
            if isinstance(reply, SetAsideError):
                _, pause = self._resting.get(session.name, (0, FIRST_REST // 2))
                pause = min(2 * pause, LONGEST_REST)
                self._resting[session.name] = self.loop.machine.now + pause, pause
            return [Send(session, Refused(what=reply.what, hint=reply.hint)), Close(session, "refused")]
        self.loop.joined[session.name] = session
        return [self._welcome(session, hello, self.loop.machine.now), *self._durable(session, hello.reports)]

    def _confirm_terms(self, session: Session, hello: Hello, now: int) -> list[Effect]:
        """Welcome the executor of a known node while nothing can be stored, for the terms of its tasks.

        Its session is closed when the center can store again; then it registers. A new node has no tasks, and waits.
        """
        loop = self.loop
        if loop.is_replaced or not self._is_leader() or session.name not in loop.machine.nodes:
            return self._refuse(session, InputError(f"{CANNOT_STORE}: {loop.problem}"))
        loop.present[session.name] = loop.terms_only[session.name] = session
        return [self._welcome(session, hello, now)]

    def _welcome(self, session: Session, hello: Hello, now: int) -> Send:
        loop = self.loop
        return Send(
            session,
            Welcome(
                epoch=loop.epoch,
                cluster=loop.cluster,
                name=self.name,
                sent=hello.sent,
                term=self._grant(session, now),
                kinds=loop.machine.core.dimensions.custom,
                protocol=PROTOCOL,
                witness=loop.witness,
            ),
        )

    # --- messages --------------------------------------------------------------------------------------------

    def received(self, session: Session, message: FromAgent, now: int) -> list[Effect]:
        """Take a message of a registered executor."""
        if session.closed:
            return []
        loop, name = self.loop, session.name
        match message:
            case Beat():
                # Terms bypass the machine and the store: neither a slow nor a full disk is a reason to stop a task.
                if session.granted and not session.leaving and self._is_leader():
                    term = self._grant(session, now)
                    return [Send(session, Term(epoch=loop.epoch, sent=message.sent, term=term, witness=loop.witness))]
            case Reports():
                if message.leaving:
                    # Before the ends of its tasks: they must not start again there.
                    session.leaving = True
                    self._tell(NodeLeft(name=name, granted=session.granted))
                return self._reported(session, self._credible(message.reports, now))
            case AskMaterial():
                return self._asked(session, message)
            case messages.Ports():
                self._tell(PortsSeen(name=name, ports=message.ports))
            case messages.Load():
                load = self.loads[name] = sane(message.load)
                self.full[name] = min(1000, message.full)
                if is_news(loop.machine, name, load):
                    self._tell(LoadSeen(name=name, load=load))
            case Data():
                warnings: list[str] = []
                self._tell(DataFound(name=name, data=data_of(name, message.data, warnings)))
                return [Warn(sentence) for sentence in warnings]
            case Strangers():
                self._strange(name, message, now // (60 * SECOND))
        return []

    def _strange(self, name: str, message: Strangers, minute: int) -> None:
        """Keep the processes of a node that belong to no attempt, and tell of new ones by events."""
        known, last, count = self._told_of.get(name, (frozenset[tuple[int, int]](), minute, 0))
        count = count if last == minute else 0
        for stranger in (*message.processes, *message.killed):
            if (stranger.pid, stranger.since) not in known and count < MOST_STRANGERS:
                count += 1
                text = f"process {stranger.pid} ({stranger.command}) hides its attempt; {stranger.what}"
                self.loop.tell(EventView(kind="node.stranger", node=name, text=text))
        self.strangers[name] = message.processes
        self._told_of[name] = frozenset((stranger.pid, stranger.since) for stranger in message.processes), minute, count

    def _grant(self, session: Session, now: int) -> int:
        """Grant a term from now on; return the time (µs) for the executor, counted from its request; 0 if none."""
        if not session.terms:
            return 0
        options = self.loop.machine.core.options
        # 0 would mean "no term", and tasks would never be stopped.
        assert options.term > options.term_margin, "a term ends before it begins"
        session.granted = max(session.granted, now + options.term)
        return options.term - options.term_margin

    def _asked(self, session: Session, message: AskMaterial) -> list[Effect]:
        """Have start material sent for the attempts of this node that are about to start, and for no others.

        Requests for another epoch, or over an unregistered session, are repeated by the executor after the next
        welcome.
        """
        loop = self.loop
        if message.epoch != loop.epoch or loop.joined.get(session.name) is not session:
            return []
        effects: list[Effect] = []
        supplied: list[int] = []
        for number in dict.fromkeys(message.attempts):
            attempt = loop.machine.attempts.get(number)
            if attempt is not None and attempt.node == session.name and not attempt.started and not attempt.halted:
                supplied.append(number)
                continue
            if attempt is not None and attempt.node != session.name:
                effects.append(Warn(f"node {session.name} asked for the secrets of an attempt that is not on it"))
            effects.append(Send(session, Material(epoch=loop.epoch, attempt=number, refused=NOT_TO_START)))
        return [*effects, Supply(session, tuple(supplied))] if supplied else effects

    def examining(self, message: FromAgent | None, now: int) -> Slices[FromAgent | None]:
        """Examine the reports of a message before it is handled, with pauses if they are many."""
        if not isinstance(message, (Hello, Reports)) or len(message.reports) <= MOST_REPORTS:
            return message
        machine = self.loop.machine
        utc = machine.utc + max(0, now - machine.now)
        reports = yield from examining(message.reports, machine.attempts, utc)
        return msgspec.structs.replace(message, reports=reports)

    def _credible(self, reports: tuple[Report, ...], now: int) -> tuple[Report, ...]:
        machine = self.loop.machine
        return credible(reports, machine.attempts, machine.utc + max(0, now - machine.now))

    def _reported(self, session: Session, reports: tuple[Report, ...]) -> list[Effect]:
        effects: list[Effect] = []
        for first in range(0, len(reports), MOST_REPORTS):
            effects += self._reported_part(session, reports[first : first + MOST_REPORTS])
        return effects

    def _reported_part(self, session: Session, reports: tuple[Report, ...]) -> list[Effect]:
        def stored(reply: Reply) -> list[Effect]:
            return [] if isinstance(reply, InputError) else self._durable(session, reports)

        return self._post(session, InputCall(Reported(node=session.name, reports=reports), then=stored))

    def _durable(self, session: Session, reports: tuple[Report, ...]) -> list[Effect]:
        ended = tuple(report.attempt for report in reports if isinstance(report, Ended))
        if not ended or session.closed:
            return []
        return [Send(session, Durable(epoch=self.loop.epoch, attempts=ended))]

    def _post(self, session: Session, call: InputCall) -> list[Effect]:
        if self.loop.post(call) or self.loop.terms_only.get(session.name) is session:
            # While nothing can be stored the executor keeps its reports, and repeats them when it registers.
            return []
        session.closed = True
        return [Close(session, CANNOT_STORE)]

    def _tell(self, what: Input) -> None:
        # Reports are lost while nothing can be stored: every executor registers afterwards, and repeats them.
        self.loop.post(InputCall(what))

    # --- the end ---------------------------------------------------------------------------------------------

    def gone(self, session: Session) -> list[Effect]:
        """Note that the connection of a session has ended."""
        session.closed = True
        self._asking.pop(session, None)
        self._leave(session)
        return []

    def _leave(self, session: Session) -> None:
        loop, name = self.loop, session.name
        if loop.present.get(name) is not session:
            return
        del loop.present[name]
        self.loads.pop(name, None)
        self.full.pop(name, None)
        self.strangers.pop(name, None)
        for sessions in (loop.joined, loop.terms_only):
            if sessions.get(name) is session:
                del sessions[name]
        # Even for a session that was never welcomed: its NodeJoined may be on its way.
        self._tell(NodeLeft(name=name, granted=session.granted))

    def arrange(self, racks: Mapping[str, str]) -> list[Effect]:
        """Use these racks for nodes whose executors name none; executors whose rack changes connect again."""
        before, self.racks = self.racks, racks
        closing: list[Effect] = []
        for name, session in list(self.loop.joined.items()):
            if not session.rack and before.get(name, "") != racks.get(name, "") and not session.closed:
                # The executor connects again at once, in its new rack; its tasks are not affected.
                session.closed = True
                closing.append(Close(session, "its rack has changed"))
        return closing
