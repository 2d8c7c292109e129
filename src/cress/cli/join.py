"""``cress join``: a new node gets the bundle of its executor with a join token."""

from __future__ import annotations

import os
import shlex
import socket
import time
from pathlib import Path
from typing import Annotated

import typer

from cress.cli.common import read_text
from cress.cli.errors import told
from cress.model.errors import InputError

TOKEN = "CRESS_JOIN_TOKEN"  # noqa: S105 – the name of a variable
MOST_TOKEN = 4096
EPILOG = f"""\
\b
Examples:
  cress join https://center.example.com:7411 --token-file /run/join-token --out /etc/cress/tls
  {TOKEN}=$(cat token) cress join https://center.example.com:7411 --name node7
  ssh center cress token create node7 --join | cress join https://center.example.com:7411 --token-file -

\b
`cress token create NAME --join` makes the token; it is never given on the command line. The key is made on this machine
and never leaves it. A valid bundle is kept, so a start script may call `cress join` before `cress executor`.
Exit codes: 0 done, 2 bad input, 3 not accepted, or no center reachable.
"""


def join(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the center's API: https://HOST:PORT.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the node. Default: the host's name.")] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the bundle. Default: NODE.tls in the current directory."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"File with the join token; - is standard input. Default: ${TOKEN}."),
    ] = None,
) -> None:
    """Join a cluster as a node: make a key, get a certificate."""
    with told("join", "join"):
        from cress.client.join import join as join_cluster

        node = name or socket.gethostname()
        made = join_cluster(url, _token(token_file), node, out or Path(f"{node}.tls"))
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(made.until))
        if not made.executor_url:
            print(f"{made.bundle}: kept the bundle, valid until {until}; the center was not asked")
            return
        print(f"{made.bundle}: the bundle of node {node}, valid until {until}")
        start = ["cress", "executor", "--tls", str(made.bundle), "--name", node, "--center", made.executor_url]
        print(f"Start: {shlex.join(start)}")


def _token(file: Path | None) -> str:
    if file is not None:
        return read_text(file, "a join token", most=MOST_TOKEN).strip()
    text = os.environ.get(TOKEN, "").strip()
    if not text:
        raise InputError("there is no join token", hint=f"--token-file FILE, or {TOKEN}", field="--token-file")
    return text
