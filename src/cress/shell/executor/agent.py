"""The agent's loop: sessions between center and supervisor; tasks do not depend on it.

A session is one connection to each side. The supervisor comes first: even while no center can be reached, it must stop
tasks when their time or the node's term is over. Its inventory becomes the reports of ``Hello``; every later message is
forwarded in order. So the center's knowledge is exact, whatever was lost before. When either side is gone, both
connections are closed and the next session begins. Beats carry the clock that the supervisor reads too; the center's
answers are for the supervisor.

Every method takes an event and returns effects. The driver (``cress.executor.agent``, or a simulated node) carries them
out in order, sets ``now`` before each call, and calls ``tick`` at ``next_due``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum

import msgspec

from cress.model.node import DISK_KIND, Supervisor
from cress.model.reports import Ended, Report, Started
from cress.model.times import SECOND
from cress.protocol.messages import (
    OLDEST,
    PROTOCOL,
    UNSAID,
    VERSION,
    AskMaterial,
    Beat,
    BulkOrder,
    Data,
    Devices,
    Durable,
    FromAgent,
    FromCenter,
    Greeting,
    Hello,
    Inventory,
    Launches,
    NewCertificate,
    OpenBulk,
    Ports,
    Refused,
    Reports,
    Shutdown,
    Strangers,
    Welcome,
)
from cress.protocol.messages import (
    ToSupervisor as Order,
)
from cress.protocol.versions import Dialect, VersionError, agreed
from cress.shell.executor.agent_effects import (
    BeforeReports,
    CloseBoth,
    ConnectCenter,
    ConnectSupervisor,
    Effect,
    Exit,
    KeepCertificate,
    LookAround,
    LookAtData,
    Ordered,
    Registered,
    Say,
    ScanPorts,
    SendingReports,
    Serve,
    ToCenter,
    ToSupervisor,
)
from cress.shell.executor.foreign_ports import ForeignPorts, port_conflict

OK, REFUSED = 0, 3
# The remedy for a center that does not prove its identity.
PROOF_REMEDY = "Give this executor the token of the center's data directory, or find out which program listens there"

# Timeouts in µs: for the center's answer to a hello; for the last reports after the tasks' grace.
ANSWER = 10 * SECOND
LAST_WORDS = 1_800_000
# µs between two scans for listening ports; one costs a millisecond.
SCAN = 2 * SECOND
# Beats in one term, so that several may be late.
BEATS = 6


class Phase(Enum):
    """The phase of a session."""

    WAITING = "waiting"  # until the next session begins
    SUPERVISOR = "supervisor"  # connecting to the supervisor
    CENTER = "center"  # connecting to the center
    LOOKING = "looking"  # collecting the facts of the node
    HELLO = "hello"  # waiting for the center's answer
    REGISTERED = "registered"
    STOPPING = "stopping"  # without a center: the supervisor stops all tasks
    OVER = "over"


class Agent:
    """One run of an agent.

    ``center`` is its address, for messages; several are separated by commas. A failed session is retried after
    ``retry`` µs, first and longest; ``chance`` (0 to 1) spreads the agents of a restarted center. ``data_every``: µs
    between two scans of the paths of data, 0: there are none. ``quiet``: registration is not reported to the operator.

    ``live`` are the attempts that may still write, ``first`` the first processes of the running ones; ``unconfirmed``
    are attempts whose ends the center has not confirmed as stored.
    """

    def __init__(
        self,
        center: str,
        *,
        retry: tuple[int, int],
        chance: Callable[[], float],
        data_every: int = 0,
        quiet: bool = False,
    ) -> None:
        self.now = 0
        self.phase = Phase.WAITING
        self.inventory = Inventory(boot="", pid=0)
        self.live: set[int] = set()
        self.first: dict[int, int] = {}
        self.unconfirmed: set[int] = set()
        self.leaving = False
        self._center = center
        self._several = "," in center
        self._since = 0  # when the center welcomed the present session
        self._retry_first, self._retry_most = retry
        self._retry = self._retry_first
        self._chance = chance
        self._data_every = data_every
        self._quiet = quiet
        self._hello = Hello(version=0, name="", resource="", boot="")
        self._ports = ForeignPorts()
        self._data: tuple[str, ...] = ()
        self._term = 0
        self._due: dict[str, int] = {}  # times by the name of the action that is due
        self._reports: deque[bytes] = deque()  # of the supervisor, which wait for an action or another message
        self._above = Dialect(UNSAID)  # of the center
        self._below = Dialect(UNSAID)  # of the supervisor
        self._preparing: tuple[list[Effect], tuple[Report, ...]] | None = None
        self._grace = 0
        self._only_if_idle = False
        self._code = OK

    # --- sessions -----------------------------------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        """Begin a session now, unless one is under way."""
        if self.phase is not Phase.WAITING:
            return []
        self._due.clear()
        self.phase = Phase.SUPERVISOR
        return [ConnectSupervisor(start=True)]

    def supervisor_connected(self, inventory: Inventory) -> list[Effect]:
        """Take the inventory of the connected supervisor."""
        self.inventory = inventory
        try:
            agreed("supervisor", inventory.protocol, inventory.oldest, "agent")
        except VersionError as error:
            return self.supervisor_failed(f"{error.what} ({error.hint})", permanent=error.permanent)
        self._below = Dialect(inventory.protocol)
        greeting = self._order(Greeting(protocol=PROTOCOL))
        if self.phase is Phase.STOPPING:
            if self._only_if_idle and inventory.reports:
                return self._exit(self._code)
            return [*greeting, *self._order(Shutdown(grace=self._grace))]
        self.phase = Phase.CENTER
        return [*greeting, ConnectCenter()]

    def supervisor_failed(self, why: str, *, permanent: bool = False) -> list[Effect]:
        """End the session: no supervisor runs, and starting one failed."""
        if self.phase is Phase.STOPPING:
            return self._exit(self._code)
        return self._refused(why, permanent=permanent)

    def supervisor_closed(self) -> list[Effect]:
        """End the session: the supervisor is gone."""
        if self.phase is Phase.STOPPING:
            return self._exit(self._code)
        return self._end()

    def center_connected(self) -> list[Effect]:
        """Say hello to the connected center."""
        self.phase = Phase.LOOKING
        self._above = Dialect(UNSAID)
        self.first.clear()
        self._take_in(self.inventory.reports)
        self._ports.begin(self.inventory.ports)
        return [SendingReports(self.inventory.reports), LookAround(self._ports.own())]

    def center_failed(self, why: str, *, permanent: bool = False) -> list[Effect]:
        """End the session: the center cannot be reached, or refuses the connection."""
        return self._refused(why, permanent=permanent)

    def center_unproven(self, why: str, remedy: str = PROOF_REMEDY) -> list[Effect]:
        """End the session: the server at the center's address has not proven that it is the center.

        An executor that belongs to no cluster yet ends: its token or its bundle is probably wrong. Any other keeps
        trying, since an impostor must not be able to end it.
        """
        sentence = f"the server at {self._center} is not this executor's center: {why}; "
        sentence += f"nothing was sent to it. {remedy}"
        return self._refused(sentence, permanent=not self.inventory.cluster and not self.inventory.reports)

    def center_closed(self, why: str = "") -> list[Effect]:
        """End the session: the center is gone."""
        if self.phase is Phase.HELLO:
            return [Say(f"the center at {self._center} does not answer ({why}); trying again"), *self._end()]
        return self._end()

    def center_moved(self) -> list[Effect]:
        """End the session, since another center leads; the next one follows at once, over a connection that is made."""
        if self.phase is not Phase.REGISTERED:
            return []
        effects = self._end()
        if "retry" in self._due:
            self._due["retry"] = self.now
        return effects

    def looked_around(self, hello: Hello, listening: Iterable[int]) -> list[Effect]:
        """Take the node's offer; its ``reports`` follow those of the supervisor."""
        known = self.inventory
        self._ports.told = self._ports.seen(listening)
        self._data = hello.data
        self._hello = msgspec.structs.replace(
            hello,
            version=VERSION,
            # The center may give only orders that the supervisor knows too.
            protocol=min(PROTOCOL, known.protocol) if known.protocol[0] == PROTOCOL[0] else (PROTOCOL[0], 0),
            oldest=OLDEST,
            boot=hello.boot or known.boot,
            listening=self._ports.told,
            reports=(*known.reports, *hello.reports),
            sent=self.now,
            bound=known.bound,
            epoch=known.epoch,
            witness=known.witness,
            cluster=known.cluster,
            supervisor=Supervisor(known.pid, known.ticks, known.attempts),
            unlimited=known.unlimited,
            bulk=True,
            files=True,
        )
        self.phase = Phase.HELLO
        self._due["answer"] = self.now + ANSWER
        return self.tell(self._hello)

    def facts_changed(self) -> list[Effect]:
        """Note that the node's offer has changed: the next session sends it."""
        return self._end() if self.phase is Phase.REGISTERED else []

    # --- messages -----------------------------------------------------------------------------------------------------

    def from_center(self, message: bytes) -> list[Effect]:
        """Take a message of the center: pass it on, or obey it."""
        try:
            order = self._above.from_center(message)
        except msgspec.MsgspecError as error:
            return [
                Say(f"the center sent an invalid message ({error}); connecting again"),
                *self._end(),
            ]
        if order is None:
            return []
        if isinstance(order, NewCertificate):
            # It may come before the answer to the hello.
            return [KeepCertificate(order.pem)]
        if self.phase is Phase.HELLO:
            return self._answered(order)
        if self.phase is not Phase.REGISTERED:
            return []
        if isinstance(order, BulkOrder | OpenBulk):
            return [Serve(order)]
        if isinstance(order, Refused):
            return self._end()
        effects: list[Effect] = []
        if isinstance(order, Launches):
            self.live.update(launch.attempt for launch in order.launches)
            self._ports.launched(order.launches)
            effects.append(Ordered(order))
        elif isinstance(order, Durable) and order.epoch >= self.inventory.epoch:
            self.unconfirmed.difference_update(order.attempts)
        data = self._below.hand_on(order, message, self._above)
        return effects if data is None else [*effects, ToSupervisor(data)]

    def from_supervisor(self, message: bytes) -> list[Effect]:
        """Handle a message of the supervisor for the center; it waits for earlier ones and for the center's answer to
        the hello.
        """
        self._reports.append(message)
        return self._tell_reports()

    def reports_ready(self, listening: Iterable[int] | None) -> list[Effect]:
        """Send the reports that waited for ``BeforeReports``; ``listening`` are the ports that were found."""
        if self._preparing is None or self.phase is not Phase.REGISTERED:
            return []
        (told, reports), self._preparing = self._preparing, None
        effects: list[Effect] = []
        if listening is not None:
            # Report the foreign port first, so that the next attempt is placed elsewhere.
            effects += self._tell_ports(listening)
            # The center counts the port as taken until the next report.
            self._ports.told = None
        return [*effects, *told, SendingReports(reports), *self._tell_reports()]

    def ports_scanned(self, listening: Iterable[int]) -> list[Effect]:
        """Tell the center about changes of the ports on which foreign programs listen."""
        return self._tell_ports(listening) if self.phase is Phase.REGISTERED else []

    def data_found(self, data: tuple[str, ...]) -> list[Effect]:
        """Tell the center about changes of the paths of data."""
        if self.phase is not Phase.REGISTERED or data == self._data:
            return []
        self._data = data
        return self.tell(Data(data=data))

    def tell(self, message: FromAgent) -> list[Effect]:
        """Send a message to the center, if there is a session."""
        if self.phase not in {Phase.HELLO, Phase.REGISTERED}:
            return []
        data = self._above.encode(message)
        return [] if data is None else [ToCenter(data)]

    # --- time ---------------------------------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """Return the time of the next ``tick``."""
        return min(self._due.values(), default=None)

    def tick(self) -> list[Effect]:
        """Do what is due by now."""
        effects: list[Effect] = []
        for what in sorted(what for what, due in self._due.items() if due <= self.now):
            if self._due.pop(what, None) is not None:
                effects += self._do(what)
        return effects

    def _do(self, what: str) -> list[Effect]:
        if what == "retry":
            return self.begin()
        if what == "answer":
            return self.center_closed(f"nothing for {ANSWER // SECOND} s")
        if what == "leave":
            sentence = "the supervisor still waits for tasks to end, and continues to do so"
            return [Say(sentence), *self._exit(OK)]
        if what == "beat":
            self._due["beat"] = self.now + self._term // BEATS
            return self.tell(Beat(sent=self.now))
        if what == "scan":
            self._due["scan"] = self.now + SCAN
            return [ScanPorts(self._ports.own())]
        self._due["data"] = self.now + self._data_every
        return [LookAtData()]

    # --- leaving ------------------------------------------------------------------------------------------------------

    def leave(self, grace: int, *, keep: bool) -> list[Effect]:
        """Leave; ``keep``: the tasks go on, else the supervisor stops each with its grace, at most this one."""
        self.leaving = True
        if self.phase is Phase.OVER:
            return []
        if keep:
            return self._exit(OK)
        self._grace = grace
        self._due["leave"] = self.now + grace + LAST_WORDS
        if self.phase is Phase.REGISTERED:
            # The supervisor's reports are still forwarded.
            return self._order(Shutdown(grace=grace))
        return [] if self.phase is Phase.STOPPING else self._stop_alone()

    def hurry(self) -> list[Effect]:
        """Stop the tasks without their grace: the operator has asked a second time."""
        if self.phase not in {Phase.REGISTERED, Phase.STOPPING}:
            return []
        return self._order(Shutdown(grace=0))

    def _stop_alone(self) -> list[Effect]:
        """Stop the supervisor without a center; it keeps its reports for the next session."""
        self.phase = Phase.STOPPING
        self._due = {what: due for what, due in self._due.items() if what == "leave"}
        return [CloseBoth(), ConnectSupervisor(start=False)]

    def _exit(self, code: int) -> list[Effect]:
        self.phase = Phase.OVER
        self._due.clear()
        return [CloseBoth(), Exit(code)]

    # --- the steps ----------------------------------------------------------------------------------------------------

    def _answered(self, answer: FromCenter) -> list[Effect]:
        """Handle the center's answer to a hello."""
        self._due.pop("answer", None)
        if isinstance(answer, Refused):
            hint = f" ({answer.hint})" if answer.hint else ""
            return self._refused(f"the center refused this executor: {answer.what}{hint}", permanent=answer.permanent)
        if not isinstance(answer, Welcome):
            return self._refused(f"the center answered a hello with {type(answer).__name__}", permanent=False)
        try:
            agreed("center", answer.protocol, min(answer.protocol[0], PROTOCOL[0]), "executor")
        except VersionError as error:
            return self._refused(f"{error.what} ({error.hint})", permanent=False)
        self.phase, self._since = Phase.REGISTERED, self.now
        self._above = Dialect(answer.protocol)
        self._due["scan"] = self.now + SCAN
        self._term = answer.term
        if answer.term:
            self._due["beat"] = self.now + answer.term // BEATS
        if self._data_every:
            self._due["data"] = self.now + self._data_every
        said = [] if self._quiet else [Say(f"node {self._hello.name} is registered at {self._center}")]
        kinds = (DISK_KIND, *answer.kinds)
        devices = Devices(devices=tuple(device for device in self._hello.devices if device.kind in kinds))
        return [
            *said,
            *self._order(devices),
            *self._order(answer),
            Registered(answer),
            *self._tell_reports(),
        ]

    def _tell_reports(self) -> list[Effect]:
        """Forward the supervisor's reports, in order, up to one that waits for an action."""
        effects: list[Effect] = []
        while self._reports and self._preparing is None and self.phase is Phase.REGISTERED:
            message = self._reports.popleft()
            try:
                reports = self._below.from_supervisor(message)
            except msgspec.MsgspecError as error:
                sentence = f"the supervisor sent an invalid message ({error}); connecting again"
                return [*effects, Say(sentence), *self._end()]
            if isinstance(reports, (AskMaterial, Strangers)):
                handed_on = self._above.hand_on(reports, message, self._below)
                effects += [] if handed_on is None else [ToCenter(handed_on)]
            if not isinstance(reports, Reports):
                continue
            self._take_in(reports.reports)
            data = self._above.hand_on(reports, message, self._below)
            told: list[Effect] = [] if data is None else [ToCenter(data)]
            ended = tuple(report.attempt for report in reports.reports if isinstance(report, Ended))
            if ended:
                self._preparing = (told, reports.reports)
                conflict = port_conflict(reports.reports)
                effects.append(BeforeReports(ended, self._ports.own() if conflict else None))
            else:
                effects += [*told, SendingReports(reports.reports)]
        return effects

    def _take_in(self, reports: tuple[Report, ...]) -> None:
        for report in reports:
            if isinstance(report, Started):
                self.live.add(report.attempt)
                self.first[report.attempt] = report.pid
            elif isinstance(report, Ended):
                self.live.discard(report.attempt)
                self.first.pop(report.attempt, None)
                self._ports.ended(report.attempt)
                self.unconfirmed.add(report.attempt)

    def _tell_ports(self, listening: Iterable[int]) -> list[Effect]:
        found = self._ports.news(listening)
        return [] if found is None else self.tell(Ports(ports=found))

    def _order(self, message: Order) -> list[Effect]:
        data = self._below.encode(message)
        return [] if data is None else [ToSupervisor(data)]

    def _refused(self, why: str, *, permanent: bool) -> list[Effect]:
        """Give up this session; a permanent reason ends the agent, and the supervisor if it has no tasks."""
        if not permanent:
            return [Say(f"{why}; trying again"), *self._end()]
        self._code, self._only_if_idle = REFUSED, True
        return [Say(why), *self._stop_alone()]

    def _end(self) -> list[Effect]:
        """End the session; the next one follows soon."""
        if self.phase in {Phase.WAITING, Phase.STOPPING, Phase.OVER}:
            return []
        registered = self.phase is Phase.REGISTERED
        self._reports.clear()
        self._preparing = None
        if self.leaving:
            return self._stop_alone()
        self.phase = Phase.WAITING
        if registered:
            self._retry = self._retry_first
        # Spread out, so that not all executors reach a restarted center at the same moment. Where another center may
        # lead already, the fixed half of the pause is only for sessions that end as soon as they begin.
        half, spread = self._retry // 2, int(self._retry * self._chance() / 2)
        begin = self._since if registered and self._several else self.now
        self._due = {"retry": max(self.now, begin + half) + spread}
        self._retry = min(2 * self._retry, self._retry_most)
        return [*([Say("the connection is gone; trying again")] if registered else []), CloseBoth()]
