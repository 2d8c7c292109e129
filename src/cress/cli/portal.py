"""``cress portal``: the pages of a cluster in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Data
from cress.cli.errors import told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cress.portal.settings import WrittenJob

EPILOG = """\
\b
Examples:
  cress portal
  cress portal --port 8080
  cress portal --host 0.0.0.0 --name portal.example.com --tls-cert cert.pem --tls-key key.pem

\b
The command prints a link. It opens the portal signed in as the user of the command, and works once.
If a portal runs already on this data directory, as that of `cress up`, the command prints a new link to it and exits.
Other users sign in with a token of `cress token create` (docs/portal.md).
Exit codes: 0 stopped as requested, or a link was printed; 2 bad input, 3 no center here.
"""

Cert = Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate of the portal (PEM).")]
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Private key of the certificate (PEM).")]
Names = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="NAME", help="Further name of the portal in addresses. Repeatable."),
]


def portal(
    host: Annotated[
        str, typer.Option(envvar="CRESS_PORTAL_HOST", help="Address to listen at. Beyond 127.0.0.1 TLS is needed.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(envvar="CRESS_PORTAL_PORT", min=0, max=65535, help="Port. 0: the last one, or a free one."),
    ] = 0,
    name: Names = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
    reports: Annotated[
        Path | None,
        typer.Option(
            envvar="CRESS_PORTAL_REPORTS",
            metavar="DIR",
            help="Folder of reports of `cress replay` and `cress simulate`. Default: reports, in the data directory.",
        ),
    ] = None,
    data: Data = None,
    parent_pipe: Annotated[bool, typer.Option("--parent-pipe", hidden=True)] = False,
) -> None:
    """Show the cluster in a browser."""
    with told("portal", "portal"):
        from cress.client.config import data_directory
        from cress.client.found import found
        from cress.portal.server import run
        from cress.portal.settings import PortalSettings

        place = found(None, None, data)
        local = place.socket is not None and place.socket.parent == data_directory(data).absolute()
        folder = data_directory(data) if local else Path.home() / ".local" / "state" / "cress"
        link = None if parent_pipe or port else new_link(folder)
        if link is not None:
            print(f"Portal: {link}")
            return
        settings = PortalSettings(
            folder=folder,
            read_jobs=_read_jobs,
            data=data,
            host=host,
            port=port,
            names=tuple(name or ()),
            reports=reports or (folder / "reports" if local else None),
            tls_cert=tls_cert,
            tls_key=tls_key,
            parent_pipe=parent_pipe,
        )
        code = run(settings, lambda link: print(f"Portal: {link}", flush=True))
    raise typer.Exit(code)


def new_link(folder: Path, pid: int | None = None) -> str | None:
    """Return a link that opens the running portal of a data directory signed in, once; None if none runs.

    With ``pid`` it must be the portal of that process.
    """
    import httpx
    import msgspec

    from cress.portal.settings import PLACE, PortalPlace

    try:
        place = msgspec.json.decode((folder / PLACE).read_bytes(), type=PortalPlace)
        if pid not in {None, place.pid}:
            return None
        # The certificate is for the name in the address, and the secret is of use to this one portal only.
        with httpx.Client(timeout=5.0, trust_env=False, verify=False) as http:  # noqa: S501
            answer = http.post(f"{place.url}/codes", headers={"X-Portal-Secret": place.secret})
        return f"{place.url}/enter/{answer.json()['code']}" if answer.status_code == httpx.codes.OK else None
    except (OSError, msgspec.MsgspecError, httpx.HTTPError, ValueError, KeyError):
        return None


def _read_jobs(text: str) -> Sequence[WrittenJob]:
    """Return the jobs of a text. Raise InputError with the line."""
    from cress.cli.jobfile import jobs_of_text
    from cress.portal.settings import WrittenJob

    return [WrittenJob(entry.mapping, entry.line_of) for entry in jobs_of_text(text, "the job file", json=False)]
