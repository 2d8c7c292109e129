"""Settings of a center, given at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cress.model.access import Role, Visibility
from cress.model.log_format import LogFormat
from cress.model.program_settings.center_settings import CENTER_SETTINGS
from cress.model.program_settings.setting import Defaults
from cress.model.resources import Dimensions

DEFAULT = Defaults(CENTER_SETTINGS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Oidc:
    """The provider of OpenID Connect for sign-in.

    The claim ``claim`` gives the user's name; with ``domain`` it must be NAME@DOMAIN, and NAME is used. Users whose
    role was not set have ``role``. Tokens live for ``life`` µs.
    """

    issuer: str
    client_id: str
    claim: str = DEFAULT.oidc_claim
    domain: str = ""
    role: Role = DEFAULT.oidc_role
    life: int = DEFAULT.oidc_life

    @property
    def scope(self) -> str:
        """The scope that a client requests from the provider."""
        more = {"email": " email", "sub": ""}.get(self.claim, " profile email")
        return "openid" + more


@dataclass(frozen=True, kw_only=True, slots=True)
class CenterSettings:
    """The settings of a center.

    The table ``cress.model.program_settings`` and docs/configuration.md explain each one; durations are in
    microseconds here. ``port`` and ``executor_port`` 0 take any free port. ``dns`` is an IP address and a port. With
    ``parent_pipe`` the center stops cleanly when standard input ends. Missing files, ``options``, ``dimensions``,
    ``licence`` and ``zone`` leave the stored values unchanged.
    """

    data: Path
    host: str = DEFAULT.host
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
    keep_history: int = DEFAULT.keep_history
    keep_usage: int = DEFAULT.keep_usage
    keep_events: int = DEFAULT.keep_events
    keep_events_size: int = DEFAULT.keep_events_size
    uploads: Path | None = None
    upload_file_most: int = DEFAULT.upload_file_most
    upload_user_most: int = DEFAULT.upload_user_most
    upload_most: int = DEFAULT.upload_most
    keep_uploads: int = DEFAULT.keep_uploads
    topology: Path | None = None
    licences: Path | None = None
    licence: tuple[tuple[str, int], ...] = ()
    run_as: tuple[str, ...] = ()
    socket: Path | None = None
    visibility: Visibility = DEFAULT.visibility
    log_format: LogFormat = DEFAULT.log_format
    oidc: Oidc | None = None
    user_jobs: int = DEFAULT.user_jobs
    user_tasks: int = DEFAULT.user_tasks
    user_rate: int = DEFAULT.user_rate
    address_rate: int = DEFAULT.address_rate
    secrets_key: Path | None = None
    dns: tuple[str, int] | None = None
    dns_domain: str = DEFAULT.dns_domain
    webhdfs: tuple[str, ...] = ()
    data_age: int = DEFAULT.data_age
    notify_hosts: tuple[str, ...] = ()
    notify_key: Path | None = None
    notify_smtp: str = DEFAULT.notify_smtp
    notify_password: Path | None = None
    notify_from: str = DEFAULT.notify_from
    wait_hosts: tuple[str, ...] = ()
    wait_folders: tuple[str, ...] = ()
    otlp_endpoint: str = DEFAULT.otlp_endpoint
    otlp_ratio: float = DEFAULT.otlp_ratio
