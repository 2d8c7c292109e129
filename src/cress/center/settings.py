"""Settings of a center, given at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cress.model.access import ADDRESS_RATE, USER_JOBS, USER_RATE, USER_TASKS, Role, Visibility
from cress.model.resources import Dimensions
from cress.model.times import DAY, HOUR, MINUTE


@dataclass(frozen=True, kw_only=True, slots=True)
class Oidc:
    """The provider of OpenID Connect at which users sign in.

    A user is called as the claim ``claim`` says; with ``domain`` it must be NAME@DOMAIN, and NAME counts. Users whose
    role was not set have ``role``. Tokens live for ``life`` µs.
    """

    issuer: str
    client_id: str
    claim: str = "email"
    domain: str = ""
    role: Role = Role.USER
    life: int = 12 * HOUR

    @property
    def scope(self) -> str:
        """The scope that a client asks the provider for."""
        more = {"email": " email", "sub": ""}.get(self.claim, " profile email")
        return "openid" + more


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The place of a center's state, its addresses, and its limits.

    ``port`` is for people and programs, ``executor_port`` for executors; 0 takes any free one. ``names`` are further
    host names under which it is called. ``parent_pipe``: the center stops cleanly when standard input ends.
    ``tls_cert``, ``tls_key`` and ``tls_ca`` are the files for TLS; without them those that ``cress tls init`` has made
    in ``data``, if it has. Without TLS it listens on loopback addresses only, unless it is ``insecure``.
    ``options`` are assignments such as ``grace=30s``, kept in the data directory until others are given.
    ``store`` is the address of a store that several centers share, empty: a file in ``data``.
    ``dimensions`` are declared if they are new. ``history`` is the address of a database, empty: a file in ``data``.
    Finished work stays in it for ``keep_history``, usage by the hour for ``keep_usage``, files of the event log for
    ``keep_events``, and at most ``keep_events_size`` bytes of them; durations are microseconds. ``topology`` is the
    file with the racks, ``licences`` the one with the licences; without it and ``licence`` the present ones are kept.
    ``zone`` is the name of the cluster's time zone, empty: the one that it had; ``groups`` the file with the groups.
    ``run_as`` are the accounts of nodes under which every user may run tasks. ``socket`` is a Unix socket for all
    accounts of this machine; ``visibility`` says whose jobs users see; ``oidc`` where they sign in. One user has at
    most ``user_jobs`` and ``user_tasks`` that are not over, and sends ``user_rate`` requests a second, one address
    ``address_rate`` (0: no limit). ``secrets_key`` is the file with the keys of the secrets, outside ``data``; None: a
    file of the cluster in the configuration of the account. ``dns`` is the IP address and port at which DNS questions
    about names below ``dns_domain`` are answered; None: nowhere. ``webhdfs`` gives the addresses of namenodes
    (``namenodes.Namenodes``), ``data_age`` the greatest age (µs) of a location of data while a job waits for it.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 0
    executor_port: int = 0
    options: tuple[str, ...] = ()
    dimensions: Dimensions = field(default_factory=Dimensions)
    zone: str = ""
    groups: Path | None = None
    names: tuple[str, ...] = ()
    cluster: str = ""
    parent_pipe: bool = False
    insecure: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    store: str = ""
    history: str = ""
    keep_history: int = 90 * DAY
    keep_usage: int = 1100 * DAY
    keep_events: int = 30 * DAY
    keep_events_size: int = 2**30
    topology: Path | None = None
    licences: Path | None = None
    licence: tuple[tuple[str, int], ...] = ()
    run_as: tuple[str, ...] = ()
    socket: Path | None = None
    visibility: Visibility = Visibility.ALL
    oidc: Oidc | None = None
    user_jobs: int = USER_JOBS
    user_tasks: int = USER_TASKS
    user_rate: int = USER_RATE
    address_rate: int = ADDRESS_RATE
    secrets_key: Path | None = None
    dns: tuple[str, int] | None = None
    dns_domain: str = "cress"
    webhdfs: tuple[str, ...] = ()
    data_age: int = 10 * MINUTE
