"""``cress token``: tokens for programs and machines that act for a user, and tokens for nodes that join."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, count, duration_of, print_json, selection_of
from cress.cli.default_verb import WithDefault
from cress.cli.errors import told
from cress.cli.tables import TableColumn, clean, show
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import JoinTokensPage, NewJoinToken, NewToken

EPILOG = """\
\b
Examples:
  cress token create ci --expires 30d             a token that acts as you; its text is shown this once
  cress token create watch --role viewer          a token that can only read
  cress token create robot --user etl             a token of another user (admins)
  cress token                                     your tokens; admins see all (the same: cress token list)
  cress token rotate ci                           replace its text; the old text no longer works
  cress token revoke ci
  cress token create rack7 --join --uses 20 --expires 1h --node 'rack7-*'
                                                  a token with which 20 nodes of these names join (operators;
                                                  cress join --help)

\b
Only the text goes to standard output: `CRESS_TOKEN=$(cress token create ci)`.
With --join, `list` and `revoke` apply to join tokens.
Columns: name, user, role, created, expires, id; of join tokens name, user, nodes, used, created, expires, id. A narrow
terminal leaves some out. Exit codes: 0 done, 2 bad input, 3 not accepted, or no center reachable.
"""

COLUMNS = (
    TableColumn("NAME", gives=True),
    TableColumn("USER", gives=True),
    TableColumn("ROLE"),
    TableColumn("CREATED", hides=2),
    TableColumn("EXPIRES"),
    TableColumn("ID", hides=1),
)

JOIN_COLUMNS = (
    TableColumn("NAME", gives=True),
    TableColumn("USER", gives=True),
    TableColumn("NODES", gives=True),
    TableColumn("USED", right=True),
    TableColumn("CREATED", hides=2),
    TableColumn("EXPIRES"),
    TableColumn("ID", hides=1),
)
# The default lifetime of a join token.
JOIN_LIFE = "1h"

app = typer.Typer(cls=WithDefault, help="Create, list and revoke tokens.", epilog=EPILOG, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]
Of = Annotated[str, typer.Option("--user", metavar="USER", help="Owner of the token. Default: you.")]
Expires = Annotated[
    str,
    typer.Option(metavar="DURATION", help=f"Lifetime, such as 30d. Default: no limit; for join tokens {JOIN_LIFE}."),
]
Join = Annotated[bool, typer.Option("--join", help="Use join tokens, with which nodes join the cluster.")]


@app.command("list")
def tokens(
    join: Join = False, columns: Columns = "", wide: Wide = False, as_json: Json = False, data: Data = None
) -> None:
    """List your tokens; for admins, all tokens."""
    with told("token"):
        from cress.client import calls

        if join:
            with connect(data) as client:
                _show_join_tokens(client.ask(calls.join_tokens()), columns, wide=wide, as_json=as_json)
            return
        with connect(data) as client:
            page = client.ask(calls.tokens())
        if as_json:
            print_json(page)
            return
        if not page.tokens:
            print("no tokens (`cress token create NAME`)")
            return
        rows = [
            [
                clean(token.name),
                clean(token.user),
                token.role,
                _moment(token.created),
                "never" if token.expires is None else "expired" if token.expired else _moment(token.expires),
                token.id,
            ]
            for token in page.tokens
        ]
        show(COLUMNS, rows, selection_of(columns, wide=wide))


@app.command()
def create(
    name: Name,
    expires: Expires = "",
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="Role: viewer, user, operator or admin. Default: yours.")
    ] = "",
    user: Of = "",
    join: Join = False,
    uses: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="With --join: number of nodes that may join. Default: 1."),
    ] = None,
    node: Annotated[
        str,
        typer.Option(metavar="PATTERN", help="With --join: allowed names of nodes, such as 'gpu-*'. Default: any."),
    ] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Create a token and print its text, which is shown only once."""
    with told("token create"):
        from cress.client import calls

        if join:
            if role or user:
                hint = "leave them out: joined nodes are not users"
                raise InputError("a join token has neither role nor user", hint=hint, field="--role, --user")
            seconds = duration_of(expires or JOIN_LIFE, "--expires") / 1e6
            call = calls.create_join_token(name, uses=uses or 1, expires=seconds, nodes=node or "*")
            with connect(data) as client:
                _print_join_token(client.ask(call), as_json=as_json)
            return
        if uses is not None or node:
            hint = "with --join; other tokens are used as often as one likes"
            raise InputError("--node and --uses apply only to join tokens", hint=hint, field="--uses, --node")
        life = duration_of(expires, "--expires") / 1e6 if expires else None
        with connect(data) as client:
            made = client.ask(calls.create_token(name, user=user, role=role, expires=life))
        _print(made, as_json=as_json)


@app.command()
def rotate(name: Name, expires: Expires = "", user: Of = "", as_json: Json = False, data: Data = None) -> None:
    """Replace a token by a new one of the same name; the old one no longer works."""
    with told("token rotate"):
        from cress.client import calls

        life = duration_of(expires, "--expires") / 1e6 if expires else None
        with connect(data) as client:
            made = client.ask(calls.create_token(name, user=user, expires=life, rotate=True))
        _print(made, as_json=as_json)


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or id of the token.")],
    user: Of = "",
    join: Join = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Revoke a token, so that it no longer works."""
    with told("token revoke"):
        from cress.client import calls

        with connect(data) as client:
            if join:
                gone = client.ask(calls.revoke_join_token(name))
                text = f"join token {clean(gone.name)} is revoked; nodes that have joined by it stay ({gone.used})"
                if as_json:
                    print_json(gone)
                else:
                    print(text)
                return
            view = client.ask(calls.revoke_token(name, user))
        if as_json:
            print_json(view)
        else:
            print(f"token {clean(view.name)} of {clean(view.user)} is revoked")


def _print(made: NewToken, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    token = made.token
    until = "does not expire" if token.expires is None else f"expires {_moment(token.expires)}"
    print(
        f"token {clean(token.name)} of {clean(token.user)}, role {token.role}, {until}; shown this once:",
        file=sys.stderr,
    )
    print(made.secret)


def _print_join_token(made: NewJoinToken, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    token = made.token
    nodes = "any name" if token.nodes == "*" else f"names {clean(token.nodes)}"
    print(
        f"join token {clean(token.name)} for {count(token.uses, 'node')} of {nodes}, expires {_moment(token.expires)}; "
        "shown this once (on the node: cress join URL --token-file FILE):",
        file=sys.stderr,
    )
    print(made.secret)


def _show_join_tokens(page: JoinTokensPage, columns: str, *, wide: bool, as_json: bool) -> None:
    if as_json:
        print_json(page)
        return
    if not page.tokens:
        print("no join tokens (`cress token create NAME --join`)")
        return
    rows = [
        [
            clean(token.name),
            clean(token.user),
            clean(token.nodes),
            f"{token.used} of {token.uses}",
            _moment(token.created),
            "expired" if token.expired else _moment(token.expires),
            token.id,
        ]
        for token in page.tokens
    ]
    show(JOIN_COLUMNS, rows, selection_of(columns, wide=wide))


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
