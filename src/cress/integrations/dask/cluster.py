"""A Dask cluster whose workers are leases (docs/dask.md)."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

from dask.utils import parse_bytes
from distributed import Scheduler, Security, Status
from distributed.deploy.adaptive import Adaptive
from distributed.deploy.cluster import Cluster
from distributed.deploy.spec import SpecCluster
from distributed.utils import NoOpAwaitable

from cress.client import LeaseView, waiting
from cress.client.blocking.client import Client
from cress.client.errors import ClientError
from cress.client.job_keywords import Duration
from cress.client.lease_keywords import LeaseKeys
from cress.integrations.dask.adapting import LeaseAdaptive
from cress.integrations.dask.ask import Ask, made, seconds_of
from cress.integrations.dask.holder import Holder
from cress.integrations.dask.lease import WorkerLease
from cress.integrations.dask.lending import Lending
from cress.integrations.dask.retiring import retire
from cress.model.errors import InputError

logger = logging.getLogger(__name__)
# Successive leases without a worker at the scheduler after which no more are requested.
MOST_FAILURES = 3
# Seconds until a lease whose program failed is requested again: at first, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
# Seconds for which leases taken together are collected, so that no data move from one to the other.
GATHER = 0.05
_TLS = ("tls_ca_file", "tls_worker_cert", "tls_worker_key")


class CressCluster(SpecCluster):
    """A Dask cluster on Cress: the Dask scheduler runs here, and each lease of the cluster has ``processes`` workers.

    ``cores`` and ``memory`` are those of one lease. ``group``, ``job_extra`` and further keywords are keys of its
    request (``priority=``, ``requirement=``, ``min_time=``, ``term=`` …), ``env`` is its environment. ``python`` runs
    the workers, and needs ``cress[dask]`` of this version. ``death_timeout`` is the time for which a worker looks for
    the scheduler. The scheduler listens at ``host`` or ``interface``, which nodes must be able to reach. After
    ``lend_after`` without tasks a lease is reported idle, so that others may borrow it; ``None``: never. ``url`` and
    ``token``, or ``data``, name the center, as in ``cress.Client``. The other keywords are those of ``SpecCluster``;
    ``worker_options`` and ``scheduler_options`` are those of ``distributed.Worker`` and ``distributed.Scheduler``.

    Raises ``InputError``, ``NoCenter`` and ``ClientError``, also at once for a request that the center refuses.
    """

    def __init__(
        self,
        *,
        cores: float,
        memory: str | int,
        processes: int = 1,
        n_workers: int = 0,
        group: str | None = None,
        workload: str | None = None,
        job_extra: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
        local_directory: str | Path = "",
        death_timeout: Duration | None = 60.0,
        lend_after: Duration | None = 5.0,
        host: str | None = None,
        interface: str | None = None,
        dashboard_address: str = ":8787",
        scheduler_options: Mapping[str, Any] | None = None,
        worker_options: Mapping[str, Any] | None = None,
        security: Security | None = None,
        name: str | None = None,
        asynchronous: bool = False,
        loop: Any = None,
        silence_logs: int | str | bool = logging.WARNING,
        shutdown_on_close: bool = True,
        url: str | None = None,
        token: str | None = None,
        data: Path | str | None = None,
        **keys: Unpack[LeaseKeys],
    ) -> None:
        name = name or f"dask-{secrets.token_hex(4)}"
        options = {**({"interface": interface} if interface else {}), **(worker_options or {})}
        self.ask: Ask = made(
            # A workload for this cluster alone, since a renewal renews all leases of a workload.
            workload=workload or (name if name.startswith("dask-") else f"{name}-{secrets.token_hex(4)}"),
            cores=cores,
            memory=memory,
            processes=processes,
            death_timeout=death_timeout,
            env=env,
            job_extra=job_extra,
            keys={"group": group, **keys},
            python=python,
            local_directory=str(local_directory),
            options=options,
            tls=_tls(security),
        )
        self._lend_after = seconds_of(lend_after, "lend_after")
        self._place: dict[str, Any] = {"url": url, "token": token, "data": data}
        self._holder: Holder | None = None
        self._leases: dict[int, WorkerLease] = {}
        self._taken: set[WorkerLease] = set()
        self._failures = 0
        self._chores: set[asyncio.Task[None]] = set()
        # Checked before anything is started, so that a mistake gives one error.
        self._checked = not asynchronous
        if self._checked:
            with Client(**self._place) as client:
                client.leases.check(**self.ask.request(name, "tcp://"))
        scheduler = {
            "port": 0,
            "host": host,
            "interface": interface,
            "dashboard_address": dashboard_address,
            "security": security,
            **(scheduler_options or {}),
        }
        lease: dict[str, Any] = {"cls": WorkerLease, "options": {"cluster": self}}
        if self.ask.processes > 1:
            lease["group"] = self.ask.suffixes
        super().__init__(
            workers={f"{name}-{number}": lease for number in range(math.ceil(n_workers / processes))},
            scheduler={"cls": Scheduler, "options": scheduler},
            worker=lease,
            asynchronous=asynchronous,
            loop=loop,
            security=security,
            silence_logs=silence_logs,
            name=name,
            shutdown_on_close=shutdown_on_close,
        )

    # --- Dask's own interface -----------------------------------------------------------------------------------------

    def scale(  # type: ignore[override]  # as Dask's own: its bases do not agree
        self, n: int = 0, memory: str | None = None, cores: float | None = None, *, jobs: int = 0
    ) -> NoOpAwaitable | None:
        """Scale to ``n`` workers, ``jobs`` leases, or leases with this memory or these cores, whichever is most."""
        for field, value in (("n", n), ("jobs", jobs), ("cores", cores or 0)):
            if value < 0:
                raise InputError(f"{value} is less than nothing", hint="0 or more", field=field)
        wanted = max(
            jobs,
            math.ceil(n / self.ask.processes),
            math.ceil(parse_bytes(memory or 0) / self.ask.memory),
            math.ceil((cores or 0) / self.ask.cores),
        )
        spare = len(self.worker_spec) - wanted
        if spare > 0:
            # Waiting leases first, then the youngest.
            youngest = list(self.worker_spec)[::-1]
            for name in sorted(youngest, key=self._joined)[:spare]:
                del self.worker_spec[name]
        if self.status not in (Status.closing, Status.closed):
            while len(self.worker_spec) < wanted:
                self.worker_spec.update(self.new_worker_spec())
        self._failures = 0
        assert self.loop is not None, "a cluster has a loop"
        self.loop.add_callback(self._scaled)
        return NoOpAwaitable() if self.asynchronous else None

    scale_up = scale

    def adapt(
        self,
        Adaptive: type[Adaptive] = LeaseAdaptive,  # noqa: N803 – as Dask calls it
        minimum: float = 0,
        maximum: float = math.inf,
        minimum_cores: float | None = None,
        maximum_cores: float | None = None,
        minimum_memory: str | None = None,
        maximum_memory: str | None = None,
        *,
        minimum_jobs: int | None = None,
        maximum_jobs: int | None = None,
        **more: Any,
    ) -> Adaptive:
        """Adapt the number of workers to the tasks, between ``minimum`` and ``maximum``.

        The bounds may also be leases (``minimum_jobs``, ``maximum_jobs``), cores or memory. Further keywords are those
        of ``distributed.Adaptive``. Raises ``InputError``.
        """
        processes, ask = self.ask.processes, self.ask
        least = max(
            minimum or 0,
            (minimum_jobs or 0) * processes,
            math.ceil((minimum_cores or 0) / ask.cores) * processes,
            math.ceil(parse_bytes(minimum_memory or 0) / ask.memory) * processes,
        )
        most = min(
            maximum,
            math.inf if maximum_jobs is None else maximum_jobs * processes,
            math.inf if maximum_cores is None else math.floor(maximum_cores / ask.cores) * processes,
            math.inf if maximum_memory is None else math.floor(parse_bytes(maximum_memory) / ask.memory) * processes,
        )
        if least < 0:
            raise InputError(f"a minimum of {least}", hint="0 or more", field="minimum")
        if least > most:
            raise InputError(
                f"the minimum of {least} workers is more than the maximum of {most}",
                hint="minimum <= maximum",
                field="minimum",
            )
        self._failures = 0
        if issubclass(Adaptive, LeaseAdaptive):
            more["processes"] = processes
        return Cluster.adapt(self, Adaptive, minimum=least, maximum=most, **more)

    def job_script(self) -> str:
        """Return the request of each lease as YAML."""
        address = "tcp://…" if self.scheduler is None else self.scheduler.address
        return self.ask.text(self._new_worker_name(0), address)

    @property
    def workload(self) -> str:
        """The workload of the leases: ``cress leases --workload …``."""
        return self.ask.workload

    # --- leases ------------------------------------------------------------------------------------------------------

    async def request(self, lease: WorkerLease) -> None:
        """Request a lease. Raises ``ClientError``."""
        assert self._holder is not None, "the cluster has been started"
        view = await self._holder.request(lease.name, lease.scheduler)
        lease.job = view.job or 0
        self._leases[lease.job] = lease
        # The answer may have come late, after a restart of the center.
        there = {worker["name"] for worker in self.scheduler_info["workers"].values()}
        lease.joined = any(name in there for name in lease.workers)
        self._heard(view)
        self._begin(self._tell_waiting(lease))

    async def _tell_waiting(self, lease: WorkerLease) -> None:
        """Warn that the cluster has no worker because its first lease waits, and say why."""
        await asyncio.sleep(waiting.TELL_AFTER)
        view, first = lease.view, next(iter(self._leases.values()), None)
        if lease is first and view is not None and view.state == "waiting" and not any(map(self._joined, self.workers)):
            self._note(f"no worker runs yet: {lease.name} waits for a lease: {view.reason}", level=logging.WARNING)

    async def give_back(self, lease: WorkerLease) -> None:
        """Retire the workers of a lease while the cluster goes on, and return the lease."""
        assert self._holder is not None, "the cluster has been started"
        if self.status is Status.running:
            await retire(self.scheduler, lease.workers, until=0.0, close=True)
        if lease.job:
            await self._holder.release(lease.job)

    def _heard(self, view: LeaseView) -> None:
        """Process the new view of a lease."""
        assert view.job is not None, "only requests are watched"
        lease = self._leases.get(view.job)
        if lease is None:
            return
        lease.view = view
        if view.state == "over":
            del self._leases[view.job]
            if not lease.released:
                self._begin(self._lost(lease))
        elif view.state == "stopping" and not lease.released and lease.taken != view.attempt:
            lease.taken = view.attempt
            if not self._taken:
                self._begin(self._retire_taken())
            self._taken.add(lease)
        elif view.state == "waiting" and lease.joined:
            lease.joined = False
            self._note(f"{lease.name} waits for a lease again: {view.reason}")

    async def _retire_taken(self) -> None:
        """Move the data of leases that the center takes away, within their remaining time."""
        await asyncio.sleep(GATHER)
        taken, self._taken = self._taken, set()
        views = [lease.view for lease in taken if lease.view is not None]
        until = min((view.stops_at or 0.0 for view in views), default=0.0)
        for lease in taken:
            if lease.view is not None:
                self._note(f"lease {lease.view.id} of {lease.name} is taken: {lease.view.reason}")
        names = [name for lease in taken for name in lease.workers]
        if not await retire(self.scheduler, names, until=until, close=False):
            self._note("not all data could be moved: no other worker had room; what is missing is computed again")

    async def _lost(self, lease: WorkerLease) -> None:
        """Request a lease again that ended without being returned."""
        assert self._holder is not None, "the cluster has been started"
        lease.gone()
        if self.workers.get(lease.name) is lease:
            del self.workers[lease.name]
        failed, why = await self._holder.reason(lease.job)
        self._note(f"lease {lease.job} of {lease.name} is over: {why}")
        self._failures = self._failures + 1 if failed and not lease.joined else 0
        if self._failures >= MOST_FAILURES:
            if self._adaptive is not None:
                self._adaptive.stop(reason="workers fail")
            self.worker_spec.clear()
            self._note(
                f"no more leases are asked for: the workers of {self._failures} of them did not start; {why}",
                level=logging.ERROR,
            )
        else:
            await asyncio.sleep(min(FIRST_PAUSE * 2**self._failures, LONGEST_PAUSE) if failed else 0.0)
        await self._scaled()

    async def _scaled(self) -> None:
        """Request missing leases and return surplus ones; log refusals."""
        if self.status in (Status.closing, Status.closed):
            return
        try:
            await self._correct_state()
        except (ClientError, InputError) as error:
            self._note(f"a lease was refused: {error}", level=logging.ERROR)

    async def _correct_state_internal(self) -> None:
        try:
            await super()._correct_state_internal()
        finally:
            for name in [name for name, lease in self.workers.items() if lease.status is Status.failed]:
                del self.workers[name]
                self.worker_spec.pop(name, None)

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Note new workers. Leases report lost ones, since Dask would return leases that only wait again."""
        if op == "add":
            known = {name: lease for lease in self._leases.values() for name in lease.workers}
            for worker in msg["workers"].values():
                if lease := known.get(worker["name"]):
                    lease.joined = True
        Cluster._update_worker_status(self, op, msg)  # noqa: SLF001 – it is ours too

    def _joined(self, name: str) -> bool:
        lease = self.workers.get(name)
        return lease is not None and lease.joined

    def _new_worker_name(self, worker_number: int) -> str:
        return f"{self.name}-{worker_number}"

    # --- begin and end -----------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        if self.status in (Status.running, Status.starting):
            await super()._start()
            return
        holder = self._holder = Holder(self.ask, self._heard, **self._place)
        if not self._checked:
            try:
                await holder.client.leases.check(**self.ask.request(self.name, "tcp://"))
            except BaseException:
                await holder.client.close()
                await super()._close()
                raise
        await super()._start()
        assert self.scheduler is not None, "it has been started"
        holder.begin()
        if self._lend_after is not None:
            lending = Lending(self.scheduler, holder, lambda: list(self._leases.values()), self._lend_after)
            self.scheduler.add_plugin(lending, name="cress-lending")
            self._begin(lending.run())

    async def _close(self) -> None:
        if self.status in (Status.closing, Status.closed) or self._holder is None:
            await super()._close()
            return
        self._holder.closing.set()
        chores = list(self._chores)
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)
        await super()._close()
        await self._holder.close()

    def _begin(self, chore: Any) -> None:
        task = asyncio.ensure_future(chore)
        self._chores.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("a chore of %s failed", self.name, exc_info=error)

    def _note(self, text: str, *, level: int = logging.INFO) -> None:
        """Log a message, and keep it for ``get_logs``."""
        self._cluster_manager_logs.append((datetime.now().astimezone(), text))
        logger.log(level, "%s: %s", self.name, text)


def _tls(security: Security | None) -> dict[str, str]:
    """Return the files of a ``Security`` that workers need. Raises ``InputError`` for other values."""
    found = {}
    for name in _TLS if security is not None else ():
        value = getattr(security, name)
        if value is None or "\n" in value:
            raise InputError(
                f"{name} is not a file", hint="security= with files that the nodes have as well", field="security"
            )
        found[name] = value
    return found
