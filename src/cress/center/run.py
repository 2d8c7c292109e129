"""The center as a program: opens the data directory, listens, works, and shuts down in order."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn

from cress.center.access.callers import Callers
from cress.center.access.guard import LOCAL_NAMES
from cress.center.access.job_tokens import JobTokens
from cress.center.access.public_socket import public_socket
from cress.center.api.app import make_app
from cress.center.api.timeouts import TimedProtocol, allow_files, close_overdue
from cress.center.committing.anchors import Anchors
from cress.center.committing.committer import Committer
from cress.center.committing.leader_election import LeaderElection
from cress.center.committing.memory import Memory
from cress.center.committing.use_curves import UseCurves
from cress.center.connections.used_jobs import UsedJobs
from cress.center.data_locations.namenodes import Namenodes
from cress.center.dns.server import DnsServer, check_dns
from cress.center.executors.listener import Listener
from cress.center.files.group_file import GroupFile
from cress.center.files.licence_file import read_licences, set_licences
from cress.center.files.topology import Topology, read_topology
from cress.center.keeping.data_directory import DataDirectory, ListenAddress
from cress.center.keeping.file_names import ADDRESS, API_SOCKET, CA, CENTER_CERTIFICATE, TLS
from cress.center.keeping.owner_token import FINGERPRINT, cluster_secret, fingerprint_of, owner
from cress.center.keeping.uploads import unshared
from cress.center.leader.failover import Failover
from cress.center.leader.history_exchange import HistoryExchange
from cress.center.leader.leader_work import BACKLOG, HEAD_START, LeaderWork, bound_socket, executor_sockets
from cress.center.leader.standby import Standby
from cress.center.notifications.notifier import sender_settings
from cress.center.process.compilation import Compilation
from cress.center.process.core_dumps import forbid_core_dumps
from cress.center.process.garbage import Collector
from cress.center.process.local_zone import local_zone
from cress.center.process.log_lines import begin_log
from cress.center.secrets.delivery import SecretDelivery
from cress.center.secrets.key_file import KeyFile, MissingKeyFile, default_path
from cress.center.secrets.vault import Vault
from cress.center.settings import CenterSettings
from cress.center.web.asgi import App
from cress.center.web.sign_ins import SlowSignIns
from cress.center.web.tls_doors import CenterLoop
from cress.model.errors import InputError
from cress.model.jobfile.licences import Licences
from cress.model.zones import zone_of
from cress.store.base import StoreError
from cress.store.opening import check_address, open_store
from cress.store.replicated import ReplicatedStore
from cress.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from cress.center.access.oidc import Provider
    from cress.center.committing.spans import Spans
    from cress.center.tls.admission import Admission
    from cress.center.tls.server import CenterTls

FAILED, BAD_INPUT = 1, 2
# Seconds that running calls may take when the center stops.
GRACE = 1
# Addresses for listening on all interfaces, which clients cannot use.
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 – only compared
# Seconds for which an idle connection is kept: longer than in clients, so that these do not write into a closing one.
KEEP_ALIVE = 75
# Seconds within which a client must complete the TLS handshake.
HANDSHAKE = 10.0
# Headers of every answer: pages must not frame it or guess its type, and caches must not store it.
HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Content-Security-Policy", "frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
]
# Most bytes of a message to a command in a task.
MOST_MESSAGE = 2**20


def run_center(settings: CenterSettings) -> int:
    """Run a center until it is told to stop; return the exit code. Errors are printed on standard error."""
    begin_log(settings.log_format)
    # A malformed request is a fault of its sender, not of the center.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    # Nor is the disconnection of a slow reader of events.
    logging.getLogger("uvicorn.error").addFilter(lambda record: "without completing" not in str(record.msg))
    os.umask(0o077)
    signing_in = allow_files(settings.address_rate)
    CenterLoop.most_handshakes = signing_in // 2
    forbid_core_dumps()
    # Ignored until there is a center that can read its files again.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        _check_host(settings)
        if settings.store:
            check_address(settings.store)
        settings = _with_zone(settings)
        topology, licences = _topology(settings), _licences(settings)
        tls = _tls(settings)
        check_dns(settings.dns)
        directory = DataDirectory(settings.data)
    except InputError as error:
        _say(error)
        return BAD_INPUT
    try:
        with asyncio.Runner(loop_factory=CenterLoop) as runner:
            runner.run(_run(settings, directory, topology, licences, tls, signing_in))
    except InputError as error:
        _say(error)
        return BAD_INPUT
    except StoreError as error:
        _say(error)
        return FAILED
    finally:
        directory.close()
    return 0


def _say(error: Exception | str) -> None:
    logging.getLogger("cress.center").error("%s", error)


async def _run(
    settings: CenterSettings,
    directory: DataDirectory,
    topology: Topology,
    licences: Licences | None,
    tls: CenterTls | None,
    signing_in: int,
) -> None:
    """Run until stopped."""
    namenodes = Namenodes(settings.webhdfs)
    senders = sender_settings(settings)
    spans = _spans(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if settings.parent_pipe:
        await _stop_with_parent(stop)
    store, token, api, executors = _opened(settings, directory.path)
    address = _address(settings.host, api, executors, tls)
    place = _for_others(settings, address.url, tls)
    compilation = Compilation(_say)
    election = LeaderElection(store.lead(place) if isinstance(store, ReplicatedStore) else None, place)
    committer = Committer(store, settings, election=election, secret=fingerprint_of(token))
    committer.ended = loop.create_future()
    standby = Standby(committer, store, election) if isinstance(store, ReplicatedStore) else None
    failover = Failover(committer, election, standby, place)
    listener = Listener(committer, token, tls, signing_in)
    own, others = _for_tasks(settings, address.url, tls), election.others if settings.store else None
    job_tokens = JobTokens(committer, token, own, _own_authority(settings, tls), others)
    callers = Callers(committer, owner(directory.path), settings.visibility, job_tokens)
    vault = Vault(committer, partial(_key_file, settings, committer))
    committer.materials.providers += (
        job_tokens.provide,
        SecretDelivery(committer, vault),
        UsedJobs(committer.names, committer.materials.waits).provide,
    )
    names = (*LOCAL_NAMES, settings.host, _in_url(settings.host), *settings.names, *(tls.names if tls else ()))
    if standby is not None:
        names = (*names, urlsplit(place).hostname or "")
    anchors = _anchors(committer, tls)
    curves = UseCurves(committer, directory.path)
    server = _Server(
        _config(
            make_app(
                committer,
                token=token,
                callers=callers,
                vault=vault,
                names=names,
                failover=failover,
                provider=_provider(settings, owner(directory.path)),
                admission=_admission(settings, tls, executors.getsockname()[1]),
                audit=anchors.audit,
            )
        )
    )
    committer.spans = spans
    groups = GroupFile(settings, committer, _say)
    sockets = executor_sockets(settings.host, executors, directory)
    work = LeaderWork(settings, committer, listener, groups, topology, licences, namenodes, sockets, senders)
    serving: asyncio.Task[None] | None = None
    # From here on clients wait until they are served.
    api.listen(BACKLOG)
    public = [directory.listen(API_SOCKET, BACKLOG)]
    if settings.socket is not None:
        public.append(public_socket(settings.socket, BACKLOG))
    try:
        if standby is None:
            executors.listen(BACKLOG)
            await _start(committer, groups, compilation, work)
        else:
            await _first_look(standby, committer, groups)
        loop.add_signal_handler(signal.SIGHUP, partial(_read_anew, settings, listener, committer, groups, tls))
        serving = await server.begin([*public, *([] if tls else [api])])
        if tls is not None:
            await server.serve_tls(api, tls.api)
        await _announce(directory, address, stop)
        background: list[asyncio.Task[Any]] = [
            asyncio.create_task(close_overdue(lambda: server.server_state.connections), name="patience"),
            asyncio.create_task(Collector().run(), name="collector"),
            asyncio.create_task(Memory(committer).run(), name="memory"),
            asyncio.create_task(committer.watchdog.run(), name="watchdog"),
            asyncio.create_task(anchors.run(), name="anchors"),
            asyncio.create_task(curves.run(), name="curves"),
            asyncio.create_task(HistoryExchange(committer, token, failover.elsewhere).run(), name="history"),
            *_responder(settings, committer),
        ]
        if tls is not None:
            background.append(asyncio.create_task(tls.run(), name="certificates"))
        for task in background:
            task.add_done_callback(_log_failure)
        turns = asyncio.create_task(_in_turns(failover, work, compilation), name="failover")
        stopped = asyncio.create_task(stop.wait())
        await _until_over(stopped, serving, turns, committer.ended)
        await anchors.keep(last=True)
        await failover.resign()
        for task in (stopped, turns, *background):
            task.cancel()
        await asyncio.wait((turns, *background))
        # After the place of the leader is free, and no sample is taken any more.
        await asyncio.to_thread(curves.close)
    finally:
        server.should_exit = True
        committer.leave()
        await work.end()
        if serving is not None:
            await serving
        await compilation.stop()
        await committer.stop()
        if spans is not None:
            await asyncio.to_thread(spans.close)
        for served in (api, executors, *public):
            served.close()
        if settings.socket is not None:
            settings.socket.unlink(missing_ok=True)


def _opened(
    settings: CenterSettings, folder: Path
) -> tuple[SqliteStore | ReplicatedStore, str, socket.socket, socket.socket]:
    """Return the store, the secret of its cluster, and the sockets of the API and of executors.

    Raises StoreError and InputError.
    """
    store = open_store(settings.store, folder)
    for sentence in store.warnings:
        _say(sentence)
    if isinstance(store, ReplicatedStore) and (note := unshared(settings.uploads)):
        logging.getLogger("cress.center").warning("%s", note)
    try:
        if isinstance(store, ReplicatedStore):
            store.follow()
        token = cluster_secret(folder, store.note(FINGERPRINT))
        api = bound_socket(settings.host, settings.port, "--port")
        executors = bound_socket(settings.host, settings.executor_port, "--executor-port")
    except (StoreError, InputError):
        store.close()
        raise
    return store, token, api, executors


def _log_failure(task: asyncio.Task[Any]) -> None:
    """Log that work beside the center's own has ended by an error; the center goes on without it."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _say(f"{task.get_name()!r} failed and rests until the center starts again: {error!r}")


async def _until_over(*ends: asyncio.Future[Any]) -> None:
    """Wait for the first of these, and raise its error."""
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in done:
        end.result()


def _anchors(committer: Committer, tls: CenterTls | None) -> Anchors:
    """Return the anchors of the files of this center; certificates that were revoked before stay so."""
    anchors = Anchors(committer)
    if tls is not None:
        tls.remember(anchors.known_tls.revoked)
    return anchors


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        SlowSignIns(app),
        http=TimedProtocol,
        ws="websockets-sansio",
        ws_max_size=MOST_MESSAGE,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=HEADERS,
        # Headers must not override the address of a client, since no proxy is trusted.
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )


async def _start(committer: Committer, groups: GroupFile, compilation: Compilation, work: LeaderWork) -> None:
    """Begin to work with a store of the center's own. Raises StoreError and InputError."""
    await committer.start(groups.read_first)
    _check_key_file(work.settings, committer)
    await compilation.start(lambda: committer.machine.core)
    await work.begin()


async def _first_look(standby: Standby, committer: Committer, groups: GroupFile) -> None:
    """Load and show the stored state. Raises StoreError."""
    if not committer.settings.history:
        _say(
            "each center keeps the work that ends while it runs on its own machine; --history names a database for all"
        )
    committer.history.check()
    await standby.load()
    committer.step_aside("this center stands by; try again")
    await committer.work()
    groups.read_first(committer.machine)


async def _in_turns(failover: Failover, work: LeaderWork, compilation: Compilation) -> None:
    """Stand by and lead in turns, if there may be other centers."""
    if not failover.is_shared:
        await asyncio.Event().wait()

    async def prepare() -> None:
        core = work.committer.machine.core
        await compilation.load(core)
        # The parser takes a tenth of a second, which executors would wait for after a change of the lead.
        await asyncio.to_thread(core.prepare_match)

    async def begin() -> None:
        _check_key_file(work.settings, work.committer)
        await work.begin(HEAD_START)
        await compilation.start(lambda: work.committer.machine.core)

    async def end() -> None:
        await compilation.stop()
        await work.end()

    await failover.run(prepare, begin, end)


def _responder(settings: CenterSettings, committer: Committer) -> list[asyncio.Task[Any]]:
    """Return the task of the DNS responder, if one is configured."""
    if settings.dns is None:
        return []
    server = DnsServer(
        committer.names,
        settings.dns,
        settings.dns_domain,
        services=lambda: committer.machine.named,
        is_serving=lambda: not committer.loop.is_replaced,
    )
    return [asyncio.create_task(server.run(_say), name="dns")]


async def _announce(directory: DataDirectory, address: ListenAddress, stop: asyncio.Event) -> None:
    """Write the center's address; on a full disk, as soon as there is room."""
    told = False
    while not stop.is_set():
        try:
            directory.announce(address)
        except OSError as error:
            if not told:
                _say(f"{directory.path / ADDRESS} cannot be written ({error.strerror}); it is tried again")
            told = True
            await asyncio.sleep(1)
        else:
            return


def _key_file(settings: CenterSettings, committer: Committer) -> KeyFile:
    """Return the key file of the secrets; its default place depends on the loaded cluster."""
    path = settings.secrets_key or default_path(committer.loop.cluster, os.environ)
    return KeyFile(path, settings.data)


def _check_key_file(settings: CenterSettings, committer: Committer) -> None:
    """Raise InputError for a configured key file that cannot be used; warn if secrets have lost their file."""
    needed = bool(committer.machine.tables.secrets)
    if not needed and settings.secrets_key is None:
        return
    try:
        _key_file(settings, committer).read()
    except MissingKeyFile as error:
        if needed:
            _say(f"{error}; until then no attempt that uses a secret can start")
    except InputError as error:
        if settings.secrets_key is not None:
            raise
        _say(f"{error}; until then no attempt that uses a secret can start")


def _topology(settings: CenterSettings) -> Topology:
    return Topology() if settings.topology is None else read_topology(settings.topology)


def _licences(settings: CenterSettings) -> Licences | None:
    """Return the number of each licence; None keeps the present numbers."""
    if settings.licences is not None:
        return read_licences(settings.licences)
    return settings.licence or None


def _with_zone(settings: CenterSettings) -> CenterSettings:
    """Return settings with the time zone of this machine, unless one is given."""
    if settings.zone:
        return replace(settings, zone=str(zone_of(settings.zone)))
    zone = local_zone()
    if not zone:
        _say("the time zone of this machine has no name; timetables follow UTC (give --zone, such as Europe/Berlin)")
    return replace(settings, zone=zone or "UTC")


def _read_anew(
    settings: CenterSettings, listener: Listener, committer: Committer, groups: GroupFile, tls: CenterTls | None
) -> None:
    """Read the topology, licences, groups and certificates again at SIGHUP; a file with a mistake changes nothing."""
    if settings.topology is None and settings.licences is None and settings.groups is None and tls is None:
        _say("SIGHUP: nothing to read again; the center was started without --topology, --licences and --groups")
    if settings.topology is not None:
        try:
            listener.arrange(_topology(settings))
            _say(f"SIGHUP: read the racks from {settings.topology} again")
        except InputError as error:
            _say(error)
            _say("the racks stay as they were")
    if settings.licences is not None:
        try:
            set_licences(committer, _licences(settings))
            _say(f"SIGHUP: read the licences from {settings.licences} again")
        except InputError as error:
            _say(error)
            _say("the licences stay as they were")
    if settings.groups is not None:
        try:
            groups.read_again()
            _say(f"SIGHUP: read the groups from {settings.groups} again")
        except InputError as error:
            _say(error)
            _say("the groups stay as they were")
    if tls is not None:
        try:
            tls.read_again()
            _say("SIGHUP: read the certificates again")
        except InputError as error:
            _say(error)
            _say("the certificates stay as they were")


class _Server(uvicorn.Server):
    """A server that leaves the signals to the center, and serves some sockets with TLS and others without."""

    async def begin(self, sockets: list[socket.socket]) -> asyncio.Task[None]:
        """Return the task that serves these sockets, once it does."""
        serving = asyncio.create_task(self.serve(sockets=sockets))
        while not self.started and not serving.done():  # noqa: ASYNC110 – uvicorn tells in no other way
            await asyncio.sleep(0.002)
        return serving

    async def serve_tls(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Serve one more socket; call it after the server has started."""
        protocol = partial(
            TimedProtocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        loop = asyncio.get_running_loop()
        serving = await loop.create_server(
            protocol, sock=sock, ssl=context, backlog=BACKLOG, ssl_handshake_timeout=HANDSHAKE
        )
        self.servers.append(serving)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _check_host(settings: CenterSettings) -> None:
    try:
        loopback = settings.host == "localhost" or ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not settings.insecure and not _has_tls(settings):
        raise InputError(
            f"{settings.host} is not a loopback address, and without TLS everything would travel unencrypted",
            hint="`cress tls init --name HOST` makes certificates (docs/tls.md); --insecure does without",
            field="--host",
        )


def _has_tls(settings: CenterSettings) -> bool:
    """Return whether there is a certificate. Raises InputError if one is lost, so that TLS is not dropped silently."""
    if settings.tls_cert is not None or (settings.data / TLS / CENTER_CERTIFICATE).exists():
        return True
    if (settings.data / TLS / CA).exists():
        raise InputError(
            "the center's certificate is missing beside its authority; without it the center would not use TLS",
            hint="bring it back from a backup, or make it again: `cress tls init --name HOST` keeps the authority",
            file=str(settings.data / TLS / CENTER_CERTIFICATE),
        )
    return False


def _tls(settings: CenterSettings) -> CenterTls | None:
    """Return the center's TLS; None without certificates. Raises InputError."""
    if not _has_tls(settings):
        return None
    from cress.center.tls.server import center_tls

    return center_tls(settings, _say)


def _provider(settings: CenterSettings, owner: str) -> Provider | None:
    """Return the provider for sign-in; no user of it gets the name of the data directory's owner."""
    if settings.oidc is None:
        return None
    from cress.center.access.oidc import Provider

    return Provider(settings.oidc, (owner,))


def _spans(settings: CenterSettings) -> Spans | None:
    """Return the spans that a collector gets, if there is one. Raises InputError."""
    if not settings.otlp_endpoint:
        return None
    try:
        from cress.center.committing.spans import spans_to
    except ImportError as error:
        raise InputError(
            f"spans need OpenTelemetry: {error}", hint="pip install 'cress[otel]'", field="--otlp-endpoint"
        ) from None
    if not settings.otlp_endpoint.startswith(("http://", "https://")):
        raise InputError(
            f"{settings.otlp_endpoint!r} is not a URL", hint="http://127.0.0.1:4318", field="--otlp-endpoint"
        )
    return spans_to(settings.otlp_endpoint, settings.otlp_ratio, settings.cluster)


def _admission(settings: CenterSettings, tls: CenterTls | None, executor_port: int) -> Admission | None:
    """Return the admission of joining nodes; None unless the center's own authority certifies executors."""
    if tls is None or tls.authority is None or settings.tls_ca is not None:
        return None
    from cress.center.tls.admission import Admission

    return Admission(tls.authority, executor_port)


def _address(host: str, api: socket.socket, executors: socket.socket, tls: CenterTls | None) -> ListenAddress:
    name, secured = _in_url(host), "" if tls is None else "s"
    if tls is not None and host in EVERYWHERE:
        name = tls.names[0]
    return ListenAddress(
        url=f"http{secured}://{name}:{api.getsockname()[1]}",
        executor_url=f"ws{secured}://{name}:{executors.getsockname()[1]}",
        pid=os.getpid(),
    )


def _for_tasks(settings: CenterSettings, url: str, tls: CenterTls | None) -> str:
    """Return the address of the API for tasks on any node.

    A center without a certificate that listens everywhere is given by its first configured name.
    """
    if tls is None and settings.host in EVERYWHERE and settings.names:
        return url.replace(_in_url(settings.host), settings.names[0], 1)
    return url


def _for_others(settings: CenterSettings, url: str, tls: CenterTls | None) -> str:
    """Return the address of the API to which other centers redirect clients."""
    found = _for_tasks(settings, url, tls)
    everywhere = next((host for host in EVERYWHERE if f"//{_in_url(host)}:" in found), "")
    return found.replace(_in_url(everywhere), socket.getfqdn(), 1) if everywhere else found


def _own_authority(settings: CenterSettings, tls: CenterTls | None) -> bytes:
    """Return the certificate of the center's own authority if it issued the center's certificate, else empty."""
    place = settings.data / TLS / CA
    return place.read_bytes() if tls is not None and settings.tls_cert is None and place.exists() else b""


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _stop_with_parent(stop: asyncio.Event) -> None:
    """Stop when standard input ends, whose other end the parent process holds."""

    class Watcher(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            stop.set()

    await asyncio.get_running_loop().connect_read_pipe(Watcher, sys.stdin)
