"""``cress tls``: a certificate authority for the cluster, and its certificates."""

from __future__ import annotations

import shlex
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Json, Wide, count, duration_of, print_json, selection_of
from cress.cli.errors import told
from cress.cli.tables import TableColumn, clean, show
from cress.model.errors import InputError
from cress.model.times import DAY, SECOND

if TYPE_CHECKING:
    from cress.center.tls.certificates import Certificate

EPILOG = """\
\b
Examples:
  cress tls init --name center.example.com   make the cluster's authority and the center's certificate
  cress tls issue node7                      make the bundle of an executor, in the folder node7.tls
  cress tls revoke node7                     revoke all bundles of node7
  cress tls show                             list the certificates with their expiry dates

\b
The center renews its own certificate and those of connected executors; see docs/tls.md.
Exit codes: 0 done, 2 bad input.
"""
SHOW = """\
\b
Columns: certificate, names, from, until, left.
Exit codes: 0 done, 2 bad input (such as no certificates).
"""

LOCAL = ("localhost", "127.0.0.1", "::1")
LONGEST = 3650 * DAY
COLUMNS = (
    TableColumn("CERTIFICATE"),
    TableColumn("NAMES", gives=True),
    TableColumn("FROM", hides=1),
    TableColumn("UNTIL"),
    TableColumn("LEFT", right=True),
)

Directory = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="CRESS_DATA",
        help="Data directory of the center. Default: ~/.local/share/cress.",
    ),
]
Valid = Annotated[str, typer.Option("--valid", metavar="DURATION", help="Lifetime of the certificate.")]

app = typer.Typer(no_args_is_help=True, help="Make certificates for a cluster.", epilog=EPILOG, rich_markup_mode=None)


@app.command()
def init(
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Name or address of the center, in addition to those of this machine. Repeatable.",
        ),
    ] = None,
    valid: Valid = "365d",
    data: Directory = None,
) -> None:
    """Make an authority and the center's certificate; an existing authority is kept."""
    with told("tls init", "center"):
        from cress.center.keeping.file_names import TLS
        from cress.center.tls.authority import Authority
        from cress.client.config import data_directory

        life, place = _life(valid), data_directory(data)
        folder = place / TLS
        kept = Authority.is_in(folder)
        authority = Authority(folder) if kept else Authority.create(folder)
        made = authority.issue_center((*(name or ()), *_own_names()), life)
        print(
            f"{folder}: {'kept' if kept else 'made'} the authority, made the center's certificate for "
            f"{', '.join(made.names)}"
        )
        if not kept:
            print("`cress center` uses TLS from its next start on. Bundle for an executor: `cress tls issue NODE`")


@app.command()
def issue(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node, as in its executor's --name.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the bundle. Default: NODE.tls in the current directory."),
    ] = None,
    valid: Valid = "365d",
    data: Directory = None,
) -> None:
    """Make the bundle of an executor: its certificate, its key, and the certificate of the authority."""
    with told("tls issue", "center"):
        from cress.center.tls.authority import Authority, check_node

        check_node(node)
        bundle = out or Path(f"{node}.tls")
        made = Authority(_folder(data)).issue_node(node, bundle, _life(valid))
        print(f"{bundle}: the bundle of node {node}, valid until {_day(made.until)}")
        print(
            f"Copy it to the node, and start there: cress executor --tls {bundle} --name {node} --center "
            "wss://HOST:PORT"
        )


@app.command()
def revoke(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")], data: Directory = None
) -> None:
    """Revoke the certificates of a node; a running center closes its connection."""
    with told("tls revoke", "center"):
        from cress.center.tls.authority import Authority

        Authority(_folder(data)).revoke(node)
        print(f"node {node}: its certificates are revoked. A new bundle: {shlex.join(['cress', 'tls', 'issue', node])}")


@app.command("show", epilog=SHOW)
def show_(columns: Columns = "", wide: Wide = False, as_json: Json = False, data: Directory = None) -> None:
    """List the certificates of the cluster."""
    with told("tls show", "center"):
        from cress.center.keeping.file_names import CA
        from cress.center.keeping.file_names import CENTER_CERTIFICATE as CENTER
        from cress.center.tls.authority import Authority
        from cress.center.tls.certificates import facts_of, read_certificate

        folder = _folder(data)
        authority = Authority(folder)
        found = [("authority", facts_of(read_certificate(folder / CA)))]
        if (folder / CENTER).exists():
            found.append(("center", facts_of(read_certificate(folder / CENTER))))
        found += [(f"node {node}", facts) for node, facts in authority.nodes()]
        if as_json:
            print_json([{"certificate": what, **_fields(facts)} for what, facts in found])
            return
        rows = [
            [clean(what), clean(", ".join(value.names)), _day(value.since), _day(value.until), _left(value)]
            for what, value in found
        ]
        show(COLUMNS, rows, selection_of(columns, wide=wide))


def _folder(data: Path | None) -> Path:
    """Return the folder of the authority. Raise InputError if there is none."""
    from cress.center.keeping.file_names import TLS
    from cress.center.tls.authority import Authority
    from cress.client.config import data_directory

    folder = data_directory(data) / TLS
    if not Authority.is_in(folder):
        raise InputError("there is no certificate authority", hint="`cress tls init` makes one", file=str(folder))
    return folder


def _start(bundle: Path, node: str) -> str:
    words = ["cress", "executor", "--tls", str(bundle), "--name", node, "--center", "wss://HOST:PORT"]
    return shlex.join(words)


def _life(text: str) -> int:
    life = duration_of(text, "--valid")
    if not SECOND <= life <= LONGEST:
        raise InputError(f"{text} is not a valid lifetime of a certificate", hint="1s to 3650d", field="--valid")
    return life


def _own_names() -> list[str]:
    """Return the names of this machine that a certificate can hold."""
    host = socket.gethostname()
    return [*LOCAL, *([host] if host.isascii() and host.replace("-", "").replace(".", "").isalnum() else [])]


def _fields(facts: Certificate) -> dict[str, object]:
    import msgspec

    return msgspec.structs.asdict(facts)


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _left(facts: Certificate) -> str:
    left = facts.until - time.time()
    if left <= 0:
        return "expired"
    return count(int(left / 86_400), "day") if left >= 86_400 else f"{left / 3600:.1f} h"
