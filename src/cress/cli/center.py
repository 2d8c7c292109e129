"""``cress center``: run the center as a program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cress.cli.common import connect, duration_of, pairs
from cress.cli.configured import Check, Config
from cress.cli.errors import told
from cress.cli.program_options import with_settings
from cress.model.access import Role, role_of
from cress.model.errors import InputError
from cress.model.program_settings.center_settings import CENTER_SETTINGS
from cress.model.program_settings.setting import CENTER, fields

if TYPE_CHECKING:
    from cress.center.settings import Oidc

# The parameters of ``oidc_of`` in their order; the names of their settings begin with ``oidc_``.
OIDC = ("issuer", "client_id", "claim", "domain", "role", "life")

EPILOG = """\
\b
Example:
  cress center --data /srv/cress --port 7411 --executor-port 7412 --option grace=30s

\b
The center writes its addresses into center.json in the data directory. At its first start it also writes its token
there. SIGTERM stops the center; tasks go on. `cress up` starts a center together with executors.
Each option is also a key of the file (--executor-port: executor-port = 7412) and an environment variable
(CRESS_CENTER_EXECUTOR_PORT). Options override variables, and variables override the file. SIGHUP does not read it
again.
Exit codes: 0 stopped as requested, 1 the center could not continue, 2 bad input.
"""


@with_settings(CENTER)
def center(
    *,
    config: Config = "",  # noqa: ARG001 – read before the other options
    check: Check = False,
    hand_over: Annotated[
        bool,
        typer.Option(
            "--hand-over",
            help="Hand the lead from the center on --data to another center that shares its store, then exit.",
        ),
    ] = False,
    parent_pipe: Annotated[bool, typer.Option("--parent-pipe", hidden=True)] = False,
    **given: Any,
) -> None:
    """Run a center until it is stopped."""
    with told("center", "center"):
        from cress.center.run import run_center
        from cress.center.settings import CenterSettings
        from cress.executor.hidden_folders import is_private, note_home
        from cress.model.option_text import parse_assignments

        if hand_over:
            hand_the_lead_over(given["data"])
            return
        settings = CenterSettings(**center_fields(CENTER, given), parent_pipe=parent_pipe)
        if check:
            from cress.center.keeping.store_maintenance import check_address

            parse_assignments(settings.options)
            if settings.store:
                check_address(settings.store)
            raise typer.Exit
        note_home(settings.data)
        if settings.secrets_key is not None and is_private(settings.secrets_key.absolute().parent):
            note_home(settings.secrets_key.absolute().parent)
        code = run_center(settings)
    raise typer.Exit(code)


def center_fields(program: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a center's settings from the options of a program: the center, or ``up``.

    Raise InputError.
    """
    from cress.client.config import data_directory

    if (given["tls_cert"] is None) != (given["tls_key"] is None):
        raise InputError("a certificate and its key go together", hint="both files", field="--tls-cert, --tls-key")
    dns, domain = dns_of(given["dns"], given["dns_domain"])
    return {
        **fields((setting for setting in CENTER_SETTINGS if program in setting.programs), given),
        "data": data_directory(given["data"]),
        "licence": licences_of(given["licence"], given["licences"]),
        "oidc": oidc_of(*(given[f"oidc_{key}"] for key in OIDC)),
        "dns": dns,
        "dns_domain": domain,
    }


def licences_of(texts: list[str] | None, file: Path | None) -> tuple[tuple[str, int], ...]:
    """Return the values of ``--licence``: the number of each licence in the cluster."""
    if not texts:
        return ()
    if file is not None:
        raise InputError("cannot be combined with --licences", hint="only one of them", field="--licence")
    from cress.model.jobfile.licences import totals

    try:
        return totals(pairs(texts, "--licence", "NAME=N"))
    except InputError as error:
        raise InputError(error.what, hint=error.hint or "a whole number", field="--licence") from None


def dns_of(address: str, domain: str) -> tuple[tuple[str, int] | None, str]:
    """Return the values of ``--dns`` and ``--dns-domain``. Raise InputError, also if dnspython is missing."""
    from cress.center.dns.labels import check_domain
    from cress.center.dns.server import check_library, parse_address

    if not address:
        return None, check_domain(domain)
    check_library()
    return parse_address(address), check_domain(domain)


def hand_the_lead_over(data: Path | None) -> None:
    """Hand the lead over to another center, and print which one leads."""
    with connect(data) as client:
        typer.echo(f"the center at {client.hand_over().leader} leads now")


def oidc_of(issuer: str, client: str, claim: str, domain: str, role: str, life: str) -> Oidc | None:
    """Return the values of the options ``--oidc-…``; None without an issuer.

    Raise InputError, also if PyJWT is missing.
    """
    if not issuer:
        if client or domain:
            raise InputError("the provider is missing", hint="its address: --oidc-issuer URL", field="--oidc-client-id")
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
        raise InputError(f"{role} for all users who sign in", hint=hint, field="--oidc-role")
    lasts = duration_of(life, "--oidc-life")
    if lasts <= 0:
        raise InputError(f"{life} is not a time that a sign-in can last", hint="such as 12h", field="--oidc-life")
    return Oidc(issuer=issuer, client_id=client, claim=claim, domain=domain.lstrip("@"), role=most, life=lasts)
