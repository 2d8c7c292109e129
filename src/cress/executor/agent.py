"""The agent: connects the center (WebSocket) with the supervisor (Unix socket).

``cress.shell.executor.agent`` makes the decisions. This module has the connections, the clock and the agent's own
services: logs, commands in tasks, checks, load, log cleanup.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

from cress.executor import log_cleanup, ports
from cress.executor.account_rules import write_rules
from cress.executor.bulk import BulkService, serve_bulk
from cress.executor.bundle import BundleError, BundleFolder
from cress.executor.center_wire import BUNDLE_REMEDY, CenterWire, Closed, Impostor, NotReached
from cress.executor.centers import Centers
from cress.executor.checks import Checks
from cress.executor.exec.commands import Send
from cress.executor.exec.helper_process import HelperProcess
from cress.executor.folder import FolderInUseError, Lock, clear_way, named, take_directory
from cress.executor.frames import FrameError
from cress.executor.link import Link, SupervisorError, Supervisors
from cress.executor.load import LoadReporter, Sampler
from cress.executor.node_facts import NodeFacts
from cress.executor.settings import ExecutorSettings
from cress.executor.unvouched import stop_unvouched
from cress.model.reports import Ended, Report, Started
from cress.protocol.messages import BulkOrder, FromAgent, Load, OpenBulk, Reports
from cress.protocol.proof import ProofError
from cress.shell.executor import agent_effects as effects
from cress.shell.executor.agent import REFUSED, Agent, Phase

# Seconds between two checks for a nearly full disk and for old output.
TIDY_LOOK, TIDY_EVERY = 30.0, 600.0


class AgentProgram:
    """The driver of one agent."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self.settings = settings
        self.directory = settings.directory.absolute()
        self.agent = Agent(
            settings.center_url,
            retry=(_micro(settings.retry_first), _micro(settings.retry_most)),
            chance=random.random,
            data_every=_micro(settings.data_look) if settings.data else 0,
            quiet=settings.parent_pipe,  # the parent reports it once for all its children
        )
        self.supervisors = Supervisors(
            self.directory,
            settings.name,
            settings.runtime,
            settings.writable,
            settings.log_size,
            settings.egress,
            settings.task_env,
            settings.hide,
            settings.sources,
        )
        self.helper = HelperProcess(str(self.directory / "attempts"))
        self.checks = Checks(self.directory / "checks", self.helper)
        self.sampler = Sampler(settings.resource, settings.load_every, settings.load_half_life, folder=self.directory)
        self.facts = NodeFacts(settings, self._say)
        self.centers = Centers(
            settings.center_url.split(","),
            settings.token,
            settings.tls,
            ping_interval=settings.ping_interval,
            ping_timeout=settings.ping_timeout,
        )
        self._said = ""
        self._center: CenterWire | None = None
        self._link: Link | None = None
        self._services: list[BulkService] = []  # of the first connection, and of the second one while it is open
        self._session: set[asyncio.Task[None]] = set()  # ended when the connections are closed
        self._jobs: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._asked = 0

    async def run(self) -> int:
        """Hold sessions until told to leave; return the exit code."""
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._listen_to_signals()
        always = [asyncio.create_task(self._tidy()), asyncio.create_task(self.sampler.run())]
        try:
            await self._happen(self.agent.begin)
            return await self._exit
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._close()
            await _cancel(*always, *self._jobs)
            self.checks.close()
            self.helper.close()

    # --- events and effects ----------------------------------------------------------------------------------------

    async def _happen(self, event: Callable[..., list[effects.Effect]], *arguments: Any) -> None:
        """Pass an event to the loop, and carry out the resulting effects."""
        self.agent.now = _boottime()
        effects = event(*arguments)
        self._set_timer()
        for effect in effects:
            await self._carry_out(effect)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.agent.next_due()
        if due is not None:
            self._timer = asyncio.get_running_loop().call_later(
                max(0.0, (due - self.agent.now) / 1e6), lambda: self._start(self._jobs, self._happen(self.agent.tick))
            )

    async def _carry_out(self, effect: effects.Effect) -> None:  # noqa: C901 - a table
        match effect:
            case effects.ToCenter(message):
                if self._center is not None:
                    await self._center.send(message)
            case effects.ToSupervisor(message):
                if self._link is not None:
                    with contextlib.suppress(OSError):
                        await self._link.forward(message)
            case effects.Ordered(launches):
                self.checks.ordered(launches)
            case effects.BeforeReports(ended, without):
                await self._prepare(ended, without)
            case effects.SendingReports(reports):
                self._check(reports)
            case effects.Serve(order):
                self._serve(order)
            case effects.ScanPorts(without):
                self._start(self._session, self._scan(without))
            case effects.LookAtData():
                self._start(self._session, self._look_at_data())
            case effects.ConnectSupervisor(start):
                self._start(self._session, self._talk_to_supervisor(start=start))
            case effects.ConnectCenter():
                self._start(self._session, self._talk_to_center())
            case effects.LookAround(without):
                await self._look_around(without)
            case effects.Registered():
                self._begin_services()
            case effects.KeepCertificate(pem):
                self._keep_certificate(pem)
            case effects.CloseBoth():
                await self._close()
            case effects.Say(sentence):
                self._say(sentence)
            case effects.Exit(code):
                if not self._exit.done():
                    self._exit.set_result(code)

    def _start(self, group: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; an exception ends the program."""

        def over(task: asyncio.Task[None]) -> None:
            group.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None and not self._exit.done():
                self._exit.set_exception(error)

        task = asyncio.create_task(work)
        group.add(task)
        task.add_done_callback(over)

    async def _close(self) -> None:
        """Close both connections, and end the work that needs them."""
        center, link, services = self._center, self._link, self._services
        self._center = self._link = None
        self._services = []
        await _cancel(*(task for task in self._session if task is not asyncio.current_task()))
        for service in services:
            await service.close()
        if link is not None:
            link.close()
        if center is not None:
            await center.close()

    # --- the connections -------------------------------------------------------------------------------------------

    async def _talk_to_supervisor(self, *, start: bool) -> None:
        if start:
            await self.facts.prepare()
            self.sampler.devices = self.facts.devices or ()
        try:
            link = self._link = await self.supervisors.connect(start=start)
        except SupervisorError as error:
            await self._happen(partial(self.agent.supervisor_failed, str(error), permanent=error.permanent))
            return
        await self._happen(self.agent.supervisor_connected, link.inventory)
        with contextlib.suppress(FrameError):
            while (message := await link.receive()) is not None:
                await self._happen(self.agent.from_supervisor, message)
        await self._happen(self.agent.supervisor_closed)

    async def _talk_to_center(self) -> None:
        try:
            center = self._center = await self.centers.connect()
        except NotReached as error:
            await self._happen(partial(self.agent.center_failed, str(error), permanent=error.permanent))
            return
        except ProofError as error:
            await self._happen(self.agent.center_unproven, str(error))
            return
        except Impostor as error:
            await self._happen(self.agent.center_unproven, str(error), BUNDLE_REMEDY)
            return
        await self._happen(self.agent.center_connected)
        try:
            while True:
                await self._happen(self.agent.from_center, await center.receive())
        except (Closed, ProofError) as error:
            await self._happen(self.agent.center_closed, str(error))

    def _keep_certificate(self, pem: bytes) -> None:
        if self.settings.tls is None:
            return
        try:
            BundleFolder(self.settings.tls).keep(pem)
        except BundleError as error:
            self._say(str(error))

    async def _look_around(self, without: frozenset[int]) -> None:
        center = self._center
        if center is None:
            return
        hello = await self.facts.hello(self.agent.inventory, center.address, self.checks.known())
        listening = await asyncio.to_thread(ports.listening)
        await self._happen(self.agent.looked_around, hello, listening - without)

    # --- services of the agent itself --------------------------------------------------------------------------------

    def _begin_services(self) -> None:
        self._services.append(self._service(self._tell))
        self._start(self._session, self._tell_load())
        self._start(self._session, self._tell_checks())
        self._start(self._session, self._watch_facts())
        self._start(self._session, self._watch_centers())

    async def _tell(self, message: FromAgent) -> None:
        await self._happen(self.agent.tell, message)

    async def _tell_load(self) -> None:
        """Report the load of the machine to the center, first at once and then after each noticeable change."""
        reporter = LoadReporter()
        while True:
            load = self.sampler.load
            if reporter.is_due(load, time.monotonic()):
                assert load is not None
                await self._tell(Load(load=load, full=self.sampler.full))
            await self.sampler.fresh()

    async def _tell_checks(self) -> None:
        """Report the results of checks to the center when they change."""
        while True:
            await self._tell(Reports(reports=await self.checks.news()))

    async def _watch_facts(self) -> None:
        await self.facts.changed()
        await self._happen(self.agent.facts_changed)

    async def _watch_centers(self) -> None:
        center, before = self._center, -1

        def is_silent() -> bool:
            """Return whether reports wait for an answer, and none has come since the last call."""
            nonlocal before
            heard = 0 if center is None else center.heard
            nothing, before = heard == before, heard
            return nothing and bool(self.agent.unconfirmed)

        await self.centers.moved(is_silent)
        await self._happen(self.agent.center_moved)

    async def _prepare(self, ended: tuple[int, ...], without: frozenset[int] | None) -> None:
        for attempt in ended:
            self.checks.ended(attempt)
            for service in self._services:
                await service.ended(attempt)
        listening = None if without is None else await asyncio.to_thread(ports.listening) - without
        await self._happen(self.agent.reports_ready, listening)

    def _check(self, reports: tuple[Report, ...]) -> None:
        for report in reports:
            if isinstance(report, Started):
                self.checks.started(report)
            elif isinstance(report, Ended):
                self.checks.ended(report.attempt)

    async def _scan(self, without: frozenset[int]) -> None:
        listening = await asyncio.to_thread(ports.listening)
        await self._happen(self.agent.ports_scanned, listening - without)

    async def _look_at_data(self) -> None:
        await self._happen(self.agent.data_found, await self.facts.datasets.look())

    def _serve(self, order: BulkOrder | OpenBulk) -> None:
        if isinstance(order, OpenBulk):
            self._start(self._session, self._talk_in_bulk(order.ticket))
        elif self._services:
            self._services[0].obey(order)

    def _service(self, send: Send) -> BulkService:
        return BulkService(self.directory / "attempts", self.agent, self.helper, send, self._is_contained)

    def _is_contained(self, runtime: str) -> bool:
        """Return whether tasks of a job with this runtime may be in containers."""
        return (runtime or self.settings.runtime) != "process"

    async def _talk_in_bulk(self, ticket: str) -> None:
        with contextlib.suppress(NotReached, ProofError, Impostor):
            await serve_bulk(self.settings.name, ticket, self.centers.connect_again(), self._second_service)

    @contextlib.asynccontextmanager
    async def _second_service(self, send: Send) -> AsyncIterator[BulkService]:
        service = self._service(send)
        self._services.append(service)
        try:
            yield service
        finally:
            if service in self._services:
                self._services.remove(service)
            await service.close()

    async def _tidy(self) -> None:
        """Remove old output of tasks at intervals, but only while the running tasks are known."""
        folder = self.directory / "attempts"
        due = 0.0
        while True:
            await asyncio.sleep(TIDY_LOOK)
            if self.agent.phase is not Phase.REGISTERED:
                continue
            with contextlib.suppress(OSError):
                if time.monotonic() < due and not await asyncio.to_thread(log_cleanup.nearly_full, folder):
                    continue
                due = time.monotonic() + TIDY_EVERY
                busy = self.agent.live | self.agent.unconfirmed
                age, size = self.settings.keep_logs, self.settings.keep_logs_size
                await asyncio.to_thread(
                    partial(log_cleanup.remove_old_output, folder, busy, age=age, size=size, now=time.time())
                )

    # --- leaving -----------------------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_leave)
        # The keeper blocks these signals until this point.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        # SIGHUP is ignored: an agent reads no file again, and the loss of a terminal must not stop a node.
        loop.add_signal_handler(signal.SIGHUP, self._say, "SIGHUP: an executor has nothing to read again")
        if self.settings.parent_pipe:
            os.set_blocking(0, False)
            loop.add_reader(0, self._on_parent)

    def _on_parent(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(0, 4096):
                asyncio.get_running_loop().remove_reader(0)
                # The death of the parent is no order to stop the tasks.
                self._leave(keep=self.settings.keep_tasks or not self._asked)

    def _asked_to_leave(self) -> None:
        self._asked += 1
        if self._asked == 1:
            self._leave(keep=self.settings.keep_tasks)
        elif not self.settings.keep_tasks:
            self._start(self._jobs, self._happen(self.agent.hurry))

    def _leave(self, *, keep: bool) -> None:
        if not self.agent.leaving:
            self._start(self._jobs, self._happen(partial(self.agent.leave, _micro(self.settings.grace), keep=keep)))

    def _say(self, sentence: str) -> None:
        """Print a message for the operator, once."""
        if sentence != self._said:
            self._said = sentence
            print(time.strftime("%Y-%m-%d %H:%M:%S"), sentence, file=sys.stderr, flush=True)  # noqa: T201


def main(settings: ExecutorSettings) -> int:
    """Run an agent; see ``cress.executor.run``."""
    directory = settings.directory.absolute()
    lock = Lock(directory / "agent.lock", "executor")
    try:
        for sentence in clear_way(directory):
            print(sentence, file=sys.stderr, flush=True)  # noqa: T201
        take_directory(directory, lock)
        write_rules(directory, settings.accounts)
    except FolderInUseError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return REFUSED
    except OSError as error:
        print(f"{named(error, directory)}; correct that, and start the executor again", file=sys.stderr)  # noqa: T201
        stopped = stop_unvouched(directory)
        if stopped:
            print(f"{stopped} tasks were stopped, since nothing watches their terms", file=sys.stderr)  # noqa: T201
        return REFUSED

    async def run() -> int:
        return await AgentProgram(settings).run()

    try:
        return asyncio.run(run())
    finally:
        lock.give()


def _micro(seconds: float) -> int:
    return round(seconds * 1e6)


def _boottime() -> int:
    """Return the microseconds since the machine started, including sleep: the supervisor's clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
