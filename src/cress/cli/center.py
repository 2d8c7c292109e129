"""``cress center``: run the center as a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import (
    AddressRate,
    DimensionNames,
    LicenceTotals,
    PublicSocket,
    RunAs,
    SecretsKey,
    UserJobs,
    UserRate,
    UserTasks,
    WhoSees,
    Zone,
    connect,
    duration_of,
    licences_of,
    names_of,
    size_of,
    time_zone_of,
)
from cress.cli.configured import Check, Config
from cress.cli.errors import told
from cress.model.access import ADDRESS_RATE, USER_JOBS, USER_RATE, USER_TASKS, Role, Visibility, role_of
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.center.settings import Oidc

EPILOG = """\
\b
Example:
  cress center --data /srv/cress --port 7411 --executor-port 7412 --option grace=30s

\b
It writes where it listens into center.json in the data directory, and at its first start the token that opens it.
SIGTERM stops it; tasks go on. `cress up` starts it together with executors.
Each option is also a key of the file (--executor-port: executor-port = 7412) and an environment variable
(CRESS_CENTER_EXECUTOR_PORT); flags come before variables, variables before the file. SIGHUP does not read it again.
Exit codes: 0 stopped as asked, 1 it could not go on, 2 bad input.
"""


def center(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            envvar="CRESS_DATA",
            help="Where everything is kept. Default: ~/.local/share/cress.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="For people and programs; 0: any free one.")] = 7411,
    executor_port: Annotated[int, typer.Option(min=0, max=65535, help="For executors; 0: any free one.")] = 7412,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Set an option of the scheduler, such as grace=30s (docs/groups.md); it stays until it is set again.",
        ),
    ] = None,
    dimension: DimensionNames = None,
    topology: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Racks, which are neighbours, and their nodes; read again at SIGHUP."),
    ] = None,
    licences: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The licences of the cluster (docs/licences.md); read again at SIGHUP."),
    ] = None,
    licence: LicenceTotals = None,
    groups: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The groups of the cluster (docs/groups.md); read again at SIGHUP."),
    ] = None,
    zone: Zone = "",
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="CRESS_STORE",
            help="A store that several centers share (docs/store.md): zookeeper://HOST,HOST,HOST/PATH or "
            "postgresql://USER@HOST/DATABASE. Default: a file.",
        ),
    ] = "",
    history: Annotated[
        str, typer.Option(metavar="URL", help="Database for finished work (docs/history.md). Default: a file.")
    ] = "",
    keep_history: Annotated[str, typer.Option(metavar="DURATION", help="How long finished work is kept.")] = "90d",
    keep_usage: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the usage of groups is kept.")
    ] = "1100d",
    keep_events: Annotated[
        str, typer.Option(metavar="DURATION", help="How long files of the event log are kept.")
    ] = "30d",
    keep_events_size: Annotated[
        str, typer.Option(metavar="SIZE", help="How much of the event log is kept at most.")
    ] = "1G",
    run_as: RunAs = "",
    socket: PublicSocket = None,
    visibility: WhoSees = Visibility.ALL,
    user_jobs: UserJobs = USER_JOBS,
    user_tasks: UserTasks = USER_TASKS,
    user_rate: UserRate = USER_RATE,
    address_rate: AddressRate = ADDRESS_RATE,
    oidc_issuer: Annotated[
        str, typer.Option(metavar="URL", help="The provider of OpenID Connect at which users sign in (docs/users.md).")
    ] = "",
    oidc_client_id: Annotated[str, typer.Option(metavar="ID", help="The id of Cress there.")] = "",
    oidc_claim: Annotated[
        str, typer.Option(metavar="CLAIM", help="What users are called by: email, preferred_username, sub, …")
    ] = "email",
    oidc_domain: Annotated[
        str, typer.Option(metavar="DOMAIN", help="Only users NAME@DOMAIN, who are called NAME. Default: all.")
    ] = "",
    oidc_role: Annotated[
        str, typer.Option(metavar="ROLE", help="The role of those whose role was not set; none: they may not sign in.")
    ] = "user",
    oidc_life: Annotated[str, typer.Option(metavar="DURATION", help="How long a sign-in lasts.")] = "12h",
    secrets_key: SecretsKey = None,
    dns: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS:PORT",
            help=(
                "Answer DNS questions about the names of running tasks there (docs/names.md), for everybody who "
                "can ask."
            ),
        ),
    ] = "",
    dns_domain: Annotated[
        str, typer.Option(metavar="DOMAIN", help="The domain of these names: web.research.DOMAIN.")
    ] = "cress",
    webhdfs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMENODE=URL",
            help="Where WebHDFS of hdfs://NAMENODE is asked (docs/data.md); several times. any: others are asked too.",
        ),
    ] = None,
    data_age: Annotated[
        str, typer.Option(metavar="DURATION", help="How old what is known of data may get while a job waits for it.")
    ] = "10min",
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Its certificate (docs/tls.md). Default: the one that `cress tls init` made, if any."
        ),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of that certificate.")] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The authority that makes the certificates of executors.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST", help="A further name by which it is called, beside those in its certificate; several times."
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on any address without TLS: whoever can listen in reads all.")
    ] = False,
    config: Config = "",  # noqa: ARG001 – read before the other options
    check: Check = False,
    hand_over: Annotated[
        bool,
        typer.Option(
            "--hand-over",
            help="Have another center lead, instead of the one that runs on --data and shares its store; then end.",
        ),
    ] = False,
    parent_pipe: Annotated[bool, typer.Option("--parent-pipe", hidden=True)] = False,
) -> None:
    """Run a center until it is stopped."""
    with told("center", "center"):
        from cress.center.run import run_center
        from cress.center.settings import Settings
        from cress.client.config import data_directory
        from cress.executor.hidden_folders import is_private, note_home
        from cress.model.option_text import parse_assignments
        from cress.model.resources import Dimensions

        if hand_over:
            hand_the_lead_over(data)
            return
        if (tls_cert is None) != (tls_key is None):
            raise InputError("a certificate and its key go together", hint="both files", field="--tls-cert, --tls-key")
        dns_address, domain = dns_of(dns, dns_domain)
        settings = Settings(
            data=data_directory(data),
            host=host,
            names=tuple(name or ()),
            insecure=insecure,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_ca=tls_ca,
            port=port,
            executor_port=executor_port,
            options=tuple(option or ()),
            dimensions=Dimensions(tuple(dimension or ())),
            parent_pipe=parent_pipe,
            topology=topology,
            licences=licences,
            licence=licences_of(licence, licences),
            groups=groups,
            zone=time_zone_of(zone),
            store=store,
            history=history,
            keep_history=duration_of(keep_history, "--keep-history"),
            keep_usage=duration_of(keep_usage, "--keep-usage"),
            keep_events=duration_of(keep_events, "--keep-events"),
            keep_events_size=size_of(keep_events_size, "--keep-events-size"),
            run_as=names_of(run_as, "--run-as"),
            socket=socket,
            oidc=oidc_of(oidc_issuer, oidc_client_id, oidc_claim, oidc_domain, oidc_role, oidc_life),
            user_jobs=user_jobs,
            user_tasks=user_tasks,
            user_rate=user_rate,
            address_rate=address_rate,
            secrets_key=secrets_key,
            visibility=visibility,
            dns=dns_address,
            dns_domain=domain,
            webhdfs=tuple(webhdfs or ()),
            data_age=duration_of(data_age, "--data-age"),
        )
        if check:
            from cress.center.keeping.store_maintenance import check_address

            parse_assignments(settings.options)
            if store:
                check_address(store)
            raise typer.Exit
        note_home(settings.data)
        if secrets_key is not None and is_private(secrets_key.absolute().parent):
            note_home(secrets_key.absolute().parent)
        code = run_center(settings)
    raise typer.Exit(code)


def dns_of(address: str, domain: str) -> tuple[tuple[str, int] | None, str]:
    """The values of ``--dns`` and ``--dns-domain``. Raises InputError, also when dnspython is missing."""
    from cress.center.dns.labels import check_domain
    from cress.center.dns.server import check_library, parse_address

    if not address:
        return None, check_domain(domain)
    check_library()
    return parse_address(address), check_domain(domain)


def hand_the_lead_over(data: Path | None) -> None:
    """Have another center lead, and say which one does."""
    with connect(data) as client:
        typer.echo(f"the center at {client.hand_over().leader} leads now")


def oidc_of(issuer: str, client: str, claim: str, domain: str, role: str, life: str) -> Oidc | None:
    """The values of the options ``--oidc-…``; None without an issuer. Raises InputError, also when PyJWT is missing."""
    if not issuer:
        if client or domain:
            raise InputError("there is no provider", hint="its address: --oidc-issuer URL", field="--oidc-client-id")
        return None
    from cress.center.settings import Oidc

    try:
        from cress.center.access.oidc import is_secure
    except ModuleNotFoundError as error:
        hint = "pip install 'cress[oidc]'"
        raise InputError(f"{error.name} is not installed", hint=hint, field="--oidc-issuer") from None

    if not is_secure(issuer):
        raise InputError(f"{issuer!r} is not an address with TLS", hint="https://…", field="--oidc-issuer")
    if not client:
        raise InputError(
            "the id of Cress at the provider is missing",
            hint="a public client with the device flow",
            field="--oidc-client-id",
        )
    most = role_of(role, "--oidc-role")
    if most.rank > Role.USER.rank:
        hint = "none, viewer or user; `cress users set NAME --role` gives one user another role"
        raise InputError(f"{role} for everybody who signs in", hint=hint, field="--oidc-role")
    lasts = duration_of(life, "--oidc-life")
    if lasts <= 0:
        raise InputError(f"{life} is not a time that a sign-in can last", hint="such as 12h", field="--oidc-life")
    return Oidc(issuer=issuer, client_id=client, claim=claim, domain=domain.lstrip("@"), role=most, life=lasts)
