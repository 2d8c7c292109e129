"""The agent: between the center (WebSocket) and the supervisor (Unix socket), and nothing that tasks depend on.

A session is one connection to each side: the supervisor's inventory opens it and becomes the reports of ``Hello``,
every message after it is handed on in order. So what the center has heard is exact, whatever was lost before; when
either side is gone, both connections are closed and the next session begins. The supervisor comes first: even while no
center can be reached somebody must be there to stop tasks when their time or the node's term is over.

Beats carry the clock that the supervisor reads too; the center's answers are for the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from cress.executor import devices, facts, logs, tidy
from cress.executor.background import in_background
from cress.executor.checks import Checks
from cress.executor.datasets import Datasets
from cress.executor.doors import Doors
from cress.executor.execs import Execs
from cress.executor.folder import FolderInUseError, Lock, make
from cress.executor.frames import FrameError
from cress.executor.link import Link, SupervisorError, Supervisors
from cress.executor.load import Sampler, Teller
from cress.executor.settings import Settings
from cress.executor.strangers import Strangers, stood_in_the_way
from cress.executor.versions import versions
from cress.model.attributes import with_labels
from cress.model.node import DISK_KIND, Device, Supervisor, Value
from cress.model.reports import Ended, Report, Started
from cress.protocol.messages import (
    Beat,
    Data,
    Devices,
    Durable,
    Exec,
    ExecInput,
    ExecOver,
    ExecSize,
    FromAgent,
    Hello,
    Inventory,
    Launches,
    Load,
    Ports,
    ReadLog,
    Refused,
    Reports,
    Shutdown,
    Welcome,
    decode_from_center,
    decode_from_supervisor,
    encode,
)

OK, REFUSED = 0, 3

# Seconds: for the handshake and the center's first answer; for what remains to be said after the tasks' grace.
OPEN_TIMEOUT = 10.0
LAST_WORDS = 1.8
# Orders for 100,000 attempts are 3 MB.
MOST_MESSAGE = 256 * 1024 * 1024
# Seconds between two looks whether the disk is nearly full, and whether something is old.
TIDY_LOOK, TIDY_EVERY = 30.0, 600.0
# Requests for logs that may wait at a time.
MOST_READS = 1_000
# Seconds between two looks at the ports that are listened on; it costs a millisecond.
SCAN = 2.0
# Seconds that a node waits to be registered until its compilers have said their versions.
VERSIONS = 1.0
# Beats in one term, so that several may be late.
BEATS = 6
# For trials: the machine seems to be another one than the center's, so that terms hold for its executors.
PRETENDED_BOOT = "CRESS_PRETENDED_BOOT"


class RefusedError(Exception):
    """The center does not want this executor; the sentence says why. ``permanent``: not later either."""

    def __init__(self, what: str, *, permanent: bool) -> None:
        super().__init__(what)
        self.permanent = permanent


class Agent:
    """One run of an agent."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.directory = settings.directory.absolute()
        self.supervisors = Supervisors(
            self.directory, settings.name, settings.runtime, settings.writable, settings.log_size, settings.egress
        )
        self.live: set[int] = set()  # attempts that may still write
        self.first: dict[int, int] = {}  # the first process of each attempt that runs
        self.doors = Doors(str(self.directory / "attempts"))
        self.checks = Checks(self.directory / "checks", self.doors)
        self.unconfirmed: set[int] = set()  # attempts that ended, and the center has not said that it knows
        self.strangers = Strangers()
        self.sampler = Sampler(settings.resource, settings.load_every, settings.load_half_life)
        self.datasets = Datasets(settings.data, self._say)
        self.versions: dict[str, str] = {}  # of compilers, as far as they have said them
        self.asking: asyncio.Future[dict[str, str]] | None = None
        self.devices: tuple[Device, ...] | None = None  # once they are known
        self.leaving = asyncio.Event()
        self.keep = settings.keep_tasks
        self._asked = 0
        self._said = ""
        self._link: Link | None = None
        self._jobs: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Hold sessions until told to leave; the exit code."""
        self._listen_to_the_world()
        retry = self.settings.retry_first
        session: asyncio.Task[bool] | None = None
        leaving = asyncio.create_task(self.leaving.wait())
        tidying = asyncio.create_task(self._tidy())
        sampling = asyncio.create_task(self.sampler.run())
        try:
            while not self.leaving.is_set():
                session = asyncio.create_task(self._session())
                await asyncio.wait({session, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if self.leaving.is_set():
                    break
                try:
                    if session.result():
                        retry = self.settings.retry_first
                except (RefusedError, SupervisorError) as error:
                    self._say(f"{error}" if error.permanent else f"{error}; trying again")
                    if error.permanent:
                        await self._shut_down_alone(idle=True)
                        return REFUSED
                # Spread out, so that a restarted center does not get all its executors in the same moment.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(leaving), retry * random.uniform(0.5, 1.0))  # noqa: S311
                retry = min(2 * retry, self.settings.retry_most)
            return OK if self.keep else await self._shut_down(session)
        finally:
            await _cancel(leaving, session, tidying, sampling, *self._jobs)
            self.checks.close()
            self.doors.close()

    async def _session(self) -> bool:
        """Connect to both sides and hand on until one is gone; whether the center took us."""
        if self.devices is None:
            self.devices = self.sampler.devices = await in_background(self._devices)
        if self.asking is None or self.asking.done():
            self.asking = in_background(partial(versions, self.directory))
        link = await self.supervisors.connect()
        try:
            async with connect(
                self.settings.center_url,
                additional_headers={"Authorization": f"Bearer {self.settings.token}"},
                open_timeout=OPEN_TIMEOUT,
                close_timeout=1.0,
                ping_interval=self.settings.ping_interval,
                ping_timeout=self.settings.ping_timeout,
                max_size=MOST_MESSAGE,
                compression=None,
                proxy=None,
            ) as center:
                return await self._register(center, link)
        except InvalidStatus as error:
            raise self._refusal(error) from None
        except InvalidURI:
            raise RefusedError(
                f"{self.settings.center_url!r} is not an address of a center (ws://host:port)", permanent=True
            ) from None
        except (OSError, InvalidHandshake, EOFError) as error:
            self._say(f"the center at {self.settings.center_url} cannot be reached ({_why(error)}); trying again")
        finally:
            link.close()
        return False

    def _refusal(self, error: InvalidStatus) -> RefusedError:
        code = error.response.status_code
        if code in (401, 403):
            return RefusedError(
                f"the center at {self.settings.center_url} does not know this executor's token (HTTP {code}); "
                "give it the token of the center's data directory",
                permanent=True,
            )
        return RefusedError(f"the center at {self.settings.center_url} answers with HTTP {code}", permanent=False)

    async def _register(self, center: ClientConnection, link: Link) -> bool:
        try:
            self.first.clear()
            self._take_in(link.inventory.reports)
            self._begin_checks(link.inventory.reports)
            self.strangers.begin(link.inventory.ports)
            known = await self._versions(VERSIONS)
            self.strangers.told = await self.strangers.look()
            data = await self.datasets.look()
            await center.send(encode(self._hello(center, link, known, data)))
            try:
                answer = decode_from_center(await asyncio.wait_for(_receive(center), OPEN_TIMEOUT))
            except (ConnectionClosed, TimeoutError, msgspec.DecodeError) as error:
                self._say(f"the center at {self.settings.center_url} does not answer ({_why(error)}); trying again")
                return False
            if isinstance(answer, Refused):
                hint = f" ({answer.hint})" if answer.hint else ""
                raise RefusedError(f"the center refused this executor: {answer.what}{hint}", permanent=answer.permanent)
            if not isinstance(answer, Welcome):
                raise RefusedError(f"the center answered a hello with {type(answer).__name__}", permanent=False)
            if not self.settings.parent_pipe:  # else the parent says so, for all its children at once
                self._say(f"node {self.settings.name} is registered at {self.settings.center_url}")
            self._link = link
            execs = Execs(self.doors, lambda attempt: self.first.get(attempt, 0), partial(_tell, center))
            kinds = (DISK_KIND, *answer.kinds)
            await link.send(Devices(devices=tuple(each for each in self.devices or () if each.kind in kinds)))
            await link.send(answer)
            if self.leaving.is_set() and not self.keep:
                await link.send(self._shutdown())
            try:
                await _first_of(
                    self._from_center(center, link, execs),
                    self._from_supervisor(center, link, execs),
                    self._beat(center, answer.term),
                    self._watch_ports(center),
                    self._watch_data(center, data),
                    self._tell_load(center),
                    self._tell_checks(center),
                    self._late_versions(known),
                )
            finally:
                await execs.close()
            if not self.leaving.is_set():
                self._say("the connection is gone; trying again")
            return True
        finally:
            self._link = None

    def _hello(self, center: ClientConnection, link: Link, found: Mapping[str, str], data: tuple[str, ...]) -> Hello:
        known = link.inventory
        return Hello(
            version=known.version,
            name=self.settings.name,
            resource=self.settings.resource
            or facts.resource(disks=any(each.kind == DISK_KIND for each in self.devices or ())),
            boot=os.environ.get(PRETENDED_BOOT, known.boot),
            rack=self.settings.rack,
            address=self.settings.address or center.local_address[0],
            attributes=with_labels({**facts.attributes(), **_containers(known), **found}, self.settings.labels),
            ports=self.settings.ports,
            listening=self.strangers.told or (),
            reports=(*known.reports, *self.checks.known()),
            sent=_boottime(),
            bound=known.bound,
            epoch=known.epoch,
            cluster=known.cluster,
            supervisor=Supervisor(known.pid, known.ticks, known.attempts),
            unlimited=known.unlimited,
            data=data,
            judged=self.settings.judged,
            devices=self.devices or (),
        )

    def _devices(self) -> tuple[Device, ...]:
        """Those of this node; a disk without its folder is left out, and said."""
        found = []
        for each in devices.of_node(self.settings):
            if each.kind == DISK_KIND and not os.path.isdir(each.path):  # noqa: PTH112
                self._say(f"{each.path} is not a folder: the node goes without the disk {each.id}")
            else:
                found.append(each)
        return tuple(found)

    async def _versions(self, patience: float | None) -> dict[str, str]:
        """The versions of compilers, as they are known after ``patience`` seconds at most."""
        assert self.asking is not None
        await asyncio.wait({self.asking}, timeout=patience)
        if self.asking.done():
            self.versions = self.asking.result()
        return self.versions

    async def _late_versions(self, told: dict[str, str]) -> None:
        """Return when other versions are known than the center was told: the next session tells them."""
        if await self._versions(None) == told:
            await asyncio.Event().wait()

    async def _tell_load(self, center: ClientConnection) -> None:
        """Tell the center how busy the machine is: at first, and when that is noticeably otherwise."""
        teller = Teller()
        with contextlib.suppress(ConnectionClosed):
            while True:
                load = self.sampler.load
                if teller.news(load, time.monotonic()):
                    assert load is not None
                    await center.send(encode(Load(load=load)))
                await self.sampler.fresh()

    async def _watch_ports(self, center: ClientConnection) -> None:
        """Tell the center when strangers begin or cease to listen."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(SCAN)
                await self._tell_ports(center)

    async def _tell_ports(self, center: ClientConnection) -> None:
        found = await self.strangers.news()
        if found is not None:
            await center.send(encode(Ports(ports=found)))

    async def _watch_data(self, center: ClientConnection, told: tuple[str, ...]) -> None:
        """Tell the center when paths of data come or go."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(self.settings.data_look)
                found = await self.datasets.look()
                if found != told:
                    await center.send(encode(Data(data=found)))
                    told = found

    async def _beat(self, center: ClientConnection, term: int) -> None:
        """Ask for terms, often enough; where none holds, never."""
        if not term:
            await asyncio.Event().wait()
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(term / 1e6 / BEATS)
                await center.send(encode(Beat(sent=_boottime())))

    async def _from_center(self, center: ClientConnection, link: Link, execs: Execs) -> None:
        """Hand orders on; answer what is for the agent itself."""
        try:
            while True:
                message = await _receive(center)
                order = decode_from_center(message)
                if isinstance(order, ReadLog):
                    self._read_log(center, order)
                elif isinstance(order, (Exec, ExecInput, ExecSize, ExecOver)):
                    execs.obey(order)
                elif isinstance(order, Refused):
                    return
                else:
                    if isinstance(order, Launches):
                        self.live.update(launch.attempt for launch in order.launches)
                        self.checks.ordered(order)
                        self.strangers.launched(order.launches)
                    await link.forward(message)
                    if isinstance(order, Durable) and order.epoch >= link.inventory.epoch:
                        self.unconfirmed.difference_update(order.attempts)
        except msgspec.DecodeError as error:
            self._say(f"the center sent what is not a message ({error}); connecting anew")
        except (ConnectionClosed, OSError):
            return

    async def _from_supervisor(self, center: ClientConnection, link: Link, execs: Execs) -> None:
        """Hand reports on."""
        with contextlib.suppress(ConnectionClosed, FrameError):
            while (message := await link.receive()) is not None:
                reports = decode_from_supervisor(message)
                if isinstance(reports, Reports):
                    self._take_in(reports.reports)
                    for report in reports.reports:
                        if isinstance(report, Ended):
                            await execs.ended(report.attempt)
                    taken = stood_in_the_way(reports.reports)
                    if taken:
                        # First who has it, so that the next try is elsewhere.
                        await self._tell_ports(center)
                    await center.send(message)
                    self._begin_checks(reports.reports)
                    if taken:
                        # The center counts the port as taken until it is told again.
                        self.strangers.told = None

    def _take_in(self, reports: tuple[Report, ...]) -> None:
        for report in reports:
            if isinstance(report, Started):
                self.live.add(report.attempt)
                self.first[report.attempt] = report.pid
            elif isinstance(report, Ended):
                self.live.discard(report.attempt)
                self.first.pop(report.attempt, None)
                self.checks.ended(report.attempt)
                self.strangers.ended(report.attempt)
                self.unconfirmed.add(report.attempt)

    def _begin_checks(self, reports: tuple[Report, ...]) -> None:
        """Check what has started: once the center has been told so, since what it hears of others is nothing to it."""
        for report in reports:
            if isinstance(report, Started):
                self.checks.started(report)

    async def _tell_checks(self, center: ClientConnection) -> None:
        """Tell the center what checks find, when it changes."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await center.send(encode(Reports(reports=await self.checks.news())))

    def _read_log(self, center: ClientConnection, order: ReadLog) -> None:
        async def answer() -> None:
            data = await logs.read(self.directory / "attempts", order, self.live.__contains__)
            with contextlib.suppress(ConnectionClosed):
                await center.send(encode(data))

        if len(self._jobs) >= MOST_READS:
            order = msgspec.structs.replace(order, wait=0)
        job = asyncio.create_task(answer())
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def _tidy(self) -> None:
        """Now and then remove what tasks wrote long ago; only while it is known which of them run."""
        folder = self.directory / "attempts"
        due = 0.0
        while True:
            await asyncio.sleep(TIDY_LOOK)
            if self._link is None:
                continue
            with contextlib.suppress(OSError):
                if time.monotonic() < due and not await asyncio.to_thread(tidy.nearly_full, folder):
                    continue
                due = time.monotonic() + TIDY_EVERY
                busy = self.live | self.unconfirmed
                age, size = self.settings.keep_logs, self.settings.keep_logs_size
                await asyncio.to_thread(partial(tidy.tidy, folder, busy, age=age, size=size, now=time.time()))

    # --- leaving ---------------------------------------------------------------------------------------------------

    def _listen_to_the_world(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_leave)
        if self.settings.parent_pipe:
            os.set_blocking(0, False)
            loop.add_reader(0, self._on_parent)

    def _on_parent(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(0, 4096):
                asyncio.get_running_loop().remove_reader(0)
                # The parent was killed: nobody asked for the tasks to be stopped.
                self.keep = self.keep or not self._asked
                self.leaving.set()

    def _asked_to_leave(self) -> None:
        self._asked += 1
        self.leaving.set()
        if self._asked > 1 and self._link is not None and not self.keep:
            # Asked twice: without the tasks' grace.
            job = asyncio.ensure_future(self._link.send(Shutdown(grace=0)))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    def _shutdown(self) -> Shutdown:
        return Shutdown(grace=round(self.settings.grace * 1e6))

    async def _shut_down(self, session: asyncio.Task[bool] | None) -> int:
        """Have the supervisor stop all tasks and wait until it is gone, while its reports still pass through."""
        try:
            async with asyncio.timeout(self.settings.grace + LAST_WORDS):
                if self._link is not None and session is not None:
                    with contextlib.suppress(OSError):
                        await self._link.send(self._shutdown())
                    with contextlib.suppress(RefusedError, SupervisorError):
                        await session
                else:
                    await _cancel(session)
                await self._shut_down_alone()
        except TimeoutError:
            self._say("the supervisor still waits for tasks to end; it goes on doing so")
        return OK

    async def _shut_down_alone(self, *, idle: bool = False) -> None:
        """The same without a center; its supervisor keeps what it has to say for the next time.

        ``idle``: only if it has nothing to do and nothing to say.
        """
        try:
            link = await self.supervisors.connect(start=False)
        except SupervisorError:
            return
        with contextlib.suppress(OSError, FrameError):
            if idle and link.inventory.reports:
                link.close()
                return
            await link.send(self._shutdown())
            while await link.receive() is not None:
                pass
        link.close()

    def _say(self, sentence: str) -> None:
        """Tell the operator, once."""
        if sentence != self._said:
            self._said = sentence
            print(time.strftime("%Y-%m-%d %H:%M:%S"), sentence, file=sys.stderr, flush=True)  # noqa: T201


def main(settings: Settings) -> int:
    """Run an agent; see ``cress.executor.run``."""
    lock = Lock(settings.directory.absolute() / "agent.lock", "executor")
    try:
        make(settings.directory.absolute())
        lock.take()
    except FolderInUseError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return REFUSED
    except OSError as error:
        print(f"{settings.directory}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return REFUSED

    async def run() -> int:
        return await Agent(settings).run()

    try:
        return asyncio.run(run())
    finally:
        lock.give()


def _containers(known: Inventory) -> dict[str, Value]:
    """What constraints may ask for: whether containers can be run, and what makes them."""
    return {"Container": True, "ContainerEngine": known.container} if known.container else {"Container": False}


def _boottime() -> int:
    """Microseconds since the machine was started, time asleep included: the supervisor's clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


async def _tell(center: ClientConnection, message: FromAgent) -> None:
    await center.send(encode(message))


async def _receive(center: ClientConnection) -> bytes:
    message = await center.recv(decode=False)
    assert isinstance(message, bytes)
    return message


async def _first_of(*jobs: Coroutine[Any, Any, None]) -> None:
    """Run these until the first ends; the others are cancelled."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _cancel(*tasks)


async def _cancel(*tasks: asyncio.Task[Any] | None) -> None:
    for task in tasks:
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


def _why(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
